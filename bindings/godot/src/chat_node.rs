//! AtelicoChat: a character of a scene, with a dialogue.

use godot::builtin::AnyArray;
use godot::prelude::*;
use serde_json::{Value, json};

use crate::failure::{Code, Failure};
use crate::json as convert;
use crate::request::{self, AtelicoRequest};
use crate::tools::{self, Tool, Toolbox};

/// A character that talks: keeps its dialogue and answers one question at a time.
///
/// ```gdscript
/// func _ready() -> void:
///     $Innkeeper.delta.connect(func(text: String): $Label.text += text)
///     $Innkeeper.ask("Have you got a room?")
/// ```
///
/// Each question continues the dialogue, and the engine remembers the dialogue so far instead of reading it again.
#[derive(GodotClass)]
#[class(init, base=Node)]
pub struct AtelicoChat {
    base: Base<Node>,
    /// The model: a .gguf file, or a name. See [AtelicoEngine].
    #[export(file = "*.gguf")]
    model: GString,
    /// Who the character is and how it speaks.
    #[export(multiline)]
    system_prompt: GString,
    /// How answers are drafted ahead to be faster. The answers are the same with each; `auto` takes the best
    /// one for the model.
    #[export(enum = (none, auto, prompt_lookup, lookahead, mtp, draft_model))]
    #[init(val = "auto".into())]
    proposer: GString,
    /// Tokens drafted at once, at most; 0 leaves it to the engine.
    #[export(range = (0.0, 32.0, 1.0))]
    draft_tokens: i64,
    /// With `stochastic` drafts may change the answer of a seed, and are right more often.
    #[export(enum = (exact, stochastic))]
    #[init(val = "exact".into())]
    acceptance: GString,
    /// A JSON schema that every answer follows; empty for free text. Read the answer with [method JSON.parse_string].
    #[export]
    schema: VarDictionary,
    /// 0 answers the same every time, higher values vary more; -1 takes the model's default.
    #[export(range = (-1.0, 2.0, 0.05))]
    #[init(val = -1.0)]
    temperature: f64,
    /// The same seed gives the same answer; -1 takes a new one each time.
    #[export]
    #[init(val = -1)]
    seed: i64,
    /// The longest answer, in tokens; 0 for no limit but the context.
    #[export(range = (0.0, 4096.0, 1.0, or_greater))]
    #[init(val = 256)]
    max_tokens: i64,
    /// Go on showing the answer while the scene tree is paused.
    #[export]
    while_paused: bool,
    history: Vec<Value>,
    declarations: Vec<Value>,
    tools: Vec<Tool>,
    current: Option<Current>,
}

/// The question that is being answered.
struct Current {
    question: Value,
    request: Gd<AtelicoRequest>,
    has_started: bool,
}

#[godot_api]
impl AtelicoChat {
    /// The first text of an answer is about to come.
    #[signal]
    fn started();

    /// More text of the answer: only what is new since the last time.
    #[signal]
    fn delta(text: GString);

    /// The answer is complete, or was stopped. [param response] is the whole response, with timings.
    #[signal]
    fn finished(text: GString, response: VarDictionary);

    /// There is no answer; the question is not part of the dialogue. [param error] is
    /// `{"error": {"message", ...}}`.
    #[signal]
    fn failed(error: VarDictionary);

    /// Asks the character. The answer comes through the signals, or `await chat.ask("...").finished()`.
    /// While it still answers, a further question is refused: its request fails with the code `"busy"`.
    #[func(gd_self)]
    fn ask(mut this: Gd<Self>, text: GString) -> Gd<AtelicoRequest> {
        let question = json!({"role": "user", "content": text.to_string()});
        if this.bind().is_busy() {
            let message = "This AtelicoChat still answers the last question. Wait for finished, or call stop() first.";
            return AtelicoRequest::begin(Err(Failure::new(Code::BUSY, message)), true);
        }
        let request = AtelicoRequest::begin(this.bind().prepared(&question), this.bind().while_paused);
        let id = request.instance_id();
        this.bind_mut().current = Some(Current { question, request: request.clone(), has_started: false });
        // The connections end with this node; `id` tells a late answer of before reset() from the current one.
        let on_delta = move |chat, text: GString| Self::on_delta(chat, id, text);
        request.signals().delta().builder().connect_other_gd(&this, on_delta);
        let on_completed = move |chat, response: VarDictionary| Self::on_completed(chat, id, response);
        request.signals().completed().builder().connect_other_gd(&this, on_completed);
        let on_failed = move |chat, error: VarDictionary| Self::on_failed(chat, id, error);
        request.signals().failed().builder().connect_other_gd(&this, on_failed);
        request
    }

    /// Lets the character call a function of the game, by the function's name. It gets one Dictionary, as the JSON schema
    /// [param parameters] describes it (empty: no arguments); it runs on the main thread, may await, and what
    /// it returns is told to the character. Say in [param description] when to call it.
    #[func]
    fn add_tool(&mut self, callable: Callable, description: GString, parameters: VarDictionary) {
        let added = tools::named(&callable, None, "add_tool's callable").and_then(|name| {
            let parameters = convert::from_variant(&parameters.to_variant(), "parameters")?;
            Ok((tools::declaration(&name, Some(description.to_string()), parameters), (name, callable)))
        });
        match added {
            Ok((declaration, tool)) => {
                self.remove_tool(GString::from(&tool.0));
                self.declarations.push(declaration);
                self.tools.push(tool);
            }
            Err(problem) => report(&problem),
        }
    }

