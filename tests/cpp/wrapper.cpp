// The wrapper against the real library and SmolLM2.

#include "atelico.hpp"
#include "statements.hpp"

#include <chrono>
#include <thread>

using atelico::Answer;
using atelico::Code;
using atelico::Delta;
using atelico::Engine;
using atelico::Error;
using atelico::Job;
using atelico::Request;
using atelico::Result;
using statements::holds;

static const char *const model = "SmolLM2-135M-Instruct";

static Request question(std::string_view content, int max_tokens) {
    Request request(model);
    request.user(content).max_tokens(max_tokens).temperature(0);
    return request;
}

static void next_frame() { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }

// What a job delivered, from its first event to its last.
struct Outcome {
    std::string deltas;
    int n_deltas = 0;
    std::optional<Answer> answer;
    std::optional<Error> error;

    const char *why() const { return error ? error->message.c_str() : "no error"; }
};

static Outcome follow(Job &job) {
    Outcome outcome;
    while (!job.finished()) {
        while (auto event = job.poll()) {
            if (const auto *delta = std::get_if<Delta>(&*event)) {
                outcome.deltas += delta->choice == 0 ? delta->text : std::string_view();
                outcome.n_deltas++;
            }
            if (const auto *answer = std::get_if<Answer>(&*event)) outcome.answer = *answer;
            if (const auto *error = std::get_if<Error>(&*event)) outcome.error = *error;
        }
        next_frame();
    }
    return outcome;
}

static Outcome ask(Engine &engine, const Request &request) {
    Result<Job> job = engine.begin(request);
    if (!job) {
        Outcome refused;
        refused.error = job.error();
        return refused;
    }
    return follow(*job);
}

static void loading(Engine &engine) {
    holds(engine.load(model).ok(), "loading starts");
    atelico::ModelState state = engine.state(model);
    while (state.loading != atelico::Loading::ready && state.loading != atelico::Loading::failed) {
        next_frame();
        state = engine.state(model);
    }
    holds(state.loading == atelico::Loading::ready, "the model gets ready", state.error.message.c_str());
    state = engine.state("no such model");
    for (int frame = 0; frame < 2000 && state.loading != atelico::Loading::failed; frame++) {
        next_frame();
        state = engine.state("no such model");
    }
    holds(state.error.code == Code::model_not_found && !state.error.message.empty(), "an unknown model's state says so");
}

static void answering(Engine &engine) {
    const Request request = question("Repeat: the green lantern hangs over the north pier.", 32);
    const Outcome streamed = ask(engine, request);
    holds(streamed.answer.has_value(), "a job ends with an answer", streamed.why());
    if (!streamed.answer) return;
    const Answer &answer = *streamed.answer;
    holds(streamed.n_deltas > 1 && streamed.deltas == answer.text(), "joined deltas are the text");
    holds(answer.usage.prompt_tokens > 0 && answer.usage.completion_tokens > 0, "a streamed answer counts its tokens");
    holds(answer.timings.first_token_ms > 0 && !answer.device.empty(), "a streamed answer has timings and device");
    const Result<Answer> whole = engine.chat(request);
    holds(whole.ok() && whole->text() == answer.text() && whole->finish_reason() == answer.finish_reason(),
          "waiting gives the same text as polling");

    Request guessed = request;
    guessed.speculative("prompt_lookup", 5).field("atelico", "{\"governor\":\"off\"}");
    const Outcome faster = ask(engine, guessed);
    holds(faster.answer && faster.answer->text() == answer.text(), "speculation does not change the text", faster.why());
    holds(faster.answer && faster.answer->speculation.proposer == "prompt_lookup" && faster.answer->speculation.active &&
              faster.answer->speculation.accepted > 0 && !faster.answer->speculation.sources.empty(),
          "speculation's numbers are readable");
    guessed.speculative("crystal_ball");
    const Outcome unknown = ask(engine, guessed);
    holds(unknown.answer && !unknown.answer->speculation.active && !unknown.answer->speculation.reason.empty(),
          "an unknown proposer decodes plainly and says why", unknown.why());
}

static void text_both_ways(Engine &engine) {
    const std::string said = "Grüße, 世界! 🌊\n\"quoted\" \\ and a tab\t.";
    Request request = question("Answer as JSON.", 120);
    request.json_schema("echo", "{\"const\":" + atelico::json::quoted(said) + "}");
    const Outcome outcome = ask(engine, request);
    const std::string text = outcome.answer ? outcome.answer->text() : "";
    holds(atelico::json::View(text).string() == said, "UTF-8 goes in and comes out", outcome.why());
    holds(outcome.deltas == text, "deltas split no character");
}

static void large_answers(Engine &engine) {
    Request request = question("Count to one hundred.", 64);
    request.field("logprobs", "true").field("top_logprobs", "20");
    const Result<std::string> response = engine.chat_json(request.json());
    holds(response.ok() && response->size() > atelico::detail::first_buffer && response->back() == '}',
          "a response larger than the first buffer is whole", response ? "" : response.error().message.c_str());
    request.field("logprobs", "false").field("top_logprobs", "0").field("n", "2");
    const Result<Answer> two = engine.chat(request);
    holds(two.ok() && two->choices.size() == 2 && two->choices[1].text == two->text(), "both choices are read");
}

