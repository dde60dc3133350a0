//! The one engine of the process, behind libatelico's C functions, in Rust's types. Every call returns at once, from any
//! thread.

use std::ffi::{CStr, CString, c_void};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::failure::{Code, Failure};
use crate::library::{self, Library};
use crate::settings;

/// A buffer that holds nearly every event; larger ones make it grow.
const EVENT_BYTES: usize = 16 * 1024;
const DONE: i32 = -6;
const EMPTY: i32 = -7;

/// What poll found.
pub enum Event {
    /// A chat completion chunk.
    Chunk(Value),
    /// The job's error; `Done` follows.
    Failed(Failure),
    /// Nothing yet.
    Empty,
    /// The job has ended and is forgotten.
    Done,
}

/// How far a model is.
pub enum ModelState {
    NotLoaded,
    Loading(f32),
    Ready,
    Failed(Failure),
}

pub struct Engine {
    library: &'static Library,
    handle: *mut c_void,
}

// atelico.h: every function may be called from any thread at any time.
unsafe impl Send for Engine {}
unsafe impl Sync for Engine {}

enum Slot {
    Unused,
    Living(Arc<Engine>),
    ShutDown,
}

static ENGINE: Mutex<Slot> = Mutex::new(Slot::Unused);

fn slot() -> std::sync::MutexGuard<'static, Slot> {
    ENGINE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The engine, made with the project's settings on the first call.
pub fn engine() -> Result<Arc<Engine>, Failure> {
    let mut slot = slot();
    match &*slot {
        Slot::Living(engine) => Ok(engine.clone()),
        Slot::ShutDown => Err(Failure::new(Code::SHUTTING_DOWN, "The game is closing.")),
        Slot::Unused => {
            let engine = Arc::new(Engine::create(&settings::engine_config())?);
            *slot = Slot::Living(engine.clone());
            Ok(engine)
        }
    }
}

/// The engine, if something has needed it before.
pub fn existing_engine() -> Option<Arc<Engine>> {
    match &*slot() {
        Slot::Living(engine) => Some(engine.clone()),
        _ => None,
    }
}

/// End the engine, whatever it is doing. Returns at once.
pub fn shut_down() {
    if let Slot::Living(engine) = std::mem::replace(&mut *slot(), Slot::ShutDown) {
        // Other threads may still hold it: their calls end with INVALID_HANDLE or SHUTTING_DOWN.
        unsafe { (engine.library.destroy)(engine.handle) };
    }
}

/// The version of libatelico.
pub fn version() -> Result<String, Failure> {
    let library = library::get().map_err(|message| Failure::new(Code::INIT_FAILED, message))?;
    Ok(unsafe { CStr::from_ptr((library.version)()) }.to_string_lossy().into_owned())
}

impl Engine {
    fn create(config: &Value) -> Result<Self, Failure> {
        let library = library::get().map_err(|message| Failure::new(Code::INIT_FAILED, message))?;
        let config = c_string(&config.to_string(), "the settings")?;
        let handle = unsafe { (library.create)(config.as_ptr()) };
        if handle.is_null() {
            return Err(Failure::new(Code::INIT_FAILED, last_error(library)));
        }
        Ok(Self { library, handle })
    }

    /// Start a request; returns its job.
    pub fn begin(&self, request: &Value) -> Result<i64, Failure> {
        let request = c_string(&request.to_string(), "the request")?;
        let job = unsafe { (self.library.chat_begin)(self.handle, request.as_ptr()) };
        if job > 0 { Ok(job) } else { Err(self.failure(job as i32)) }
    }

    /// The next event of a job.
    pub fn poll(&self, job: i64) -> Event {
        let mut buffer = vec![0u8; EVENT_BYTES];
        loop {
            let n =
                unsafe { (self.library.chat_poll)(self.handle, job, buffer.as_mut_ptr().cast(), buffer.len() as i32) };
            match n {
                DONE => return Event::Done,
                EMPTY => return Event::Empty,
                n if n < 0 => return Event::Failed(self.failure(n)),
                n if n as usize >= buffer.len() => buffer.resize(n as usize + 1, 0),
                n => return event(&buffer[..n as usize]),
            }
        }
    }

    /// Stop a job. One that has ended, or never was, is left alone.
    pub fn cancel(&self, job: i64) {
        unsafe { (self.library.chat_cancel)(self.handle, job) };
    }

    /// Start loading a model.
    pub fn load_model(&self, model: &str) -> Result<(), Failure> {
        let model = c_string(model, "the model's name")?;
        match unsafe { (self.library.load_model)(self.handle, model.as_ptr()) } {
            0 => Ok(()),
            result => Err(self.failure(result)),
        }
    }

    pub fn model_state(&self, model: &str) -> ModelState {
        let model = match c_string(model, "the model's name") {
            Ok(model) => model,
            Err(failure) => return ModelState::Failed(failure),
        };
        let mut share = 0.0;
        match unsafe { (self.library.model_state)(self.handle, model.as_ptr(), &mut share) } {
            0 => ModelState::NotLoaded,
            1 => ModelState::Loading(share),
            2 => ModelState::Ready,
            result => ModelState::Failed(self.failure(result)),
        }
    }

    fn failure(&self, result: i32) -> Failure {
        Failure::new(Code(result), last_error(self.library))
    }
}

fn event(text: &[u8]) -> Event {
    match serde_json::from_slice::<Value>(text) {
        Ok(body) if body.get("error").is_some() => Event::Failed(Failure::from_event(body)),
        Ok(chunk) => Event::Chunk(chunk),
        Err(error) => Event::Failed(Failure::new(Code::INTERNAL, format!("libatelico sent no JSON: {error}."))),
    }
}

fn last_error(library: &Library) -> String {
    let mut buffer = [0u8; 4096];
    let n = unsafe { (library.last_error)(buffer.as_mut_ptr().cast(), buffer.len() as i32) };
    let length = usize::try_from(n).unwrap_or(0).min(buffer.len() - 1);
    String::from_utf8_lossy(&buffer[..length]).into_owned()
}

/// JSON escapes a NUL, so only names can contain one.
fn c_string(text: &str, what: &str) -> Result<CString, Failure> {
    CString::new(text)
        .map_err(|_| Failure::new(Code::INVALID_ARGUMENT, format!("There is a character 0 in {what}. Remove it.")))
}