    /// Takes a function back that [method add_tool] added.
    #[func]
    fn remove_tool(&mut self, name: GString) {
        let name = name.to_string();
        self.declarations.retain(|declaration| declaration["function"]["name"] != name.as_str());
        self.tools.retain(|(own, _)| *own != name);
    }

    /// Stops the answer. What has been said stays in the dialogue, and [signal finished] follows.
    #[func]
    fn stop(&mut self) {
        if let Some(current) = &mut self.current {
            current.request.bind_mut().cancel();
        }
    }

    /// Stops and forgets the dialogue; no signal follows.
    #[func]
    fn reset(&mut self) {
        self.stop();
        self.current = None;
        self.history.clear();
    }

    /// Whether an answer is under way.
    #[func]
    fn is_busy(&self) -> bool {
        self.current.is_some()
    }

    /// The dialogue without the system prompt: `[{"role": "user", "content": "..."}, ...]`. JSON can hold it,
    /// so a saved game can.
    #[func]
    fn get_history(&self) -> Array<VarDictionary> {
        self.history.iter().map(convert::to_dictionary).collect()
    }

    /// Replaces the dialogue by one that [method get_history] returned.
    #[func]
    fn set_history(&mut self, history: AnyArray) {
        match convert::from_variant(&history.to_variant(), "history") {
            Ok(Value::Array(messages)) if messages.iter().all(is_message) => self.history = messages,
            Ok(_) => report("set_history needs an Array of {\"role\": \"...\", \"content\": \"...\"}."),
            Err(problem) => report(&problem),
        }
    }
}

impl AtelicoChat {
    fn prepared(&self, question: &Value) -> Result<(Value, Option<Toolbox>), Failure> {
        let body = request::prepared(self.body(question))?;
        Ok((body.clone(), tools::toolbox(body, self.tools.clone(), None)))
    }

    /// The request for a question.
    fn body(&self, question: &Value) -> Result<Value, String> {
        let mut messages = Vec::with_capacity(self.history.len() + 2);
        if !self.system_prompt.is_empty() {
            messages.push(json!({"role": "system", "content": self.system_prompt.to_string()}));
        }
        messages.extend_from_slice(&self.history);
        messages.push(question.clone());
        let mut body = json!({"model": self.model.to_string(), "messages": messages});
        if self.proposer != "none" && !self.proposer.is_empty() {
            body["speculative"] = json!({"proposer": self.proposer.to_string()});
            if self.draft_tokens > 0 {
                body["speculative"]["k"] = self.draft_tokens.into();
            }
            if self.acceptance != "exact" && !self.acceptance.is_empty() {
                body["speculative"]["acceptance"] = self.acceptance.to_string().into();
            }
        }
        if !self.schema.is_empty() {
            let schema = convert::from_variant(&self.schema.to_variant(), "schema")?;
            body["response_format"] =
                json!({"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": true}});
        }
        if !self.declarations.is_empty() {
            body["tools"] = self.declarations.clone().into();
        }
        if self.temperature >= 0.0 {
            body["temperature"] = self.temperature.into();
        }
        if self.seed >= 0 {
            body["seed"] = self.seed.into();
        }
        if self.max_tokens > 0 {
            body["max_tokens"] = self.max_tokens.into();
        }
        Ok(body)
    }

    /// End the current question, if it is this one.
    fn take_current(&mut self, id: InstanceId) -> Option<Current> {
        self.current.take_if(|current| current.request.instance_id() == id)
    }

    fn on_delta(mut chat: Gd<Self>, id: InstanceId, text: GString) {
        let is_first = match &mut chat.bind_mut().current {
            Some(current) if current.request.instance_id() == id => !std::mem::replace(&mut current.has_started, true),
            _ => return,
        };
        if is_first {
            chat.signals().started().emit();
        }
        if chat.is_instance_valid() {
            chat.signals().delta().emit(&text);
        }
    }

    fn on_completed(mut chat: Gd<Self>, id: InstanceId, response: VarDictionary) {
        let Some(current) = chat.bind_mut().take_current(id) else {
            return;
        };
        let text = current.request.bind().get_text();
        if !text.is_empty() {
            let answer = json!({"role": "assistant", "content": text.to_string()});
            chat.bind_mut().history.extend([current.question, answer]);
        }
        chat.signals().finished().emit(&text, &response);
    }

    fn on_failed(mut chat: Gd<Self>, id: InstanceId, error: VarDictionary) {
        if chat.bind_mut().take_current(id).is_some() {
            chat.signals().failed().emit(&error);
        }
    }
}

impl Drop for AtelicoChat {
    /// A freed character stops talking.
    fn drop(&mut self) {
        self.stop();
    }
}

fn is_message(message: &Value) -> bool {
    message["role"].is_string() && message["content"].is_string()
}

fn report(message: &str) {
    Failure::new(Code::INVALID_ARGUMENT, message).report();
}
