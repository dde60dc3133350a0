//! The requests and model loads that are under way, and the one place that looks after them: once a frame, on the main
//! thread. It keeps a running request alive, so that `atelico.chat({...}).completed.connect(...)` needs no variable.

use std::cell::{Cell, RefCell};

use godot::classes::{Engine, Os};
use godot::prelude::*;

use crate::native::{self, ModelState};
use crate::request::AtelicoRequest;
use crate::singleton::AtelicoEngine;

thread_local! {
    // Of the main thread.
    static REQUESTS: RefCell<Vec<Gd<AtelicoRequest>>> = const { RefCell::new(Vec::new()) };
    static LOADS: RefCell<Vec<Load>> = const { RefCell::new(Vec::new()) };
    // Of requests that were abandoned, until every node has been freed.
    static COROUTINES: RefCell<Vec<Gd<Object>>> = const { RefCell::new(Vec::new()) };
    static TREE: Cell<Option<InstanceId>> = const { Cell::new(None) };
}

/// A model that somebody asked to load: its name as the game wrote it, and the name libatelico knows it by.
#[derive(Clone)]
pub struct Load {
    pub name: String,
    pub resolved: String,
}

/// Whether this is the main thread.
pub fn is_main_thread() -> bool {
    let os = Os::singleton();
    os.get_thread_caller_id() == os.get_main_thread_id()
}

/// Look after a request until it has ended.
pub fn add(request: Gd<AtelicoRequest>) {
    follow_frames();
    REQUESTS.with_borrow_mut(|requests| requests.push(request));
}

/// Tell when a model has been loaded.
pub fn add_load(load: Load) {
    follow_frames();
    LOADS.with_borrow_mut(|loads| loads.push(load));
}

/// Have `look_after` called every frame of the running scene tree, and `abandon` when it ends.
fn follow_frames() {
    let Some(tree) = Engine::singleton().get_main_loop().and_then(|main_loop| main_loop.try_cast::<SceneTree>().ok())
    else {
        return; // Before the tree exists; a later request connects.
    };
    if TREE.replace(Some(tree.instance_id())) == Some(tree.instance_id()) {
        return;
    }
    tree.signals().process_frame().connect(look_after);
    if let Some(root) = tree.get_root() {
        root.signals().tree_exiting().connect(abandon);
    }
}

fn look_after() {
    let is_paused =
        TREE.get().and_then(|id| Gd::<SceneTree>::try_from_instance_id(id).ok()).is_some_and(|tree| tree.is_paused());
    // Receivers of the signals may begin further requests: nothing is borrowed while they run.
    let requests = REQUESTS.with_borrow(Clone::clone);
    for mut request in requests {
        // Two references are ours: the list's and this one.
        if !AtelicoRequest::has_audience(&mut request, 2) {
            request.bind_mut().cancel();
        }
        AtelicoRequest::deliver(&request, is_paused);
    }
    REQUESTS.with_borrow_mut(|requests| requests.retain(|request| !request.bind().is_ended()));
    look_after_loads();
}

fn look_after_loads() {
    let Some(engine) = native::existing_engine() else {
        return;
    };
    let mut over = Vec::new();
    LOADS.with_borrow_mut(|loads| {
        loads.retain(|load| match engine.model_state(&load.resolved) {
            ModelState::NotLoaded | ModelState::Loading(_) => true,
            state => {
                over.push((load.clone(), state));
                false
            }
        });
    });
    for (load, state) in over {
        AtelicoEngine::announce(&load.name, state);
    }
}

/// Let go of everything: the game ends. Nothing is delivered any more.
pub fn abandon() {
    TREE.set(None);
    LOADS.with_borrow_mut(Vec::clear);
    for mut request in REQUESTS.with_borrow_mut(std::mem::take) {
        request.bind_mut().cancel();
        // A coroutine that awaits it would keep it, and itself, alive for ever. Godot lets go of what a coroutine holds
        // when its node is freed, but only if the coroutine is still there by then.
        COROUTINES.with_borrow_mut(|kept| kept.extend(AtelicoRequest::coroutines(&request)));
        AtelicoRequest::disconnect_all(request);
    }
}

/// The extension is unloaded.
pub fn shut_down() {
    abandon();
    COROUTINES.with_borrow_mut(Vec::clear);
}
