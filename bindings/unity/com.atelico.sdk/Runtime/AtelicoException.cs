using System;

namespace Atelico
{
    /// <summary>Why a call or a request failed. The message says what was wrong and what to do.</summary>
    public sealed class AtelicoException : Exception
    {
        public AtelicoException(AtelicoResult code, string message, string param = null, string type = null)
            : base(string.IsNullOrEmpty(message) ? "atelico failed with " + code + "." : message)
        {
            Code = code;
            Param = param;
            Type = type;
        }

        public AtelicoResult Code { get; }

        /// <summary>The request's field, such as "messages[0].role"; null where none is to blame.</summary>
        public string Param { get; }

        /// <summary>OpenAI's error type, or null.</summary>
        public string Type { get; }
    }
}
