//! What went wrong, as the error body every other front of atelico has: `{"error": {"message", "type", "param", "code"},
//! "atelico": {"result"}}`. Here is how it is made and how it is shown, not where it comes from.

use godot::global::push_error;
use godot::prelude::*;
use serde_json::{Value, json};

/// A result of libatelico that a failure can have; the numbers of atelico.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub i32);

impl Code {
    pub const INVALID_ARGUMENT: Code = Code(-2);
    pub const INIT_FAILED: Code = Code(-3);
    pub const MODEL_NOT_FOUND: Code = Code(-4);
    pub const BUSY: Code = Code(-11);
    pub const SHUTTING_DOWN: Code = Code(-12);
    pub const INTERNAL: Code = Code(-99);

    /// `type` and `code` of the error body, for failures that come as a bare result.
    fn names(self) -> (&'static str, &'static str) {
        match self.0 {
            -2 => ("invalid_request_error", "invalid_value"),
            -3 => ("invalid_request_error", "init_failed"),
            -4 => ("invalid_request_error", "model_not_found"),
            -8 => ("invalid_request_error", "invalid_json"),
            -9 => ("invalid_request_error", "context_length_exceeded"),
            -10 => ("invalid_request_error", "cancelled"),
            -11 => ("rate_limit_error", "busy"),
            -12 => ("server_error", "shutting_down"),
            _ => ("server_error", "internal_error"),
        }
    }
}

/// A failure and what to do about it.
#[derive(Clone, Debug)]
pub struct Failure {
    body: Value,
}

impl Failure {
    /// `message`: what is wrong and what to do, in full sentences.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self::about(code, message, None)
    }

    /// A failure that one field of the request is to blame for.
    pub fn about(code: Code, message: impl Into<String>, param: Option<&str>) -> Self {
        let (kind, name) = code.names();
        Self {
            body: json!({
                "error": {"message": message.into(), "type": kind, "param": param, "code": name},
                "atelico": {"result": code.0},
            }),
        }
    }

    /// The failure in an error event of libatelico.
    pub fn from_event(body: Value) -> Self {
        Self { body }
    }

    pub fn body(&self) -> &Value {
        &self.body
    }

    pub fn message(&self) -> &str {
        self.body["error"]["message"].as_str().unwrap_or("unknown error")
    }

    /// Show it in the editor's debugger and on the console.
    pub fn report(&self) {
        push_error(&[format!("atelico: {}", self.message()).to_variant()]);
    }
}
