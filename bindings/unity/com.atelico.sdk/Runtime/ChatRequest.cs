using System.Collections.Generic;
using System.Text;
using Atelico.Json;

namespace Atelico
{
    /// <summary>
    /// A chat completion request. What is null keeps its default; docs/requests.md has the ranges. Values are checked by the
    /// library, whose error names the field.
    /// </summary>
    public sealed class ChatRequest
    {
        private readonly List<KeyValuePair<string, string>> _messages = new List<KeyValuePair<string, string>>();

        /// <param name="model">A model's name, alias or path.</param>
        public ChatRequest(string model)
        {
            Model = model;
        }

        public string Model { get; set; }

        /// <summary>Tokens of the answer at most.</summary>
        public int? MaxTokens { get; set; }

        /// <summary>0 always takes the most likely token.</summary>
        public double? Temperature { get; set; }

        public double? TopP { get; set; }

        public int? TopK { get; set; }

        public double? MinP { get; set; }

        /// <summary>The same seed gives the same text.</summary>
        public long? Seed { get; set; }

        /// <summary>The answer ends before any of these.</summary>
        public List<string> Stop { get; } = new List<string>();

        /// <summary>Who guesses tokens ahead: "auto", "prompt_lookup", "lookahead". Null: nobody.</summary>
        public string Proposer { get; set; }

        /// <summary>Tokens guessed per round at most.</summary>
        public int? DraftTokens { get; set; }

        /// <summary>"stochastic": guesses may change the text of a seed, and are right more often. Null: "exact".</summary>
        public string Acceptance { get; set; }

        /// <summary>A JSON schema that the answer follows. Null: free text.</summary>
        public string JsonSchema { get; set; }

        /// <summary>Any other field: its name and its value as JSON. Wins over the properties above.</summary>
        public Dictionary<string, string> Extra { get; } = new Dictionary<string, string>();

        /// <summary>Add a message. role: "system", "user" or "assistant".</summary>
        public ChatRequest Add(string role, string content)
        {
            _messages.Add(new KeyValuePair<string, string>(role, content));
            return this;
        }

        public ChatRequest System(string content)
        {
            return Add("system", content);
        }

        public ChatRequest User(string content)
        {
            return Add("user", content);
        }

        public ChatRequest Assistant(string content)
        {
            return Add("assistant", content);
        }

        public string ToJson()
        {
            var fields = new JsonFields();
            fields.Set("model", JsonText.Quote(Model));
            fields.Set("messages", MessagesJson());
            fields.Set("stream_options", "{\"include_usage\":true}"); // so that ChatResponse counts tokens
            fields.Set("max_tokens", MaxTokens);
            fields.Set("temperature", Temperature);
            fields.Set("top_p", TopP);
            fields.Set("top_k", TopK);
            fields.Set("min_p", MinP);
            fields.Set("seed", Seed);
            if (Stop.Count > 0)
            {
                fields.Set("stop", "[" + string.Join(",", Stop.ConvertAll(JsonText.Quote)) + "]");
            }
            if (Proposer != null)
            {
                var speculative = new JsonFields();
                speculative.Set("proposer", JsonText.Quote(Proposer));
                speculative.Set("k", DraftTokens);
                if (Acceptance != null)
                {
                    speculative.Set("acceptance", JsonText.Quote(Acceptance));
                }
                fields.Set("speculative", speculative.ToJson());
            }
            if (JsonSchema != null)
            {
                fields.Set("response_format", "{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"answer\",\"schema\":"
                    + JsonSchema + ",\"strict\":true}}");
            }
            foreach (KeyValuePair<string, string> field in Extra)
            {
                fields.Set(field.Key, field.Value);
            }
            return fields.ToJson();
        }

        private string MessagesJson()
        {
            var json = new StringBuilder("[");
            foreach (KeyValuePair<string, string> message in _messages)
            {
                json.Append(json.Length > 1 ? "," : "").Append("{\"role\":");
                JsonText.Quote(json, message.Key);
                json.Append(",\"content\":");
                JsonText.Quote(json, message.Value);
                json.Append('}');
            }
            return json.Append(']').ToString();
        }
    }
}
