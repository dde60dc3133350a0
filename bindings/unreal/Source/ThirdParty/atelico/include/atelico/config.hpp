// Config: an engine's configuration, written as JSON. docs/models.md has every field.
#pragma once

#include "json.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace atelico {

class Config {
  public:
    // A folder searched for .gguf files; relative ones start at the working directory.
    Config &model_folder(std::string_view folder) {
        folders_ += folders_.empty() ? "" : ",";
        json::quote(folders_, folder);
        return *this;
    }
    // A name of your own for a model's name or file.
    Config &alias(std::string_view name, std::string_view model) {
        aliases_ += aliases_.empty() ? "" : ",";
        json::quote(aliases_, name);
        aliases_ += ':';
        json::quote(aliases_, model);
        return *this;
    }
    // Tokens of context per request.
    Config &n_ctx(int tokens) { return field("n_ctx", std::to_string(tokens)); }
    // Threads that decode; the default leaves one core to the renderer.
    Config &n_threads(int threads) { return field("n_threads", std::to_string(threads)); }
    // Layers on the GPU; -1 for all.
    Config &n_gpu_layers(int layers) { return field("n_gpu_layers", std::to_string(layers)); }
    // Any field, as JSON.
    Config &field(std::string_view name, std::string_view value_json) {
        rest_ += ',';
        json::quote(rest_, name);
        rest_ += ':';
        rest_ += value_json;
        return *this;
    }

    std::string json() const {
        return "{\"model_folders\":[" + folders_ + "],\"aliases\":{" + aliases_ + "}" + rest_ + "}";
    }

  private:
    std::string folders_, aliases_, rest_;
};

} // namespace atelico
