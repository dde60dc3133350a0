// One question, one answer, and what it cost: for tools and worker threads. A game's main thread polls: frame_loop.cpp.
//
//     g++ -std=c++17 blocking.cpp -I... -L... -latelico

#include "atelico.hpp"

#include <cstdio>

int main() {
    auto engine = atelico::Engine::create();
    if (!engine) {
        std::fprintf(stderr, "%s\n", engine.error().message.c_str());
        return 1;
    }
    atelico::Request request("SmolLM2-135M-Instruct");
    request.system("You are the harbour master. Answer in one sentence.").user("May I moor here?");
    request.max_tokens(40).temperature(0).speculative();

    const auto answer = engine->chat(request);
    if (!answer) {
        std::fprintf(stderr, "%s: %s\n", describe(answer.error().code), answer.error().message.c_str());
        return 1;
    }
    std::printf("%s\n%lld tokens, %.1f tokens per second\n", answer->text().c_str(),
                static_cast<long long>(answer->usage.completion_tokens), answer->timings.tokens_per_second);
    return 0;
}
