using Atelico.Json;
using NUnit.Framework;

namespace Atelico.Tests
{
    /// <summary>Requests and configurations as they are written; needs no native library.</summary>
    public sealed class RequestTests
    {
        [Test]
        public void MessagesKeepTheirOrder()
        {
            var request = new ChatRequest("npc");
            request.System("Be brief.").User("Say \"hi\"").Assistant("hi");
            JsonValue messages = JsonValue.Parse(request.ToJson())["messages"];
            Assert.AreEqual(3, messages.Count);
            Assert.AreEqual("system", messages[0]["role"].AsString());
            Assert.AreEqual("Say \"hi\"", messages[1]["content"].AsString());
            Assert.AreEqual("assistant", messages[2]["role"].AsString());
        }

        [Test]
        public void WhatIsNotSetIsNotWritten()
        {
            JsonValue json = JsonValue.Parse(new ChatRequest("npc").User("Hi").ToJson());
            Assert.IsTrue(!json["temperature"].Exists && !json["speculative"].Exists && !json["stop"].Exists);
        }

        [Test]
        public void OptionsAreWritten()
        {
            var request = new ChatRequest("npc")
            {
                MaxTokens = 8, Temperature = 0, Seed = -1, Proposer = "auto", DraftTokens = 3,
                Acceptance = "stochastic", JsonSchema = "{\"const\":1}"
            };
            request.Stop.Add("\n");
            request.User("Hi");
            JsonValue json = JsonValue.Parse(request.ToJson());
            Assert.AreEqual(8L, json["max_tokens"].AsLong());
            Assert.AreEqual(0.0, json["temperature"].AsDouble(9));
            Assert.AreEqual(-1L, json["seed"].AsLong());
            Assert.AreEqual("\n", json["stop"][0].AsString());
            Assert.AreEqual(3L, json["speculative"]["k"].AsLong());
            Assert.AreEqual("stochastic", json["speculative"]["acceptance"].AsString());
            Assert.AreEqual(1L, json["response_format"]["json_schema"]["schema"]["const"].AsLong());
        }

        [Test]
        public void ExtraFieldsWin()
        {
            var request = new ChatRequest("npc") { Temperature = 1 };
            request.Extra["temperature"] = "0.5";
            request.Extra["atelico"] = "{\"priority\":\"low\"}";
            JsonValue json = JsonValue.Parse(request.ToJson());
            Assert.AreEqual(0.5, json["temperature"].AsDouble());
            Assert.AreEqual("low", json["atelico"]["priority"].AsString());
        }

        [Test]
        public void ConfigurationIsWritten()
        {
            var config = new AtelicoConfig { ContextTokens = 512 };
            config.ModelFolders.Add("C:\\Spiele\\日本");
            config.Aliases["npc"] = "a/b";
            JsonValue json = JsonValue.Parse(config.ToJson());
            Assert.AreEqual("C:\\Spiele\\日本", json["model_folders"][0].AsString());
            Assert.AreEqual("a/b", json["aliases"]["npc"].AsString());
            Assert.AreEqual(512L, json["n_ctx"].AsLong());
            Assert.IsTrue(!json["n_threads"].Exists);
        }
    }
}
