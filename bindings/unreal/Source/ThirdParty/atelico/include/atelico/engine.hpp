// Engine and Job: the living objects of the wrapper. An Engine owns models; a Job is one running request, polled once a
// frame. Both are move-only, and either may be dropped first.
#pragma once

#include "answer.hpp"
#include "config.hpp"
#include "request.hpp"
#include "result.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace atelico {

// New text of one choice. The views are valid until the job is polled again or moved.
struct Delta {
    std::string_view text;
    std::string_view reasoning;
    std::size_t choice = 0;
};

// Answer and Error are a job's last event.
using Event = std::variant<Delta, Answer, Error>;

enum class Loading { not_loaded, loading, ready, failed };

// How far a model is; `error` where it failed.
struct ModelState {
    Loading loading = Loading::not_loaded;
    float progress = 0.0f; // the share that is loaded, 0 to 1
    Error error;
};

namespace detail {

inline constexpr std::size_t first_buffer = 16 * 1024; // bytes; most events have a few hundred

// Call fill(buf, buf_len) until its text fits; `buffer` grows and stays. The result of the last call.
template <typename Fill> std::int32_t fill_buffer(std::string &buffer, Fill &&fill) {
    if (buffer.size() < first_buffer) buffer.resize(first_buffer);
    for (;;) {
        const std::int32_t n = fill(buffer.data(), static_cast<std::int32_t>(buffer.size()));
        if (n < 0 || static_cast<std::size_t>(n) < buffer.size()) return n;
        buffer.resize(static_cast<std::size_t>(n) + 1);
    }
}

// What an Engine and its Jobs share. The library keeps a job until it was polled to its end, so jobs that nobody wants
// any more are polled here, whenever another job is begun or polled.
struct Core {
    std::atomic<atelico_engine *> handle{nullptr};

    explicit Core(atelico_engine *engine) noexcept : handle(engine) {}
    Core(const Core &) = delete;
    Core &operator=(const Core &) = delete;
    ~Core() { close(); }

    void close() noexcept {
        atelico_engine *engine = handle.exchange(nullptr);
        if (engine != nullptr) atelico_destroy(engine);
    }

    void abandon(std::int64_t job) {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            abandoned_.push_back(job);
            any_abandoned_ = true;
        }
        drain();
    }

    void drain() {
        if (!any_abandoned_) return;
        const std::lock_guard<std::mutex> lock(mutex_);
        std::size_t kept = 0;
        for (const std::int64_t job : abandoned_)
            if (!ended(job)) abandoned_[kept++] = job;
        abandoned_.resize(kept);
        any_abandoned_ = kept != 0;
    }

  private:
    bool ended(std::int64_t job) {
        for (;;) {
            const std::int32_t n = fill_buffer(scratch_, [&](char *buf, std::int32_t buf_len) {
                return atelico_chat_poll(handle, job, buf, buf_len);
            });
            if (n < 0) return n != ATELICO_EMPTY;
        }
    }

    std::mutex mutex_;
    std::atomic<bool> any_abandoned_{false};
    std::vector<std::int64_t> abandoned_;
    std::string scratch_;
};

// A NUL would end the C string early and change the request.
inline std::optional<Error> nul_inside(std::string_view what, std::string_view text) {
    if (text.find('\0') == std::string_view::npos) return std::nullopt;
    return Error{Code::invalid_argument,
                 "The " + std::string(what) + " contains a NUL byte. In JSON, write it as \\u0000.", {}, {}};
}

} // namespace detail

// A running request. Belongs to one thread at a time. Dropping it cancels the request.
class Job {
  public:
    Job(Job &&other) noexcept { take(other); }
    Job &operator=(Job &&other) noexcept {
        if (this != &other) {
            drop();
            take(other);
        }
        return *this;
    }
    ~Job() { drop(); }

    // The next event, or nothing: then ask again next frame, unless finished(). Never waits.
    std::optional<Event> poll() {
        if (id_ == 0) return std::nullopt;
        core_->drain();
        for (;;) {
            if (std::optional<Delta> delta = next_delta()) return Event(*delta);
            const std::int32_t n = detail::fill_buffer(buffer_, [&](char *buf, std::int32_t buf_len) {
                return atelico_chat_poll(core_->handle, id_, buf, buf_len);
            });
            if (n == ATELICO_EMPTY) return std::nullopt;
            if (n == ATELICO_DONE) {
                id_ = 0;
                return Event(answer_);
            }
            if (n < 0) {
                id_ = 0;
                if (core_->handle == nullptr)
                    return Event(Error{Code::shutting_down, "The engine was closed while the request ran.", {}, {}});
                return Event(detail::error_of(n));
            }
            const json::View body(std::string_view(buffer_.data(), static_cast<std::size_t>(n)));
            if (body["error"].exists()) {
                core_->abandon(std::exchange(id_, 0));
                return Event(detail::read_error(body));
            }
            detail::read_info(answer_, body);
            choices_.clear();
            body["choices"].each([&](json::View choice) { choices_.push_back(choice); });
            next_ = 0;
        }
    }

    // Stop it as soon as possible; its Answer, with the text so far and finish_reason "cancelled", still comes.
    void cancel() noexcept {
        if (id_ != 0) atelico_chat_cancel(core_->handle, id_);
    }

    // Whether the last event was given out.
    bool finished() const noexcept { return id_ == 0; }
    // The library's number for it; 0 once finished.
    std::int64_t id() const noexcept { return id_; }
    // The text of the first choice so far; valid until the next poll.
    std::string_view text() const noexcept { return answer_.text(); }

