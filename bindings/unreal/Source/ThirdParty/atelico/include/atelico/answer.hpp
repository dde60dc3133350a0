// Answer: a finished chat completion as plain data, and how it is read from a response or from the chunks of a stream.
// docs/requests.md explains the fields.
#pragma once

#include "json.hpp"
#include "result.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace atelico {

// One of the `n` answers. finish_reason: "stop", "length" or "cancelled".
struct Choice {
    std::string text;
    std::string reasoning;
    std::string finish_reason;
};

// Token counts.
struct Usage {
    std::int64_t prompt_tokens = 0;
    std::int64_t completion_tokens = 0;
};

// What speculation did; where it was not active, `reason` says why. `sources`: accepted tokens by where they came from.
struct Speculation {
    std::string proposer;
    bool active = false;
    std::string reason;
    std::int64_t rounds = 0;
    std::int64_t proposed = 0;
    std::int64_t accepted = 0;
    std::vector<std::pair<std::string, std::int64_t>> sources;
};

// Milliseconds of each phase, and tokens per second (0 for an answer of one token).
struct Timings {
    double queue_ms = 0, load_ms = 0, prompt_ms = 0, first_token_ms = 0, decode_ms = 0, tokens_per_second = 0;
};

struct Answer {
    std::string model;
    std::vector<Choice> choices; // never empty
    Usage usage;
    Speculation speculation;
    Timings timings;
    std::int64_t cached_tokens = 0;
    std::string device;
    std::vector<std::string> warnings;

    const std::string &text() const noexcept { return choices.front().text; }
    const std::string &finish_reason() const noexcept { return choices.front().finish_reason; }

    Answer() : choices(1) {}
};

namespace detail {

inline constexpr std::int64_t max_choices = 128; // the protocol's limit for `n`

inline Choice &choice_at(Answer &answer, json::View choice) {
    const std::int64_t index = choice["index"].integer();
    const auto i = static_cast<std::size_t>(index >= 0 && index < max_choices ? index : 0);
    if (answer.choices.size() <= i) answer.choices.resize(i + 1);
    return answer.choices[i];
}

// Take over what a response, or a chunk, says beside its text.
inline void read_info(Answer &answer, json::View body) {
    if (answer.model.empty()) body["model"].append_to(answer.model);
    if (const json::View usage = body["usage"]; usage["prompt_tokens"].exists()) {
        answer.usage.prompt_tokens = usage["prompt_tokens"].integer();
        answer.usage.completion_tokens = usage["completion_tokens"].integer();
    }
    const json::View info = body["atelico"];
    if (!info["speculation"].exists()) return;
    const json::View speculation = info["speculation"];
    Speculation &to = answer.speculation;
    to = Speculation{};
    speculation["proposer"].append_to(to.proposer);
    to.active = speculation["active"].boolean();
    speculation["reason"].append_to(to.reason);
    to.rounds = speculation["rounds"].integer();
    to.proposed = speculation["proposed"].integer();
    to.accepted = speculation["accepted"].integer();
    speculation["sources"].each_member(
        [&](const std::string &source, json::View count) { to.sources.emplace_back(source, count.integer()); });
    const json::View timings = info["timings"];
    answer.timings = {timings["queue_ms"].real(),       timings["load_ms"].real(),   timings["prompt_ms"].real(),
                      timings["first_token_ms"].real(), timings["decode_ms"].real(), timings["tokens_per_second"].real()};
    answer.cached_tokens = info["cached_tokens"].integer();
    answer.device = info["device"].string();
    answer.warnings.clear();
    info["warnings"].each([&](json::View warning) { answer.warnings.push_back(warning.string()); });
}

// The answer in a whole response.
inline Answer read_response(json::View body) {
    Answer answer;
    body["choices"].each([&](json::View choice) {
        Choice &to = choice_at(answer, choice);
        to.text = choice["message"]["content"].string();
        to.reasoning = choice["message"]["reasoning_content"].string();
        to.finish_reason = choice["finish_reason"].string();
    });
    read_info(answer, body);
    return answer;
}

// The error in an error event.
inline Error read_error(json::View body) {
    const json::View error = body["error"];
    const auto code = static_cast<Code>(body["atelico"]["result"].integer(ATELICO_INTERNAL));
    return {code, error["message"].string(), error["param"].string(), error["type"].string()};
}

} // namespace detail
} // namespace atelico
