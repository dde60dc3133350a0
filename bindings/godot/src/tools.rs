//! Tools that are functions of the game: taken out of a request, called on the main thread, awaited, and told to the
//! model. When that happens is in `request`.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use godot::builtin::{AnyArray, AnyDictionary};
use godot::prelude::*;
use serde_json::{Value, json};

use crate::json;

/// How long a tool may take, unless the request says something else.
const TIMEOUT_S: f64 = 60.0;
/// After so many rounds of calls the model has to answer in words.
const MAX_ROUNDS: u32 = 8;
/// The longest step of the clock that limits a tool: while the game stands still, so does the clock.
const MAX_STEP: Duration = Duration::from_millis(200);

/// A function of the game and the name the model calls it by.
pub type Tool = (String, Callable);

/// A request's tools that the game runs itself, and the dialogue their results are added to.
pub struct Toolbox {
    body: Value,
    tools: Vec<Tool>,
    timeout: Duration,
    n_rounds: u32,
}

/// A call that was started.
pub struct Call {
    id: String,
    outcome: Rc<RefCell<Option<Variant>>>,
}

/// The calls of one round, waited for together.
pub struct Calls {
    calls: Vec<Call>,
    waited: Duration,
    last: Instant,
}

/// A request as JSON, its tools that are Callables (entries such as
/// `{"callable": open_door, "description": "...", "parameters": {...}}`), and the seconds they may take.
///
/// Errors: what is wrong with an entry, or what JSON cannot hold.
pub fn split(request: &AnyDictionary) -> Result<(Value, Vec<Tool>, Option<f64>), String> {
    let Some(Ok(entries)) = request.get("tools").map(|tools| tools.try_to::<AnyArray>()) else {
        return Ok((json::from_dictionary(request)?, Vec::new(), None));
    };
    let mut tools = Vec::new();
    let mut plain = VarArray::new();
    for (i, entry) in entries.iter_shared().enumerate() {
        let path = format!("request.tools[{i}]");
        match entry.try_to::<AnyDictionary>() {
            Ok(own) if own.contains_key("callable") => {
                let callable = own.at("callable").try_to::<Callable>();
                let callable = callable.map_err(|_| format!("{path}.callable is not a Callable."))?;
                let text = |key: &str| own.get(key).map(|value| value.stringify().to_string());
                let parameters = own.get("parameters").unwrap_or_default();
                let parameters = json::from_variant(&parameters, &format!("{path}.parameters"))?;
                let name = named(&callable, text("name"), &path)?;
                plain.push(&json::to_variant(&declaration(&name, text("description"), parameters)));
                tools.push((name, callable));
            }
            _ => plain.push(&entry),
        }
    }
    let mut request = request.duplicate_shallow().try_cast_var_dictionary().unwrap_or_else(|typed| {
        typed.iter_shared().collect() // typed Dictionaries, such as Dictionary[String, Variant]
    });
    request.set("tools", &plain);
    let timeout = request.remove("tool_timeout").and_then(|seconds| seconds.try_to_relaxed::<f64>().ok());
    let body = json::from_dictionary(&request.upcast_any_dictionary())?;
    Ok((body, tools, timeout))
}

/// The tools of a request whose `body` already declares them.
pub fn toolbox(body: Value, tools: Vec<Tool>, timeout: Option<f64>) -> Option<Toolbox> {
    let seconds = timeout.filter(|seconds| seconds.is_finite() && *seconds > 0.0).unwrap_or(TIMEOUT_S);
    (!tools.is_empty()).then(|| Toolbox {
        body,
        tools,
        timeout: Duration::from_secs_f64(seconds.min(1e6)),
        n_rounds: 0,
    })
}

/// A tool as the model is told of it. Without parameters it takes no arguments.
pub fn declaration(name: &str, description: Option<String>, parameters: Value) -> Value {
    let mut function = json!({"name": name, "description": description});
    if parameters.as_object().is_some_and(|members| !members.is_empty()) {
        function["parameters"] = parameters;
    }
    json!({"type": "function", "function": function})
}

/// The name the model calls a function by: the given one, or the function's own.
pub fn named(callable: &Callable, given: Option<String>, path: &str) -> Result<String, String> {
    let name = given.or_else(|| callable.method_name().map(|name| name.to_string())).unwrap_or_default();
    let is_valid = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() || name.len() > 64 || !name.chars().all(is_valid) {
        return Err(format!("{path} is a function without a name. Give it one: \"name\": \"open_door\"."));
    }
    Ok(name)
}

