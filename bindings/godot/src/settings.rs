//! The project settings `atelico/runtime/*`: their names and defaults, and the engine's configuration made of them.

use godot::builtin::AnyDictionary;
use godot::classes::ProjectSettings;
use godot::prelude::*;
use godot::register::info::PropertyHint;
use serde_json::{Map, Value};

use crate::{json, paths};

/// The folder of libatelico, or the file itself; empty for the extension's own folder.
pub const LIBRARY_FOLDER: &str = "atelico/runtime/library_folder";
const MODEL_FOLDERS: &str = "atelico/runtime/model_folders";
const ALIASES: &str = "atelico/runtime/aliases";
const N_CTX: &str = "atelico/runtime/n_ctx";
const N_THREADS: &str = "atelico/runtime/n_threads";
const N_GPU_LAYERS: &str = "atelico/runtime/n_gpu_layers";
const CACHE_FOLDER: &str = "atelico/runtime/cache_folder";

/// Make the settings known, so that the editor shows them under Project > Project Settings > Atelico.
pub fn register() {
    let folders = PackedStringArray::from(["res://models", "user://models"].map(GString::from));
    add(LIBRARY_FOLDER, &GString::new().to_variant(), PropertyHint::GLOBAL_DIR, "");
    add(MODEL_FOLDERS, &folders.to_variant(), PropertyHint::NONE, "");
    add(ALIASES, &VarDictionary::new().to_variant(), PropertyHint::NONE, "");
    add(N_CTX, &0.to_variant(), PropertyHint::RANGE, "0,131072,1,or_greater");
    add(N_THREADS, &0.to_variant(), PropertyHint::RANGE, "0,64,1,or_greater");
    add(N_GPU_LAYERS, &(-1).to_variant(), PropertyHint::RANGE, "-1,200,1,or_greater");
    add(CACHE_FOLDER, &"".to_variant(), PropertyHint::NONE, "");
}

fn add(name: &str, default: &Variant, hint: PropertyHint, hint_string: &str) {
    let mut settings = ProjectSettings::singleton();
    if !settings.has_setting(name) {
        settings.set_setting(name, default);
    }
    settings.set_initial_value(name, default);
    settings.set_as_basic(name, true);
    let mut info = VarDictionary::new();
    info.set("name", name);
    info.set("type", default.get_type());
    info.set("hint", hint);
    info.set("hint_string", hint_string);
    settings.add_property_info(&info.upcast_any_dictionary());
}

fn value(name: &str) -> Variant {
    ProjectSettings::singleton().get_setting_with_override(name)
}

/// A setting of type String.
pub fn text(name: &str) -> String {
    value(name).try_to::<GString>().unwrap_or_default().to_string()
}

/// What `atelico_create` gets. Only what differs from the engine's own defaults is named.
pub fn engine_config() -> Value {
    let mut config = Map::new();
    let folders = json::from_variant(&value(MODEL_FOLDERS), MODEL_FOLDERS).unwrap_or_default();
    let folders = folders.as_array().into_iter().flatten().filter_map(Value::as_str);
    config.insert("model_folders".into(), folders.flat_map(paths::folder).collect());
    if let Some(aliases) = aliases() {
        config.insert("aliases".into(), aliases);
    }
    for (name, field, default) in [(N_CTX, "n_ctx", 0), (N_THREADS, "n_threads", 0), (N_GPU_LAYERS, "n_gpu_layers", -1)]
    {
        let number = value(name).try_to::<i64>().unwrap_or(default);
        if number != default {
            config.insert(field.into(), number.into());
        }
    }
    let cache = text(CACHE_FOLDER);
    if !cache.is_empty() {
        config.insert("cache_dir".into(), paths::globalize(&cache).into());
    }
    Value::Object(config)
}

/// Names of the game's own for models; a path among them is resolved as in a request.
fn aliases() -> Option<Value> {
    let aliases = json::from_dictionary(&value(ALIASES).try_to::<AnyDictionary>().ok()?).ok()?;
    let resolved = aliases.as_object()?.iter().filter_map(|(alias, model)| {
        let model = model.as_str()?;
        Some((alias.clone(), paths::resolve_model(model).unwrap_or_else(|_| model.to_owned()).into()))
    });
    let resolved: Map<String, Value> = resolved.collect();
    (!resolved.is_empty()).then_some(Value::Object(resolved))
}
