using System.Globalization;
using System.Text;

namespace Atelico.Json
{
    /// <summary>Writes the pieces that requests are made of. The same in every culture.</summary>
    public static class JsonText
    {
        /// <summary>A text as a JSON string, with its quotes.</summary>
        public static string Quote(string text)
        {
            var json = new StringBuilder();
            Quote(json, text);
            return json.ToString();
        }

        internal static void Quote(StringBuilder json, string text)
        {
            json.Append('"');
            foreach (char c in text ?? "")
            {
                if (c == '"' || c == '\\')
                {
                    json.Append('\\').Append(c);
                }
                else if (c < ' ')
                {
                    json.Append("\\u").Append(((int)c).ToString("x4", CultureInfo.InvariantCulture));
                }
                else
                {
                    json.Append(c);
                }
            }
            json.Append('"');
        }

        /// <summary>A number as JSON. What JSON cannot write (NaN, infinities) becomes null.</summary>
        public static string Number(double value)
        {
            return double.IsNaN(value) || double.IsInfinity(value)
                ? "null"
                : value.ToString("R", CultureInfo.InvariantCulture);
        }

        public static string Number(long value)
        {
            return value.ToString(CultureInfo.InvariantCulture);
        }
    }
}
