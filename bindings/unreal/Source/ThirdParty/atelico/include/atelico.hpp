// atelico.hpp: a small language model inside a game, for C++17 games; no exceptions, no RTTI, nothing to link but
// libatelico. Includes the whole wrapper and holds nothing of its own. atelico.h must be on the include path.
//
//     auto engine = atelico::Engine::create();
//     atelico::Request request("SmolLM2-135M-Instruct");
//     request.user("May I moor here?").max_tokens(40);
//     auto job = engine->begin(request);
//
//     while (auto event = job->poll()) {                                  // each frame; empty: nothing new
//         if (auto *delta = std::get_if<atelico::Delta>(&*event)) show(delta->text);
//         if (auto *answer = std::get_if<atelico::Answer>(&*event)) done(answer->text());
//         if (auto *error = std::get_if<atelico::Error>(&*event)) log(error->message);
//     }
//
// Errors are values: look at a Result before you use it. Every function may be called from any thread, but one Job
// belongs to one thread at a time. Only Engine::chat waits.
#pragma once

#include "atelico/answer.hpp"
#include "atelico/config.hpp"
#include "atelico/engine.hpp"
#include "atelico/json.hpp"
#include "atelico/request.hpp"
#include "atelico/result.hpp"