static void cancelling(Engine &engine) {
    const Request endless = question("Write a very long story.", 800);
    Result<Job> at_once = engine.begin(endless);
    at_once->cancel();
    const Outcome nothing = follow(*at_once);
    holds(nothing.answer ? nothing.answer->finish_reason() == "cancelled" : nothing.error && nothing.error->code == Code::cancelled,
          "a job cancelled in the same frame ends as cancelled", nothing.why());
    at_once->cancel();
    holds(at_once->finished() && !at_once->poll(), "cancelling a finished job does nothing");

    Result<Job> later = engine.begin(endless);
    while (later->text().empty() && !later->finished()) {
        (void)later->poll();
        next_frame();
    }
    const std::string before(later->text());
    later->cancel();
    const Outcome partly = follow(*later);
    holds(partly.answer && partly.answer->finish_reason() == "cancelled" && partly.answer->text() == before + partly.deltas,
          "the text before the cancel stays", partly.why());

    for (int i = 0; i < 30; i++) {
        Result<Job> dropped = engine.begin(endless);
        if (i % 2 == 0 && dropped) (void)dropped->poll();
    }
    const Outcome after = ask(engine, question("Hi", 4));
    holds(after.answer.has_value(), "thirty dropped jobs do not hinder the next", after.why());

    Result<Job> moved_from = engine.begin(question("Hello", 8));
    Job moved(std::move(*moved_from));
    (void)moved.poll();
    moved = Job(std::move(moved));
    const Outcome delivered = follow(moved);
    holds(delivered.answer && moved_from->finished() && !moved_from->poll(), "a moved job goes on in its new place",
          delivered.why());
}

static void failing(Engine &engine) {
    const Outcome unknown = ask(engine, Request("no such model").user("Hi"));
    holds(unknown.error && unknown.error->code == Code::model_not_found && unknown.error->type != "", "an unknown model is a typed error");
    const Result<Answer> hot = engine.chat(question("Hi", 4).temperature(9));
    holds(!hot.ok() && hot.error().code == Code::invalid_argument && !hot.error().message.empty(), "a wrong value is an error");
    const Outcome hotter = ask(engine, question("Hi", 4).temperature(9));
    holds(hotter.error && hotter.error->code == Code::invalid_argument && hotter.error->param == "temperature",
          "the error names the field");
    const Result<Job> broken = engine.begin_json("{\"model\":");
    Outcome parsed;
    if (broken) {
        Result<Job> job = engine.begin_json("{\"model\":");
        parsed = follow(*job);
    } else {
        parsed.error = broken.error();
    }
    holds(parsed.error && parsed.error->code == Code::invalid_json, "a request that is not JSON says so", parsed.why());
    const Result<Job> cut = engine.begin_json(std::string_view("{}\0{}", 5));
    holds(!cut && cut.error().code == Code::invalid_argument, "a NUL inside a request is refused, not cut at");
    const Result<Answer> bytes = engine.chat(question("\xff\xfe", 4));
    holds(!bytes.ok() && bytes.error().code == Code::invalid_argument, "what is not UTF-8 is refused");
    std::string story;
    for (int i = 0; i < 3000; i++) story += "once more ";
    const Result<Answer> overflow = engine.chat(question(story, 4));
    holds(!overflow.ok() && overflow.error().code == Code::context_overflow, "a prompt that does not fit says so");
    const Result<Engine> wrong = Engine::create("{\"n_ctx\": \"many\"}");
    const Outcome refused = wrong ? ask(const_cast<Engine &>(*wrong), question("Hi", 4)) : Outcome();
    holds(refused.error && refused.error->code == Code::init_failed, "a wrong configuration fails the first request");
    const Outcome well = ask(engine, question("Hi", 4));
    holds(well.answer.has_value(), "after all these errors the next request works", well.why());
}

static void ending() {
    const atelico::Config config = atelico::Config().n_ctx(512).n_threads(1);
    Result<Engine> first = Engine::create(config);
    Result<Engine> second = Engine::create(config);
    Result<Job> here = first->begin(question("Hello", 12));
    Result<Job> there = second->begin(question("Hello", 12));
    const Outcome one = follow(*here), two = follow(*there);
    holds(one.answer && two.answer && one.answer->text() == two.answer->text(), "two engines answer at once");

    Result<Job> orphan = first->begin(question("Write a very long story.", 800));
    first->close();
    const Outcome ended = follow(*orphan);
    holds(ended.error && ended.error->code == Code::shutting_down, "a job outlives its engine and says so", ended.why());
    const Result<Job> refused = first->begin(question("Hi", 4));
    holds(!refused && refused.error().code == Code::invalid_handle, "a closed engine takes no request");
    Result<Job> waiting = second->begin(question("Write a very long story.", 800));
    *second = std::move(*Engine::create(config)); // ends the engine that was there
    const Outcome replaced = follow(*waiting);
    holds(replaced.error && replaced.error->code == Code::shutting_down, "a replaced engine ends its jobs");
    const Outcome fresh = ask(*second, question("Hi", 4));
    holds(fresh.answer.has_value(), "its successor answers", fresh.why());
    for (int i = 0; i < 10; i++) {
        Result<Engine> brief = Engine::create(config);
        Result<Job> job = brief->begin(question("Hi", 4));
        if (i % 2 == 0) brief->close();
    }
    holds(true, "engines and jobs may be dropped in any order, while loading too");
}

int main() {
    Result<Engine> engine = Engine::create(atelico::Config().n_ctx(1024).n_threads(1));
    holds(engine.ok(), "an engine is made");
    if (!engine) return statements::end();
    loading(*engine);
    answering(*engine);
    text_both_ways(*engine);
    large_answers(*engine);
    cancelling(*engine);
    failing(*engine);
    ending();
    return statements::end();
}
