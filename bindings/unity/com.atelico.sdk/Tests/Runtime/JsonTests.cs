using System;
using System.Globalization;
using System.Threading;
using Atelico.Json;
using NUnit.Framework;

namespace Atelico.Tests
{
    /// <summary>The JSON reader and writer; needs no native library.</summary>
    public sealed class JsonTests
    {
        private static void Refused(string json)
        {
            var exception = Assert.Throws<AtelicoException>(() => JsonValue.Parse(json));
            Assert.AreEqual(AtelicoResult.InvalidJson, exception.Code);
        }

        [Test]
        public void ValuesOfEveryKindAreRead()
        {
            JsonValue value = JsonValue.Parse(" {\"a\": [1, -2.5e3, true, false, null, \"x\", {}, []], \"b\": {\"c\": 7}} ");
            Assert.AreEqual(8, value["a"].Count);
            Assert.AreEqual(1L, value["a"][0].AsLong());
            Assert.AreEqual(-2500.0, value["a"][1].AsDouble());
            Assert.IsTrue(value["a"][2].AsBoolean());
            Assert.AreEqual(JsonKind.Null, value["a"][4].Kind);
            Assert.AreEqual("x", value["a"][5].AsString());
            Assert.AreEqual(7L, value["b"]["c"].AsLong());
        }

        [Test]
        public void WhatIsMissingReadsAsTheGivenValue()
        {
            JsonValue value = JsonValue.Parse("{\"a\": 1}");
            Assert.AreEqual("none", value["x"]["y"][3].AsString("none"));
            Assert.AreEqual(5L, value["a"]["b"].AsLong(5));
            Assert.IsTrue(!value["x"].Exists && value["x"].Items.Count == 0 && value["x"].Members.Count == 0);
        }

        [Test]
        public void EscapesAndSurrogatePairsAreRead()
        {
            Assert.AreEqual("é\U0001F30A\n\"\\/", JsonValue.Parse("\"\\u00e9\\ud83c\\uDF0A\\n\\\"\\\\\\/\"").AsString());
        }

        [Test]
        public void LargeAndLongNumbersAreRead()
        {
            Assert.AreEqual(long.MaxValue, JsonValue.Parse("9223372036854775807").AsLong());
            Assert.AreEqual(7L, JsonValue.Parse("1e400").AsLong(7));
            Assert.AreEqual(0.1, JsonValue.Parse("0.1").AsDouble());
        }

        [Test]
        public void OfSeveralMembersWithOneNameTheLastCounts()
        {
            Assert.AreEqual(2L, JsonValue.Parse("{\"a\": 1, \"a\": 2}")["a"].AsLong());
        }

        [Test]
        public void WhatIsNotJsonIsRefused()
        {
            foreach (string json in new[]
            {
                "", " ", "{", "[", "\"", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "[1,]", "[1 2]", "01", "1.", ".5", "+1", "-",
                "1e", "tru", "nulll", "'a'", "{a:1}", "\"\\x\"", "\"\\u12g4\"", "\"\n\"", "[1]]", "NaN", "\"\\"
            })
            {
                Refused(json);
            }
            Refused(null);
        }

        [Test]
        public void EveryBeginningOfAJsonTextIsRefusedOrRead()
        {
            const string json = "{\"a\":[1.5,\"b\\u00e9\\n\",{\"c\":null}],\"d\":true}";
            for (int length = 0; length < json.Length; length++)
            {
                Refused(json.Substring(0, length));
            }
            Assert.AreEqual(2, JsonValue.Parse(json).Count);
        }

        [Test]
        public void NestingIsLimited()
        {
            Assert.AreEqual(1, JsonValue.Parse(new string('[', 200) + new string(']', 200)).Count);
            Refused(new string('[', 100000) + new string(']', 100000));
        }

        [Test]
        public void TextIsQuotedAndReadBackTheSame()
        {
            foreach (string text in new[]
            {
                "", "plain", "Grüße 世界 \U0001F30A", "\"quotes\" \\ / \b\f\n\r\t", "\u0000\u001f\u007f\u2028",
                "\U0001F469\u200D\U0001F680"
            })
            {
                Assert.AreEqual(text, JsonValue.Parse(JsonText.Quote(text)).AsString());
            }
        }

        [Test]
        public void NumbersAreTheSameInEveryCulture()
        {
            CultureInfo before = Thread.CurrentThread.CurrentCulture;
            var comma = (CultureInfo)CultureInfo.InvariantCulture.Clone();
            comma.NumberFormat.NumberDecimalSeparator = ",";
            comma.NumberFormat.NegativeSign = "~";
            Thread.CurrentThread.CurrentCulture = comma;
            try
            {
                Assert.AreEqual("0.7", JsonText.Number(0.7));
                Assert.AreEqual("-3", JsonText.Number(-3L));
                Assert.AreEqual(-1.5, JsonValue.Parse("-1.5").AsDouble());
                Assert.AreEqual("null", JsonText.Number(double.NaN));
            }
            finally
            {
                Thread.CurrentThread.CurrentCulture = before;
            }
        }
    }
}
