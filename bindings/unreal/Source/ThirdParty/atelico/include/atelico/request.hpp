// Request: a chat completion request, written as JSON. docs/requests.md has every field and its range; values are
// checked by the library, which names the field in its error.
#pragma once

#include "json.hpp"

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace atelico {

class Request {
  public:
    // A model's name, alias or path.
    explicit Request(std::string_view model) {
        field("model", json::quoted(model));
        field("stream_options", "{\"include_usage\":true}"); // so that Answer::usage is filled
    }

    // One more message. role: "system", "user", "assistant" or "tool"; content: UTF-8.
    Request &message(std::string_view role, std::string_view content) {
        messages_ += messages_.empty() ? "{\"role\":" : ",{\"role\":";
        json::quote(messages_, role);
        messages_ += ",\"content\":";
        json::quote(messages_, content);
        messages_ += '}';
        return *this;
    }
    Request &system(std::string_view content) { return message("system", content); }
    Request &user(std::string_view content) { return message("user", content); }
    Request &assistant(std::string_view content) { return message("assistant", content); }

    // Tokens of the answer at most.
    Request &max_tokens(int tokens) { return field("max_tokens", std::to_string(tokens)); }
    // 0 always takes the most likely token.
    Request &temperature(double value) { return field("temperature", json::number(value)); }
    Request &top_p(double share) { return field("top_p", json::number(share)); }
    Request &top_k(int tokens) { return field("top_k", std::to_string(tokens)); }
    Request &min_p(double share) { return field("min_p", json::number(share)); }
    // The same seed gives the same text.
    Request &seed(std::int64_t value) { return field("seed", std::to_string(value)); }
    // The answer ends before any of these texts.
    Request &stop(std::initializer_list<std::string_view> texts) {
        std::string list;
        for (const std::string_view text : texts) {
            list += list.empty() ? '[' : ',';
            json::quote(list, text);
        }
        return field("stop", list.empty() ? "[]" : list + "]");
    }
    // Guess and check several tokens at a time: faster, never another text. k: drafted at most per round; 0: default.
    // acceptance "stochastic": another text for a seed, of the same distribution; guesses are right more often.
    Request &speculative(std::string_view proposer = "auto", int k = 0, std::string_view acceptance = "exact") {
        std::string value = "{\"proposer\":" + json::quoted(proposer);
        if (k != 0) value += ",\"k\":" + std::to_string(k);
        if (!acceptance.empty() && acceptance != "exact") value += ",\"acceptance\":" + json::quoted(acceptance);
        return field("speculative", value + "}");
    }
    // The answer is JSON that follows `schema_json`. strict: refuse a schema that cannot be enforced whole.
    Request &json_schema(std::string_view name, std::string_view schema_json, bool strict = true) {
        std::string value = "{\"type\":\"json_schema\",\"json_schema\":{\"name\":" + json::quoted(name);
        value += ",\"schema\":";
        value += schema_json;
        return field("response_format", value + (strict ? ",\"strict\":true}}" : "}}"));
    }
    // The answer is a JSON object.
    Request &json_object() { return field("response_format", "{\"type\":\"json_object\"}"); }

    // Any field, as JSON; the same name again replaces the value.
    Request &field(std::string_view name, std::string_view value_json) {
        for (auto &[known, value] : fields_) {
            if (known != name) continue;
            value = value_json;
            return *this;
        }
        fields_.emplace_back(name, value_json);
        return *this;
    }

    std::string json() const {
        std::string out = "{";
        for (const auto &[name, value] : fields_) {
            json::quote(out, name);
            out += ':';
            out += value;
            out += ',';
        }
        return out + "\"messages\":[" + messages_ + "]}";
    }

  private:
    std::string messages_;
    std::vector<std::pair<std::string, std::string>> fields_;
};

} // namespace atelico
