using System.Collections.Generic;
using System.Text;

namespace Atelico.Json
{
    /// <summary>Reads JSON as RFC 8259 has it: nothing more is accepted. Nesting is limited, so no stack overflows.</summary>
    internal sealed class JsonReader
    {
        private const int MaxDepth = 256;

        private readonly string _json;
        private int _at;

        private JsonReader(string json)
        {
            _json = json;
        }

        public static JsonValue Read(string json)
        {
            var reader = new JsonReader(json ?? "");
            JsonValue value = reader.ReadValue(0);
            reader.SkipSpace();
            if (reader._at != reader._json.Length)
            {
                throw reader.Wrong("the end");
            }
            return value;
        }

        private JsonValue ReadValue(int depth)
        {
            if (depth > MaxDepth)
            {
                throw new AtelicoException(AtelicoResult.InvalidJson, "The JSON is nested more than " + MaxDepth + " levels deep.");
            }
            SkipSpace();
            switch (Peek())
            {
                case '{': return ReadObject(depth);
                case '[': return ReadArray(depth);
                case '"': return JsonValue.OfText(JsonKind.String, ReadString());
                case 't': return ReadWord("true", JsonKind.Boolean);
                case 'f': return ReadWord("false", JsonKind.Boolean);
                case 'n': return ReadWord("null", JsonKind.Null);
                default: return ReadNumber();
            }
        }

        private JsonValue ReadObject(int depth)
        {
            var members = new List<KeyValuePair<string, JsonValue>>();
            _at++;
            SkipSpace();
            if (Peek() == '}')
            {
                _at++;
                return JsonValue.OfMembers(members);
            }
            while (true)
            {
                SkipSpace();
                if (Peek() != '"')
                {
                    throw Wrong("a key in quotes");
                }
                string key = ReadString();
                SkipSpace();
                Take(':');
                members.Add(new KeyValuePair<string, JsonValue>(key, ReadValue(depth + 1)));
                SkipSpace();
                if (Peek() == '}')
                {
                    _at++;
                    return JsonValue.OfMembers(members);
                }
                Take(',');
            }
        }

        private JsonValue ReadArray(int depth)
        {
            var items = new List<JsonValue>();
            _at++;
            SkipSpace();
            if (Peek() == ']')
            {
                _at++;
                return JsonValue.OfItems(items);
            }
            while (true)
            {
                items.Add(ReadValue(depth + 1));
                SkipSpace();
                if (Peek() == ']')
                {
                    _at++;
                    return JsonValue.OfItems(items);
                }
                Take(',');
            }
        }

        private string ReadString()
        {
            int begin = ++_at;
            while (_at < _json.Length && _json[_at] != '"' && _json[_at] != '\\' && _json[_at] >= ' ')
            {
                _at++;
            }
            if (Peek() == '"')
            {
                return _json.Substring(begin, _at++ - begin); // no escapes: the usual case
            }
            var text = new StringBuilder(_json, begin, _at - begin, 256);
            while (Peek() != '"')
            {
                char c = Peek();
                if (_at >= _json.Length || c < ' ')
                {
                    throw Wrong("the end of a string");
                }
                _at++;
                text.Append(c == '\\' ? ReadEscape() : c);
            }
            _at++;
            return text.ToString();
        }

        private char ReadEscape()
        {
            char c = Peek();
            _at++;
            switch (c)
            {
                case '"':
                case '\\':
                case '/': return c;
                case 'b': return '\b';
                case 'f': return '\f';
                case 'n': return '\n';
                case 'r': return '\r';
                case 't': return '\t';
                case 'u': return ReadHex();
                default:
                    _at--;
                    throw Wrong("an escape");
            }
        }

        private char ReadHex()
        {
            int value = 0;
            for (int n = 0; n < 4; n++, _at++)
            {
                char c = Peek();
                int digit = c >= '0' && c <= '9' ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                    : -1;
                if (digit < 0)
                {
                    throw Wrong("four hex digits");
                }
                value = value * 16 + digit;
            }
            return (char)value;
        }

        private JsonValue ReadNumber()
        {
            int begin = _at;
            if (Peek() == '-')
            {
                _at++;
            }
            if (Peek() == '0')
            {
                _at++;
            }
            else
            {
                ReadDigits();
            }
            if (Peek() == '.')
            {
                _at++;
                ReadDigits();
            }
            if (Peek() == 'e' || Peek() == 'E')
            {
                _at++;
                if (Peek() == '+' || Peek() == '-')
                {
                    _at++;
                }
                ReadDigits();
            }
            return JsonValue.OfText(JsonKind.Number, _json.Substring(begin, _at - begin));
        }

        private void ReadDigits()
        {
            int begin = _at;
            while (Peek() >= '0' && Peek() <= '9')
            {
                _at++;
            }
            if (_at == begin)
            {
                throw Wrong("a value");
            }
        }

        private JsonValue ReadWord(string word, JsonKind kind)
        {
            if (string.CompareOrdinal(_json, _at, word, 0, word.Length) != 0)
            {
                throw Wrong("a value");
            }
            _at += word.Length;
            return JsonValue.OfText(kind, word);
        }

        private void SkipSpace()
        {
            while (_at < _json.Length && (_json[_at] == ' ' || _json[_at] == '\n' || _json[_at] == '\r' || _json[_at] == '\t'))
            {
                _at++;
            }
        }

        private char Peek()
        {
            return _at < _json.Length ? _json[_at] : '\0';
        }

        private void Take(char expected)
        {
            if (Peek() != expected)
            {
                throw Wrong("'" + expected + "'");
            }
            _at++;
        }

        private AtelicoException Wrong(string expected)
        {
            string found = _at < _json.Length ? "'" + _json[_at] + "'" : "the end of the text";
            return new AtelicoException(
                AtelicoResult.InvalidJson, "Not valid JSON at position " + _at + ": expected " + expected + ", found " + found + ".");
        }
    }
}
