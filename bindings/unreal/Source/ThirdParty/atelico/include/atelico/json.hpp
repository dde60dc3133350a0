// JSON as far as the wrapper needs it: quoting text, writing numbers, and a view that reads values out of what the
// library returns. It builds no tree and validates nothing: what is malformed reads as missing.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace atelico::json {

// Append `text` (UTF-8) as a JSON string.
inline void quote(std::string &out, std::string_view text) {
    static constexpr char hex[] = "0123456789abcdef";
    out += '"';
    for (const char c : text) {
        if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (static_cast<unsigned char>(c) < 0x20) {
            out += "\\u00";
            out += hex[static_cast<unsigned char>(c) >> 4];
            out += hex[c & 15];
        } else {
            out += c;
        }
    }
    out += '"';
}

inline std::string quoted(std::string_view text) {
    std::string out;
    quote(out, text);
    return out;
}

// `value` as JSON, the same in every locale. What JSON cannot write (NaN, infinities) becomes null.
inline std::string number(double value) {
    if (!std::isfinite(value)) return "null";
    char text[40];
    std::snprintf(text, sizeof text, "%.15g", value);
    if (std::strtod(text, nullptr) < value || std::strtod(text, nullptr) > value)
        std::snprintf(text, sizeof text, "%.17g", value);
    std::string out;
    bool in_point = false; // some locales have a decimal point of several bytes
    for (const char *c = text; *c != '\0'; c++) {
        const bool plain = (*c >= '0' && *c <= '9') || *c == '+' || *c == '-' || *c == 'e';
        if (plain || !in_point) out += plain ? *c : '.';
        in_point = !plain;
    }
    return out;
}

namespace detail {

inline std::size_t skip_space(std::string_view text, std::size_t i) noexcept {
    while (i < text.size() && (text[i] == ' ' || text[i] == '\n' || text[i] == '\r' || text[i] == '\t')) i++;
    return i;
}

// The end of the string that begins at `i`, past its closing quote.
inline std::size_t skip_string(std::string_view text, std::size_t i) noexcept {
    for (i++; i < text.size() && text[i] != '"'; i++)
        if (text[i] == '\\') i++;
    return i < text.size() ? i + 1 : text.size();
}

// The end of the value that begins at `i`. Not recursive: nesting costs no stack.
inline std::size_t skip_value(std::string_view text, std::size_t i) noexcept {
    std::size_t depth = 0;
    while (i < text.size()) {
        const char c = text[i];
        if (c == '"') {
            i = skip_string(text, i);
        } else if (c == '{' || c == '[') {
            depth++;
            i++;
        } else if (c == '}' || c == ']') {
            if (depth == 0) return i;
            depth--;
            i++;
        } else if (depth == 0) {
            while (i < text.size() && text[i] != ',' && text[i] != '}' && text[i] != ']' && text[i] != ' ' &&
                   text[i] != '\n' && text[i] != '\r' && text[i] != '\t')
                i++;
            return i;
        } else {
            i++;
        }
        if (depth == 0) return i;
    }
    return text.size();
}

inline void append_utf8(std::string &out, std::uint32_t c) {
    if (c < 0x80) {
        out += static_cast<char>(c);
        return;
    }
    if (c < 0x800) {
        out += static_cast<char>(0xC0 | (c >> 6));
    } else {
        if (c < 0x10000) {
            out += static_cast<char>(0xE0 | (c >> 12));
        } else {
            out += static_cast<char>(0xF0 | (c >> 18));
            out += static_cast<char>(0x80 | ((c >> 12) & 0x3F));
        }
        out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    }
    out += static_cast<char>(0x80 | (c & 0x3F));
}

// The four hex digits at `i`, or 0xFFFFFFFF.
inline std::uint32_t hex4(std::string_view text, std::size_t i) noexcept {
    if (i + 4 > text.size()) return 0xFFFFFFFFu;
    std::uint32_t value = 0;
    for (std::size_t n = 0; n < 4; n++) {
        const char c = text[i + n];
        value <<= 4;
        if (c >= '0' && c <= '9')
            value |= static_cast<std::uint32_t>(c - '0');
        else if ((c | 32) >= 'a' && (c | 32) <= 'f')
            value |= static_cast<std::uint32_t>((c | 32) - 'a' + 10);
        else
            return 0xFFFFFFFFu;
    }
    return value;
}

// Append the text of a JSON string's inside (without its quotes). Lone surrogates become U+FFFD.
inline void append_unescaped(std::string &out, std::string_view inside) {
    for (std::size_t i = 0; i < inside.size(); i++) {
        if (inside[i] != '\\') {
            out += inside[i];
            continue;
        }
        if (++i == inside.size()) return;
        switch (inside[i]) {
        case 'n': out += '\n'; break;
        case 't': out += '\t'; break;
        case 'r': out += '\r'; break;
        case 'b': out += '\b'; break;
        case 'f': out += '\f'; break;
        case 'u': {
            std::uint32_t c = hex4(inside, i + 1);
            if (c > 0xFFFF) return;
            i += 4;
            if (c >= 0xD800 && c < 0xDC00 && i + 2 < inside.size() && inside[i + 1] == '\\' && inside[i + 2] == 'u') {
                const std::uint32_t low = hex4(inside, i + 3);
                if (low >= 0xDC00 && low < 0xE000) {
                    c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
                    i += 6;
                }
            }
            append_utf8(out, c >= 0xD800 && c < 0xE000 ? 0xFFFDu : c);
            break;
        }
        default: out += inside[i]; // " \ /
        }
    }
}

} // namespace detail

