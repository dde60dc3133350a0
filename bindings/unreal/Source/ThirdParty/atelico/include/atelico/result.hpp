// Codes, Error and Result: how every call of the wrapper says what went wrong.
#pragma once

#include "atelico.h"

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

namespace atelico {

// The results of atelico.h. `done` and `empty` never reach a user of this wrapper.
enum class Code : std::int32_t {
    ok = ATELICO_OK,
    invalid_handle = ATELICO_INVALID_HANDLE,
    invalid_argument = ATELICO_INVALID_ARGUMENT,
    init_failed = ATELICO_INIT_FAILED,
    model_not_found = ATELICO_MODEL_NOT_FOUND,
    inference_failed = ATELICO_INFERENCE_FAILED,
    done = ATELICO_DONE,
    empty = ATELICO_EMPTY,
    invalid_json = ATELICO_INVALID_JSON,
    context_overflow = ATELICO_CONTEXT_OVERFLOW,
    cancelled = ATELICO_CANCELLED,
    busy = ATELICO_BUSY,
    shutting_down = ATELICO_SHUTTING_DOWN,
    internal = ATELICO_INTERNAL,
};

// A short name for logs, such as "model not found".
constexpr const char *describe(Code code) noexcept {
    switch (code) {
    case Code::ok: return "ok";
    case Code::invalid_handle: return "the engine is closed";
    case Code::invalid_argument: return "a wrong argument or request field";
    case Code::init_failed: return "the library, its configuration or the model could not be loaded";
    case Code::model_not_found: return "model not found";
    case Code::inference_failed: return "the model failed while it ran";
    case Code::done: return "done";
    case Code::empty: return "nothing new yet";
    case Code::invalid_json: return "the request is not JSON, too large or nested too deeply";
    case Code::context_overflow: return "the messages do not fit the model's context";
    case Code::cancelled: return "cancelled before there was an answer";
    case Code::busy: return "too many engines or requests";
    case Code::shutting_down: return "the engine was closed meanwhile";
    case Code::internal: return "a defect of atelico, or out of memory";
    }
    return "an unknown result";
}

// What was wrong. `message` says it in one or two sentences and what to do; `param` names the request's field, such as
// "messages[0].role"; `type` is OpenAI's error type. Both may be empty.
struct Error {
    Code code = Code::internal;
    std::string message;
    std::string param;
    std::string type;
};

// A value or an Error. As with std::optional, value(), * and -> are only for a Result that is ok, error() only for
// one that is not.
template <typename T> class [[nodiscard]] Result {
  public:
    Result(T value) : outcome_(std::in_place_index<0>, std::move(value)) {}
    Result(Error error) : outcome_(std::in_place_index<1>, std::move(error)) {}

    bool ok() const noexcept { return outcome_.index() == 0; }
    explicit operator bool() const noexcept { return ok(); }

    T &value() noexcept { return *std::get_if<0>(&outcome_); }
    const T &value() const noexcept { return *std::get_if<0>(&outcome_); }
    T &operator*() noexcept { return value(); }
    const T &operator*() const noexcept { return value(); }
    T *operator->() noexcept { return &value(); }
    const T *operator->() const noexcept { return &value(); }
    const Error &error() const noexcept { return *std::get_if<1>(&outcome_); }

  private:
    std::variant<T, Error> outcome_;
};

// The result of a call that gives nothing back.
using Status = Result<std::monostate>;

namespace detail {

// The message of this thread's last failed call.
inline std::string last_error() {
    std::string text(static_cast<std::size_t>(atelico_last_error(nullptr, 0)) + 1, '\0');
    const std::int32_t length = atelico_last_error(text.data(), static_cast<std::int32_t>(text.size()));
    text.resize(length > 0 && static_cast<std::size_t>(length) < text.size() ? static_cast<std::size_t>(length) : 0);
    return text;
}

inline Error error_of(std::int64_t result) {
    const auto code = static_cast<Code>(result);
    Error error{code, last_error(), {}, {}};
    if (error.message.empty()) error.message = describe(code);
    return error;
}

} // namespace detail
} // namespace atelico
