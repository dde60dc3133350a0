using System.Collections.Generic;
using System.Globalization;

namespace Atelico.Json
{
    public enum JsonKind
    {
        Missing,
        Null,
        Boolean,
        Number,
        String,
        Array,
        Object
    }

    /// <summary>
    /// A JSON value. Looking up what is not there gives a value of kind Missing, never null and never an exception, so that
    /// lookups can be chained: <c>value["choices"][0]["message"]["content"].AsString()</c>.
    /// </summary>
    public sealed class JsonValue
    {
        public static readonly JsonValue Missing = new JsonValue(JsonKind.Missing, null, null, null);

        private static readonly JsonValue[] NoItems = new JsonValue[0];
        private static readonly KeyValuePair<string, JsonValue>[] NoMembers = new KeyValuePair<string, JsonValue>[0];

        private readonly string _text; // a string's text, a number as it is written, "true" or "false"
        private readonly List<JsonValue> _items;
        private readonly List<KeyValuePair<string, JsonValue>> _members;

        private JsonValue(
            JsonKind kind, string text, List<JsonValue> items, List<KeyValuePair<string, JsonValue>> members)
        {
            Kind = kind;
            _text = text;
            _items = items;
            _members = members;
        }

        public JsonKind Kind { get; }

        public bool Exists
        {
            get { return Kind != JsonKind.Missing; }
        }

        /// <summary>Elements of an array or members of an object.</summary>
        public int Count
        {
            get { return _items != null ? _items.Count : _members != null ? _members.Count : 0; }
        }

        /// <summary>The elements of an array; none for anything else.</summary>
        public IReadOnlyList<JsonValue> Items
        {
            get { return _items != null ? (IReadOnlyList<JsonValue>)_items : NoItems; }
        }

        /// <summary>The members of an object, in their order; none for anything else.</summary>
        public IReadOnlyList<KeyValuePair<string, JsonValue>> Members
        {
            get { return _members != null ? (IReadOnlyList<KeyValuePair<string, JsonValue>>)_members : NoMembers; }
        }

        /// <summary>An object's member. Of several with the same key, the last.</summary>
        public JsonValue this[string key]
        {
            get
            {
                for (int i = (_members != null ? _members.Count : 0) - 1; i >= 0; i--)
                {
                    if (_members[i].Key == key)
                    {
                        return _members[i].Value;
                    }
                }
                return Missing;
            }
        }

        /// <summary>An array's element.</summary>
        public JsonValue this[int index]
        {
            get { return _items != null && index >= 0 && index < _items.Count ? _items[index] : Missing; }
        }

        /// <summary>Read a JSON text.</summary>
        /// <exception cref="AtelicoException">It is not JSON (InvalidJson).</exception>
        public static JsonValue Parse(string json)
        {
            return JsonReader.Read(json);
        }

        /// <summary>A string's text; <paramref name="otherwise"/> for anything else.</summary>
        public string AsString(string otherwise = null)
        {
            return Kind == JsonKind.String ? _text : otherwise;
        }

        public bool AsBoolean(bool otherwise = false)
        {
            return Kind == JsonKind.Boolean ? _text == "true" : otherwise;
        }

        public double AsDouble(double otherwise = 0)
        {
            double value;
            return Kind == JsonKind.Number
                && double.TryParse(_text, NumberStyles.Float, CultureInfo.InvariantCulture, out value)
                ? value
                : otherwise;
        }

        public long AsLong(long otherwise = 0)
        {
            long value;
            if (Kind == JsonKind.Number
                && long.TryParse(_text, NumberStyles.AllowLeadingSign, CultureInfo.InvariantCulture, out value))
            {
                return value;
            }
            double real = AsDouble(double.NaN);
            return real > -9.2e18 && real < 9.2e18 ? (long)real : otherwise;
        }

        internal static JsonValue OfText(JsonKind kind, string text)
        {
            return new JsonValue(kind, text, null, null);
        }

        internal static JsonValue OfItems(List<JsonValue> items)
        {
            return new JsonValue(JsonKind.Array, null, items, null);
        }

        internal static JsonValue OfMembers(List<KeyValuePair<string, JsonValue>> members)
        {
            return new JsonValue(JsonKind.Object, null, null, members);
        }
    }
}
