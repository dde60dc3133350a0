using System;
using System.Text;

namespace Atelico.Native
{
    /// <summary>Between C# strings and the library's UTF-8. Nothing is replaced silently.</summary>
    public static class Utf8
    {
        private static readonly UTF8Encoding Strict = new UTF8Encoding(false, true);

        /// <summary><paramref name="text"/> as UTF-8 with a NUL at the end.</summary>
        /// <exception cref="AtelicoException">It has a lone surrogate or a NUL (InvalidArgument).</exception>
        public static byte[] Terminated(string what, string text)
        {
            text = text ?? "";
            if (text.IndexOf('\0') >= 0)
            {
                throw new AtelicoException(
                    AtelicoResult.InvalidArgument, "The " + what + " contains a NUL character. In JSON, write it as \\u0000.");
            }
            try
            {
                var bytes = new byte[Strict.GetByteCount(text) + 1];
                Strict.GetBytes(text, 0, text.Length, bytes, 0);
                return bytes;
            }
            catch (EncoderFallbackException exception)
            {
                throw new AtelicoException(
                    AtelicoResult.InvalidArgument,
                    "The " + what + " has half of a surrogate pair at position " + exception.Index
                        + ". Cut texts between whole characters.");
            }
        }

        /// <summary>The first bytes of a buffer that the library has filled.</summary>
        public static string Text(byte[] buffer, int length)
        {
            return Encoding.UTF8.GetString(buffer, 0, length);
        }
    }
}
