//! The engine singleton `atelico`: what a script calls.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};

use godot::builtin::AnyDictionary;
use godot::classes::Engine;
use godot::global::push_warning;
use godot::prelude::*;
use serde_json::Value;

use crate::failure::{Code, Failure};
use crate::native::{self, ModelState};
use crate::request::{self, AtelicoRequest};
use crate::running::{self, Load};
use crate::tools::{self, Toolbox};
use crate::{json, paths};

const NAME: &str = "atelico";

/// The language models of the game, as the global `atelico`.
///
/// Requests and responses are those of OpenAI's chat completions, as Dictionaries.
///
/// ```gdscript
/// var request := atelico.chat({
///     "model": "res://models/SmolLM2-135M-Instruct.gguf",
///     "messages": [{"role": "user", "content": "Who are you?"}],
///     "speculative": {"proposer": "prompt_lookup", "k": 5},
/// })
/// request.delta.connect(func(text: String): $Label.text += text)
/// ```
///
/// A model is a name (a file of `atelico/runtime/model_folders`, `org/name` or an alias of the
/// project settings) or a path: `res://`, `user://`, relative or absolute. In an exported game
/// `res://` means the folder of the program: ship the .gguf beside it, not inside the .pck.
#[derive(GodotClass)]
#[class(no_init, base=Object)]
pub struct AtelicoEngine {
    base: Base<Object>,
}

thread_local! {
    static SINGLETON: RefCell<Option<Gd<AtelicoEngine>>> = const { RefCell::new(None) };
    // The models the game has asked for, in this order.
    static ASKED: RefCell<Vec<Load>> = const { RefCell::new(Vec::new()) };
}

static WARNED: AtomicBool = AtomicBool::new(false);

#[godot_api]
impl AtelicoEngine {
    /// A model that [method load_model] was called for can answer now.
    #[signal]
    fn model_ready(model: GString);

    /// A model that [method load_model] was called for cannot be loaded. [param error] is
    /// `{"error": {"message", ...}}`.
    #[signal]
    fn model_failed(model: GString, error: VarDictionary);

    /// Answers a request and waits for the answer: the response, or a Dictionary with the key `"error"`.
    /// No frame is drawn meanwhile, so a running game calls [method chat], or this from a [Thread].
    #[func(gd_self)]
    fn chat_completion(_this: Gd<Self>, request: AnyDictionary) -> VarDictionary {
        warn_about_waiting();
        match request::complete(request::prepared(json::from_dictionary(&request))) {
            Ok(response) => json::to_dictionary(&response),
            Err(failure) => {
                failure.report();
                json::to_dictionary(failure.body())
            }
        }
    }

    /// Begins a request and returns at once. Its tools may be functions of the game, called with one Dictionary, their
    /// arguments: `"tools": [{"callable": open_door, "description": "Opens a door.", "parameters": {...}}]`. They run on
    /// the main thread and may await; `"tool_timeout"` limits them, in seconds.
    ///
    /// The answer comes through the signals of the [AtelicoRequest], or
    /// `await request.finished()`. Only to be called on the main thread.
    #[func(gd_self)]
    fn chat(_this: Gd<Self>, request: AnyDictionary) -> Option<Gd<AtelicoRequest>> {
        if !require_main_thread("chat", "Call chat_completion in a Thread, or chat by call_deferred.") {
            return None;
        }
        Some(AtelicoRequest::begin(prepared_with_tools(&request), false))
    }

    /// Starts loading a model and returns at once, so that its first answer need not wait. [signal model_ready] or
    /// [signal model_failed] tells the end, [method model_state] how far it is. Only to be called on the main thread.
    #[func(gd_self)]
    fn load_model(_this: Gd<Self>, model: GString) {
        if !require_main_thread("load_model", "Use call_deferred.") {
            return;
        }
        let name = model.to_string();
        let load = paths::resolve_model(&name).and_then(|resolved| {
            native::engine()?.load_model(&resolved)?;
            Ok(Load { name: name.clone(), resolved })
        });
        match load {
            Ok(load) => {
                ASKED.with_borrow_mut(|asked| {
                    asked.retain(|other| other.name != load.name);
                    asked.push(load.clone());
                });
                running::add_load(load);
            }
            Err(failure) => Self::announce(&name, ModelState::Failed(failure)),
        }
    }

