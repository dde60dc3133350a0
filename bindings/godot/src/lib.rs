//! The Godot binding of atelico: a GDExtension over libatelico. Here is only what Godot calls when it loads and unloads
//! the extension.
//!
//! Threads: requests are begun from any thread and delivered on the main one, once a frame (`running`). libatelico never
//! makes a caller wait, so nothing here has a thread of its own.

mod answer;
mod chat_node;
mod failure;
mod json;
mod library;
mod native;
mod paths;
mod request;
mod running;
mod settings;
mod singleton;
mod tools;

use godot::prelude::*;

struct AtelicoExtension;

#[gdextension]
unsafe impl ExtensionLibrary for AtelicoExtension {
    fn on_stage_init(stage: InitStage) {
        if stage == InitStage::Scene {
            settings::register();
            singleton::register();
        }
    }

    fn on_stage_deinit(stage: InitStage) {
        if stage == InitStage::Scene {
            running::shut_down();
            native::shut_down();
            singleton::unregister();
        }
    }
}
