using System.Collections.Generic;
using System.Text;
using Atelico.Json;

namespace Atelico
{
    /// <summary>One of the answers; there is more than one only where the request's "n" asks for it.</summary>
    public sealed class ChatChoice
    {
        internal readonly StringBuilder TextSoFar = new StringBuilder();
        internal readonly StringBuilder ReasoningSoFar = new StringBuilder();

        public string Text
        {
            get { return TextSoFar.ToString(); }
        }

        /// <summary>The thoughts of a thinking model. Not for the player's eyes.</summary>
        public string Reasoning
        {
            get { return ReasoningSoFar.ToString(); }
        }

        /// <summary>"stop", "length" or "cancelled".</summary>
        public string FinishReason { get; internal set; }
    }

    /// <summary>What speculation did; where it was not active, Reason says why.</summary>
    public sealed class SpeculationInfo
    {
        internal SpeculationInfo(JsonValue json)
        {
            Proposer = json["proposer"].AsString();
            Active = json["active"].AsBoolean();
            Reason = json["reason"].AsString();
            Rounds = (int)json["rounds"].AsLong();
            Proposed = (int)json["proposed"].AsLong();
            Accepted = (int)json["accepted"].AsLong();
            var sources = new Dictionary<string, int>();
            foreach (KeyValuePair<string, JsonValue> source in json["sources"].Members)
            {
                sources[source.Key] = (int)source.Value.AsLong();
            }
            Sources = sources;
        }

        public string Proposer { get; }

        public bool Active { get; }

        public string Reason { get; }

        /// <summary>Forward passes that carried a draft.</summary>
        public int Rounds { get; }

        /// <summary>Guessed tokens.</summary>
        public int Proposed { get; }

        /// <summary>Guessed tokens that were right.</summary>
        public int Accepted { get; }

        /// <summary>Accepted tokens by where they came from.</summary>
        public IReadOnlyDictionary<string, int> Sources { get; }
    }

    /// <summary>Milliseconds of each phase, and tokens per second (0 for an answer of one token).</summary>
    public sealed class TimingInfo
    {
        internal TimingInfo(JsonValue json)
        {
            QueueMs = json["queue_ms"].AsDouble();
            LoadMs = json["load_ms"].AsDouble();
            PromptMs = json["prompt_ms"].AsDouble();
            FirstTokenMs = json["first_token_ms"].AsDouble();
            DecodeMs = json["decode_ms"].AsDouble();
            TokensPerSecond = json["tokens_per_second"].AsDouble();
        }

        public double QueueMs { get; }

        public double LoadMs { get; }

        public double PromptMs { get; }

        public double FirstTokenMs { get; }

        public double DecodeMs { get; }

        public double TokensPerSecond { get; }
    }

    /// <summary>A finished answer.</summary>
    public sealed class ChatResponse
    {
        private const int MaxChoices = 128; // the protocol's limit for "n"

        private readonly List<ChatChoice> _choices = new List<ChatChoice> { new ChatChoice() };

        internal ChatResponse()
        {
            Speculation = new SpeculationInfo(JsonValue.Missing);
            Timings = new TimingInfo(JsonValue.Missing);
            Warnings = new string[0];
        }

        public string Text
        {
            get { return _choices[0].Text; }
        }

        /// <summary>"stop", "length" (cut by MaxTokens or the context) or "cancelled".</summary>
        public string FinishReason
        {
            get { return _choices[0].FinishReason; }
        }

        /// <summary>At least one.</summary>
        public IReadOnlyList<ChatChoice> Choices
        {
            get { return _choices; }
        }

        public string Model { get; private set; }

        public int PromptTokens { get; private set; }

        public int CompletionTokens { get; private set; }

        /// <summary>Prompt tokens that did not have to be read again.</summary>
        public int CachedTokens { get; private set; }

        public string Device { get; private set; }

        public SpeculationInfo Speculation { get; private set; }

        public TimingInfo Timings { get; private set; }

        /// <summary>What could not be done as asked.</summary>
        public IReadOnlyList<string> Warnings { get; private set; }

        /// <summary>Read the answer as JSON, where the request had a schema.</summary>
        /// <exception cref="AtelicoException">It is not JSON; so an answer that was cut (InvalidJson).</exception>
        public JsonValue ParseText()
        {
            return JsonValue.Parse(Text);
        }

        internal static ChatResponse FromJson(JsonValue body)
        {
            var response = new ChatResponse();
            foreach (JsonValue choice in body["choices"].Items)
            {
                ChatChoice to = response.ChoiceOf(choice);
                to.TextSoFar.Append(choice["message"]["content"].AsString());
                to.ReasoningSoFar.Append(choice["message"]["reasoning_content"].AsString());
                to.FinishReason = choice["finish_reason"].AsString();
            }
            response.ReadInfo(body);
            return response;
        }

        internal ChatChoice ChoiceOf(JsonValue choice)
        {
            long index = choice["index"].AsLong();
            index = index >= 0 && index < MaxChoices ? index : 0;
            while (_choices.Count <= index)
            {
                _choices.Add(new ChatChoice());
            }
            return _choices[(int)index];
        }

        /// <summary>Take over what a response, or a chunk, says beside its text.</summary>
        internal void ReadInfo(JsonValue body)
        {
            Model = Model ?? body["model"].AsString();
            JsonValue usage = body["usage"];
            if (usage.Kind == JsonKind.Object)
            {
                PromptTokens = (int)usage["prompt_tokens"].AsLong();
                CompletionTokens = (int)usage["completion_tokens"].AsLong();
            }
            JsonValue info = body["atelico"];
            if (info.Kind != JsonKind.Object)
            {
                return;
            }
            Speculation = new SpeculationInfo(info["speculation"]);
            Timings = new TimingInfo(info["timings"]);
            CachedTokens = (int)info["cached_tokens"].AsLong();
            Device = info["device"].AsString();
            var warnings = new List<string>();
            foreach (JsonValue warning in info["warnings"].Items)
            {
                warnings.Add(warning.AsString());
            }
            Warnings = warnings;
        }
    }
}