  private:
    friend class Engine;
    Job(std::shared_ptr<detail::Core> core, std::int64_t id) : core_(std::move(core)), id_(id) {}

    // The next choice of the current chunk that has text.
    std::optional<Delta> next_delta() {
        while (next_ < choices_.size()) {
            const json::View part = choices_[next_++];
            Choice &choice = detail::choice_at(answer_, part);
            const std::size_t text = choice.text.size(), reasoning = choice.reasoning.size();
            part["delta"]["content"].append_to(choice.text);
            part["delta"]["reasoning_content"].append_to(choice.reasoning);
            part["finish_reason"].append_to(choice.finish_reason);
            if (choice.text.size() == text && choice.reasoning.size() == reasoning) continue;
            return Delta{std::string_view(choice.text).substr(text), std::string_view(choice.reasoning).substr(reasoning),
                         static_cast<std::size_t>(&choice - answer_.choices.data())};
        }
        return std::nullopt;
    }

    void take(Job &other) noexcept {
        // The views in choices_ point into buffer_, whose short form would not move; it is never that short once used.
        core_ = std::move(other.core_);
        id_ = std::exchange(other.id_, 0);
        answer_ = std::exchange(other.answer_, Answer());
        buffer_ = std::move(other.buffer_);
        choices_ = std::move(other.choices_);
        next_ = std::exchange(other.next_, 0);
        other.choices_.clear();
    }

    void drop() noexcept {
        if (id_ == 0) return;
        cancel();
        core_->abandon(std::exchange(id_, 0));
    }

    std::shared_ptr<detail::Core> core_;
    std::int64_t id_ = 0;
    Answer answer_;
    std::string buffer_;              // the current event
    std::vector<json::View> choices_; // of the current chunk, in buffer_
    std::size_t next_ = 0;
};

// A configuration and the models it has loaded. Moving it keeps its jobs; dropping or closing it ends them.
class Engine {
  public:
    // Returns at once; the library starts up behind it. A wrong field of the configuration shows up in the first
    // request or model as Code::init_failed.
    static Result<Engine> create(std::string_view config_json = {}) {
        if (auto error = detail::nul_inside("configuration", config_json)) return *error;
        atelico_engine *handle = atelico_create(std::string(config_json).c_str());
        if (handle == nullptr) return detail::error_of(ATELICO_INIT_FAILED);
        return Engine(std::make_shared<detail::Core>(handle));
    }
    static Result<Engine> create(const Config &config) { return create(std::string_view(config.json())); }

    Engine(Engine &&) noexcept = default;
    Engine &operator=(Engine &&other) noexcept {
        if (this != &other) {
            close();
            core_ = std::move(other.core_);
        }
        return *this;
    }
    ~Engine() { close(); }

    // End it, also while models load or generate. Returns at once; jobs get Code::shutting_down.
    void close() noexcept {
        if (core_ != nullptr) core_->close();
    }

    // Start loading a model, so that the first request need not wait.
    Status load(std::string_view model) {
        if (auto error = detail::nul_inside("model's name", model)) return *error;
        const std::int32_t result = atelico_load_model(handle(), std::string(model).c_str());
        if (result < 0) return detail::error_of(result);
        return std::monostate{};
    }

    // How far the loading of a model is.
    ModelState state(std::string_view model) const {
        ModelState state;
        const auto failed = [&](Error error) {
            state.loading = Loading::failed;
            state.error = std::move(error);
            return state;
        };
        if (auto error = detail::nul_inside("model's name", model)) return failed(*error);
        const std::int32_t result = atelico_model_state(handle(), std::string(model).c_str(), &state.progress);
        if (result < 0) return failed(detail::error_of(result));
        state.loading = static_cast<Loading>(result);
        return state;
    }

    // Start a request. Never waits.
    Result<Job> begin(const Request &request) { return begin_json(request.json()); }
    Result<Job> begin_json(std::string_view request_json) {
        if (auto error = detail::nul_inside("request", request_json)) return *error;
        if (core_ != nullptr) core_->drain();
        const std::int64_t id = atelico_chat_begin(handle(), std::string(request_json).c_str());
        if (id < 0) return detail::error_of(id);
        return Job(core_, id);
    }

    // Answer a request and wait for it: for tools and worker threads, not for the game's main thread.
    Result<Answer> chat(const Request &request) {
        const Result<std::string> response = chat_json(request.json());
        if (!response) return response.error();
        return detail::read_response(json::View(*response));
    }
    // The same with JSON in and out.
    Result<std::string> chat_json(std::string_view request_json) {
        if (auto error = detail::nul_inside("request", request_json)) return *error;
        const std::string request(request_json);
        std::string response;
        const std::int32_t n = detail::fill_buffer(response, [&](char *buf, std::int32_t buf_len) {
            return atelico_chat_completion(handle(), request.c_str(), buf, buf_len);
        });
        if (n < 0) return detail::error_of(n);
        response.resize(static_cast<std::size_t>(n));
        return response;
    }

    // For calls of atelico.h; nullptr once closed.
    atelico_engine *handle() const noexcept {
        return core_ == nullptr ? nullptr : core_->handle.load();
    }

  private:
    explicit Engine(std::shared_ptr<detail::Core> core) noexcept : core_(std::move(core)) {}

    std::shared_ptr<detail::Core> core_;
};

// The version of the library, such as "0.1.0".
inline const char *version() noexcept { return atelico_version(); }

} // namespace atelico
