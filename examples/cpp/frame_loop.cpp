// Two characters answer while the game goes on: load in the background, poll once a frame, show text as it comes.

#include "atelico.hpp"

#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

static const char *const model = "SmolLM2-135M-Instruct";

struct Character {
    const char *name;
    atelico::Job line;
};

// What is new since the last frame. Never waits.
static void update(Character &character) {
    while (auto event = character.line.poll()) {
        if (const auto *delta = std::get_if<atelico::Delta>(&*event)) {
            std::printf("[%s]%.*s\n", character.name, static_cast<int>(delta->text.size()), delta->text.data());
        } else if (const auto *answer = std::get_if<atelico::Answer>(&*event)) {
            std::printf("[%s] ends with '%s', %.1f tokens per second\n", character.name,
                        answer->finish_reason().c_str(), answer->timings.tokens_per_second);
        } else if (const auto *error = std::get_if<atelico::Error>(&*event)) {
            std::printf("[%s] %s\n", character.name, error->message.c_str());
        }
    }
}

int main() {
    auto engine = atelico::Engine::create(atelico::Config().n_ctx(1024));
    if (!engine) return 1;
    if (!engine->load(model)) return 1;

    std::vector<Character> characters;
    for (const char *name : {"guard", "baker"}) {
        atelico::Request request(model);
        request.system("You are a character of a game. Answer in one sentence.").user("Who are you?");
        request.max_tokens(24).temperature(0);
        if (auto job = engine->begin(request)) characters.push_back({name, std::move(*job)});
    }

    bool talking = true;
    int frames = 0;
    while (talking) {
        talking = false;
        for (Character &character : characters) {
            update(character);
            talking = talking || !character.line.finished();
        }
        std::this_thread::sleep_for(std::chrono::microseconds(16667)); // here the game draws
        frames++;
    }
    std::printf("%d frames, none of them waited\n", frames);
    return 0;
}
