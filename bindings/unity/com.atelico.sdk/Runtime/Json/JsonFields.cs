using System.Collections.Generic;
using System.Text;

namespace Atelico.Json
{
    /// <summary>An object being written: names in order, values as JSON. The same name again replaces the value.</summary>
    internal sealed class JsonFields
    {
        private readonly List<KeyValuePair<string, string>> _fields = new List<KeyValuePair<string, string>>();

        public void Set(string name, string json)
        {
            var field = new KeyValuePair<string, string>(name, json);
            int known = _fields.FindIndex(other => other.Key == name);
            if (known >= 0)
            {
                _fields[known] = field;
            }
            else
            {
                _fields.Add(field);
            }
        }

        public void Set(string name, long? value)
        {
            if (value.HasValue)
            {
                Set(name, JsonText.Number(value.Value));
            }
        }

        public void Set(string name, double? value)
        {
            if (value.HasValue)
            {
                Set(name, JsonText.Number(value.Value));
            }
        }

        public string ToJson()
        {
            var json = new StringBuilder("{");
            foreach (KeyValuePair<string, string> field in _fields)
            {
                json.Append(json.Length > 1 ? "," : "");
                JsonText.Quote(json, field.Key);
                json.Append(':').Append(field.Value);
            }
            return json.Append('}').ToString();
        }
    }
}
