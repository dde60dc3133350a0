// The wrapper's JSON and request builder; runs without the library.

#include "atelico/answer.hpp"
#include "atelico/config.hpp"
#include "atelico/request.hpp"
#include "statements.hpp"

#include <clocale>
#include <limits>

// answer.hpp needs atelico.h only for its constants; a program that never asks links no library.
extern "C" int32_t atelico_last_error(char *, int32_t) { return 0; }

using statements::holds;
namespace json = atelico::json;

static json::View view(std::string_view text) { return json::View(text); }

static void writing() {
    holds(json::quoted("a\"b\\c\n\t\x01") == "\"a\\\"b\\\\c\\u000a\\u0009\\u0001\"", "quotes and controls are escaped");
    holds(json::quoted(std::string_view("a\0b", 3)) == "\"a\\u0000b\"", "a NUL in text is escaped");
    holds(json::quoted("Grüße 世界 🌊") == "\"Grüße 世界 🌊\"", "other text stays UTF-8");
    holds(json::number(0.7) == "0.7" && json::number(0) == "0", "numbers are written short");
    holds(view(json::number(0.1 + 0.2)).real() == 0.1 + 0.2, "numbers are written exactly");
    holds(json::number(std::numeric_limits<double>::quiet_NaN()) == "null", "what JSON has no number for is null");
}

static void reading() {
    const auto body = view(R"( {"a": {"b": [1, {"c": "\u00e9\ud83c\udf0a\n\"\\\/"}, [], {}]}, "t": true, "n": null,
                             "x\"y": -2.5e3, "i": 9007199254740991, "z": 1e400} )");
    std::string text;
    body["a"]["b"].each([&](json::View element) { text += element["c"].string(); });
    holds(text == "é🌊\n\"\\/", "escapes and surrogate pairs are read");
    holds(body["t"].boolean() && body["n"].is_null() && !body["n"].boolean(), "true and null are read");
    holds(body["x\"y"].real() == -2500.0, "keys with escapes are found");
    holds(body["i"].integer() == 9007199254740991, "whole numbers are exact to 2^53 - 1");
    holds(body["z"].integer(7) == 7, "a number out of range reads as the given value");
    holds(!body["missing"]["b"]["c"].exists() && body["missing"].integer(3) == 3, "what is missing reads as given");
    holds(view("\"\\ud800 x\"").string() == "\xEF\xBF\xBD x", "a lone surrogate becomes U+FFFD");
    int members = 0;
    view("{}").each_member([&](const std::string &, json::View) { members++; });
    view("[]").each([&](json::View) { members++; });
    holds(members == 0, "empty objects and arrays have nothing inside");
}

// Every beginning of a text, and every single changed byte, must be survived; the sanitizers watch.
static void malformed() {
    const std::string text = R"({"choices":[{"index":0,"delta":{"content":"a\ud83c\udf0a\u00e9"}}],"n":[-1.5e-3,{}]})";
    std::size_t visited = 0;
    const auto walk = [&](std::string_view part) {
        const auto body = view(part);
        body["choices"].each([&](json::View choice) { visited += choice["delta"]["content"].string().size() + 1; });
        body["n"].each([&](json::View n) { visited += n.real() < 0 ? 1 : 0; });
        atelico::detail::read_response(body);
    };
    for (std::size_t n = 0; n <= text.size(); n++) walk(std::string(text.substr(0, n)));
    for (std::size_t n = 0; n < text.size(); n++) {
        for (const char c : {'"', '\\', '{', '}', '[', ']', ',', ':', '\0', ' '}) {
            std::string changed = text;
            changed[n] = c;
            walk(changed);
        }
    }
    holds(visited > 0, "malformed JSON is survived");
    const std::string deep = std::string(200000, '[') + std::string(200000, ']');
    holds(view(deep).raw().size() == deep.size(), "nesting costs no stack");
}

static void building() {
    atelico::Request request("npc");
    request.system("Be brief.").user("Say \"hi\"").max_tokens(8).temperature(0.5).seed(-1).stop({"\n", "\""});
    request.speculative("prompt_lookup", 5).field("temperature", "0");
    const std::string text = request.json();
    const auto body = view(text);
    holds(body["model"].string() == "npc" && body["temperature"].raw() == "0", "a later value replaces the earlier one");
    std::string said;
    body["messages"].each([&](json::View message) { said += message["role"].string() + ":" + message["content"].string() + ";"; });
    holds(said == "system:Be brief.;user:Say \"hi\";", "messages keep their order");
    holds(body["stop"].raw() == "[\"\\u000a\",\"\\\"\"]", "stop texts are quoted");
    holds(body["speculative"]["k"].integer() == 5 && body["seed"].integer() == -1, "speculative and seed are written");
    const std::string drawn = atelico::Request("npc").speculative("mtp", 0, "stochastic").json();
    holds(view(drawn)["speculative"].raw() == "{\"proposer\":\"mtp\",\"acceptance\":\"stochastic\"}", "acceptance is written");
    const std::string config = atelico::Config().model_folder("C:\\Spiele\\日本").alias("npc", "a/b").n_ctx(512).json();
    std::string folder;
    view(config)["model_folders"].each([&](json::View element) { folder = element.string(); });
    holds(folder == "C:\\Spiele\\日本" && view(config)["aliases"]["npc"].string() == "a/b" &&
              view(config)["n_ctx"].integer() == 512,
          "a configuration is written");
}

int main(int argc, char **argv) {
    if (argc > 1) holds(std::setlocale(LC_ALL, argv[1]) != nullptr, "the locale is set");
    writing();
    reading();
    malformed();
    building();
    return statements::end();
}