// A value inside a JSON text that somebody else keeps alive. Copying is free; looking up scans the text.
class View {
  public:
    View() = default;
    explicit View(std::string_view text) noexcept {
        const std::size_t begin = detail::skip_space(text, 0);
        text_ = text.substr(begin, detail::skip_value(text, begin) - begin);
    }

    // Whether there is a value, also null. What is missing reads as an empty or the given value.
    bool exists() const noexcept { return !text_.empty(); }
    bool is_null() const noexcept { return text_ == "null"; }
    bool is_string() const noexcept { return text_.size() >= 2 && text_[0] == '"'; }
    // The JSON text of this value.
    std::string_view raw() const noexcept { return text_; }

    // The member `key` of an object.
    View operator[](std::string_view key) const {
        View found;
        each_member([&](const std::string &name, View value) {
            if (!found.exists() && name == key) found = value;
        });
        return found;
    }

    // Call visit(View) for each element of an array.
    template <typename Visit> void each(Visit &&visit) const {
        if (text_.empty() || text_[0] != '[') return;
        for (std::size_t i = detail::skip_space(text_, 1); i < text_.size() && text_[i] != ']';) {
            const std::size_t end = detail::skip_value(text_, i);
            if (end == i) return;
            visit(View(text_.substr(i, end - i)));
            i = detail::skip_space(text_, end);
            if (i < text_.size() && text_[i] == ',') i = detail::skip_space(text_, i + 1);
        }
    }

    // Call visit(const std::string &key, View) for each member of an object.
    template <typename Visit> void each_member(Visit &&visit) const {
        if (text_.empty() || text_[0] != '{') return;
        std::string key;
        for (std::size_t i = detail::skip_space(text_, 1); i < text_.size() && text_[i] == '"';) {
            const std::size_t key_end = detail::skip_string(text_, i);
            key.clear();
            detail::append_unescaped(key, text_.substr(i + 1, key_end - i - 2));
            i = detail::skip_space(text_, key_end);
            if (i >= text_.size() || text_[i] != ':') return;
            i = detail::skip_space(text_, i + 1);
            const std::size_t end = detail::skip_value(text_, i);
            if (end == i) return;
            visit(static_cast<const std::string &>(key), View(text_.substr(i, end - i)));
            i = detail::skip_space(text_, end);
            if (i < text_.size() && text_[i] == ',') i = detail::skip_space(text_, i + 1);
        }
    }

    // Append this string's text, if it is a string.
    void append_to(std::string &out) const {
        if (is_string()) detail::append_unescaped(out, text_.substr(1, text_.size() - 2));
    }
    std::string string() const {
        std::string out;
        append_to(out);
        return out;
    }
    bool boolean(bool otherwise = false) const noexcept {
        return text_ == "true" ? true : text_ == "false" ? false : otherwise;
    }
    std::int64_t integer(std::int64_t otherwise = 0) const noexcept {
        const double value = real(static_cast<double>(otherwise));
        return value > -9.2e18 && value < 9.2e18 ? static_cast<std::int64_t>(value) : otherwise;
    }
    // The number, the same in every locale; exact for up to 15 digits and exponents up to 22, else to about 1e-15.
    double real(double otherwise = 0.0) const noexcept {
        std::size_t i = 0;
        const bool negative = !text_.empty() && text_[0] == '-';
        if (negative) i++;
        if (i >= text_.size() || text_[i] < '0' || text_[i] > '9') return otherwise;
        double digits = 0.0;
        int exponent = 0;
        bool fraction = false;
        for (; i < text_.size(); i++) {
            if (text_[i] == '.' && !fraction) {
                fraction = true;
            } else if (text_[i] >= '0' && text_[i] <= '9') {
                digits = digits * 10.0 + (text_[i] - '0');
                if (fraction) exponent--;
            } else {
                break;
            }
        }
        if (i < text_.size() && (text_[i] | 32) == 'e') {
            bool down = false;
            int given = 0;
            i++;
            if (i < text_.size() && (text_[i] == '+' || text_[i] == '-')) down = text_[i++] == '-';
            for (; i < text_.size() && text_[i] >= '0' && text_[i] <= '9' && given < 10000; i++)
                given = given * 10 + (text_[i] - '0');
            exponent += down ? -given : given;
        }
        const double scaled = exponent < 0 ? digits / std::pow(10.0, -exponent) : digits * std::pow(10.0, exponent);
        return negative ? -scaled : scaled;
    }

  private:
    std::string_view text_;
};

} // namespace atelico::json
