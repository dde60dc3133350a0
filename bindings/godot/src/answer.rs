//! From the chunks of a stream to one chat completion response. No Godot in here.

use serde_json::{Map, Value, json};

#[derive(Default)]
struct Choice {
    content: String,
    reasoning: String,
    logprobs: Vec<Value>,
    tool_calls: Vec<Value>,
    finish_reason: Value,
}

/// A response that is still arriving.
#[derive(Default)]
pub struct Answer {
    head: Map<String, Value>,
    choices: Vec<Choice>,
    usage: Value,
    info: Value,
}

impl Answer {
    /// Take one chunk. Returns the new text of the first choice.
    pub fn take(&mut self, mut chunk: Value) -> String {
        for field in ["id", "created", "model", "system_fingerprint"] {
            if !self.head.contains_key(field) {
                self.head.insert(field.into(), chunk[field].take());
            }
        }
        for (field, to) in [("usage", &mut self.usage), ("atelico", &mut self.info)] {
            if !chunk[field].is_null() {
                *to = chunk[field].take();
            }
        }
        let mut text = String::new();
        for choice in chunk["choices"].as_array_mut().into_iter().flatten() {
            let index = choice["index"].as_u64().unwrap_or(0) as usize;
            if self.choices.len() <= index {
                self.choices.resize_with(index + 1, Choice::default);
            }
            let to = &mut self.choices[index];
            let new = choice["delta"]["content"].as_str().unwrap_or("");
            to.content.push_str(new);
            if index == 0 {
                text.push_str(new);
            }
            to.reasoning.push_str(choice["delta"]["reasoning_content"].as_str().unwrap_or(""));
            for part in choice["delta"]["tool_calls"].as_array().into_iter().flatten() {
                to.take_call(part);
            }
            if let Value::Array(rows) = choice["logprobs"]["content"].take() {
                to.logprobs.extend(rows);
            }
            if !choice["finish_reason"].is_null() {
                to.finish_reason = choice["finish_reason"].take();
            }
        }
        text
    }

    /// The whole response of a request that was cancelled between two rounds.
    pub fn cancelled(&mut self) -> Value {
        for choice in &mut self.choices {
            choice.finish_reason = "cancelled".into();
        }
        self.response()
    }

    /// The whole response.
    pub fn response(&self) -> Value {
        let choices: Vec<Value> = self.choices.iter().enumerate().map(|(i, choice)| choice.json(i)).collect();
        let mut response = self.head.clone();
        response.insert("object".into(), "chat.completion".into());
        response.insert("choices".into(), choices.into());
        response.insert("usage".into(), self.usage.clone());
        response.insert("atelico".into(), self.info.clone());
        Value::Object(response)
    }
}

impl Choice {
    /// The first part of a call has its id and name, the others add to its arguments.
    fn take_call(&mut self, part: &Value) {
        let index = part["index"].as_u64().unwrap_or(0) as usize;
        while self.tool_calls.len() <= index {
            self.tool_calls.push(json!({"type": "function", "function": {"name": "", "arguments": ""}}));
        }
        let call = &mut self.tool_calls[index];
        if part["id"].is_string() {
            call["id"] = part["id"].clone();
        }
        for field in ["name", "arguments"] {
            let more = part["function"][field].as_str().unwrap_or("");
            call["function"][field] = format!("{}{more}", call["function"][field].as_str().unwrap_or("")).into();
        }
    }

    fn json(&self, index: usize) -> Value {
        let mut message = json!({"role": "assistant", "content": self.content});
        if !self.reasoning.is_empty() {
            message["reasoning_content"] = self.reasoning.clone().into();
        }
        if !self.tool_calls.is_empty() {
            message["tool_calls"] = self.tool_calls.clone().into();
        }
        let logprobs = if self.logprobs.is_empty() { Value::Null } else { json!({"content": self.logprobs}) };
        json!({"index": index, "message": message, "finish_reason": self.finish_reason, "logprobs": logprobs})
    }
}