    /// How far a model is: `{"id", "state", "progress"}`. `state` is
    /// `"not_loaded"`, `"loading"`, `"ready"` or `"failed"` (then there is
    /// `"error"`, too); `progress` goes from 0 to 1.
    #[func(gd_self)]
    fn model_state(_this: Gd<Self>, model: GString) -> VarDictionary {
        let name = model.to_string();
        let resolved = match paths::resolve_model(&name) {
            Ok(resolved) => resolved,
            Err(failure) => return state_dictionary(&name, ModelState::Failed(failure)),
        };
        match native::existing_engine() {
            Some(engine) => state_dictionary(&name, engine.model_state(&resolved)),
            None => state_dictionary(&name, ModelState::NotLoaded),
        }
    }

    /// The models this game has called [method load_model] for, each as [method model_state] tells it.
    #[func(gd_self)]
    fn models(this: Gd<Self>) -> Array<VarDictionary> {
        let asked = ASKED.with_borrow(Clone::clone);
        asked.iter().map(|load| Self::model_state(this.clone(), GString::from(&load.name))).collect()
    }

    /// The version of libatelico, such as `"0.1.0"`; empty where it cannot be loaded, which an error explains.
    #[func(gd_self)]
    fn version(_this: Gd<Self>) -> GString {
        native::version().map(|version| GString::from(&version)).unwrap_or_else(|failure| {
            failure.report();
            GString::new()
        })
    }
}

impl AtelicoEngine {
    /// Tell the end of a load.
    pub fn announce(model: &str, state: ModelState) {
        let Some(singleton) = SINGLETON.with_borrow(Clone::clone) else {
            return;
        };
        let model = GString::from(model);
        match state {
            ModelState::Ready => singleton.signals().model_ready().emit(&model),
            ModelState::Failed(failure) => {
                failure.report();
                singleton.signals().model_failed().emit(&model, &json::to_dictionary(failure.body()));
            }
            ModelState::NotLoaded | ModelState::Loading(_) => {}
        }
    }
}

fn prepared_with_tools(request: &AnyDictionary) -> Result<(Value, Option<Toolbox>), Failure> {
    let (body, tools, timeout) =
        tools::split(request).map_err(|problem| Failure::new(Code::INVALID_ARGUMENT, problem))?;
    let body = request::prepared(Ok(body))?;
    Ok((body.clone(), tools::toolbox(body, tools, timeout)))
}

fn state_dictionary(name: &str, state: ModelState) -> VarDictionary {
    let (word, progress) = match state {
        ModelState::NotLoaded => ("not_loaded", 0.0),
        ModelState::Loading(share) => ("loading", share),
        ModelState::Ready => ("ready", 1.0),
        ModelState::Failed(_) => ("failed", 0.0),
    };
    let mut dictionary = vdict! { "id" => name, "state" => word, "progress" => progress };
    if let ModelState::Failed(failure) = state {
        dictionary.set("error", &json::to_variant(&failure.body()["error"]));
    }
    dictionary
}

fn require_main_thread(function: &str, instead: &str) -> bool {
    let is_main = running::is_main_thread();
    if !is_main {
        let message = format!("atelico.{function} was called outside the main thread. {instead}");
        Failure::new(Code::INVALID_ARGUMENT, message).report();
    }
    is_main
}

/// Waiting stops a running game; a tool of the editor may wait.
fn warn_about_waiting() {
    let engine = Engine::singleton();
    let stops_game = running::is_main_thread() && !engine.is_editor_hint() && engine.get_main_loop().is_some();
    if stops_game && !WARNED.swap(true, Ordering::Relaxed) {
        push_warning(&[
            "atelico.chat_completion waits on the main thread, so the game stands still until the answer is \
             there. Use atelico.chat, or call it from a Thread."
                .to_variant(),
        ]);
    }
}

/// Make `atelico` known to scripts.
pub fn register() {
    let singleton = Gd::from_init_fn(|base| AtelicoEngine { base });
    Engine::singleton().register_singleton(NAME, &singleton);
    SINGLETON.with_borrow_mut(|slot| *slot = Some(singleton));
}

/// Take `atelico` back: the extension is unloaded.
pub fn unregister() {
    if let Some(singleton) = SINGLETON.with_borrow_mut(Option::take) {
        Engine::singleton().unregister_singleton(NAME);
        singleton.free();
    }
}