impl Toolbox {
    /// The calls of an answer that the game is to run: all of them, or none where it does not know one.
    pub fn wanted(&self, response: &Value) -> Option<Vec<Value>> {
        let choice = &response["choices"][0];
        let is_whole = matches!(choice["finish_reason"].as_str(), Some("tool_calls" | "stop"));
        let calls = choice["message"]["tool_calls"].as_array()?;
        let is_ours = |call: &Value| self.callable(call).is_some();
        (is_whole && !calls.is_empty() && calls.iter().all(is_ours)).then(|| calls.clone())
    }

    pub fn callable(&self, call: &Value) -> Option<Callable> {
        let name = call["function"]["name"].as_str()?;
        self.tools.iter().find(|(own, _)| own == name).map(|(_, callable)| callable.clone())
    }

    /// The request that tells the model what its calls gave.
    pub fn next(&mut self, response: &Value, calls: &Calls) -> Value {
        self.n_rounds += 1;
        let results = calls.calls.iter().map(|call| {
            let content = self.result(call.outcome.borrow().as_ref());
            json!({"role": "tool", "tool_call_id": call.id, "content": content})
        });
        let results: Vec<Value> = results.collect();
        if let Some(messages) = self.body["messages"].as_array_mut() {
            messages.push(response["choices"][0]["message"].clone());
            messages.extend(results);
        }
        // Who was made to call something would be made to call it for ever.
        let was_free = matches!(self.body["tool_choice"].as_str(), None | Some("auto"));
        if !was_free || self.n_rounds >= MAX_ROUNDS {
            self.body["tool_choice"] = "none".into();
        }
        self.body.clone()
    }

    /// What a call gave, in words for the model.
    fn result(&self, outcome: Option<&Variant>) -> String {
        let Some(value) = outcome else {
            return format!("error: no result within {} seconds", self.timeout.as_secs_f64());
        };
        match json::from_variant(value, "result") {
            Ok(Value::String(text)) => text,
            Ok(Value::Null) => "done".into(),
            Ok(other) => other.to_string(),
            Err(_) => value.stringify().to_string(),
        }
    }
}

impl Calls {
    pub fn new() -> Self {
        Self { calls: Vec::new(), waited: Duration::ZERO, last: Instant::now() }
    }

    pub fn push(&mut self, call: Call) {
        self.calls.push(call);
    }

    /// Whether all have ended, or have had their time.
    pub fn are_over(&mut self, toolbox: &Toolbox) -> bool {
        self.waited += self.last.elapsed().min(MAX_STEP);
        self.last = Instant::now();
        self.waited > toolbox.timeout || self.calls.iter().all(|call| call.outcome.borrow().is_some())
    }
}

impl Call {
    /// Call a function of the game with the model's arguments, as one Dictionary. It may await.
    pub fn start(call: &Value, callable: &Callable) -> Self {
        let outcome = Rc::new(RefCell::new(None));
        let started = Self { id: call["id"].as_str().unwrap_or("").to_owned(), outcome: outcome.clone() };
        if !callable.is_valid() {
            *outcome.borrow_mut() = Some("error: this is not possible any more".to_variant());
            return started;
        }
        let arguments = call["function"]["arguments"].as_str().and_then(|text| serde_json::from_str(text).ok());
        let arguments = json::to_dictionary(&arguments.unwrap_or_default()).to_variant();
        let takes_none = callable.get_argument_count() == 0;
        let returned = callable.call(if takes_none { &[] } else { std::slice::from_ref(&arguments) });
        match completion(&returned) {
            Some(signal) => {
                let store = move |values: &[&Variant]| {
                    *outcome.borrow_mut() = Some(values.first().map_or_else(Variant::nil, |value| (*value).clone()));
                };
                signal.connect(&Callable::from_fn("atelico tool", store));
            }
            None => *outcome.borrow_mut() = Some(returned),
        }
        started
    }
}

/// What tells the end of a function that awaits: the signal of its state, or a Signal it returned.
fn completion(returned: &Variant) -> Option<Signal> {
    if let Ok(signal) = returned.try_to::<Signal>() {
        return Some(signal);
    }
    let state = returned.try_to::<Gd<Object>>().ok()?;
    is_coroutine(&state).then(|| Signal::from_object_signal(&state, "completed"))
}

/// Whether this is the state of a GDScript function that awaits.
pub fn is_coroutine(object: &Gd<Object>) -> bool {
    object.get_class() == "GDScriptFunctionState"
}
