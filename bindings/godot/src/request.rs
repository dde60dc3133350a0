//! AtelicoRequest: one request and its answer. When it is looked after is in `running`.

use godot::prelude::*;
use serde_json::Value;

use crate::answer::Answer;
use crate::failure::{Code, Failure};
use crate::native::{self, Event};
use crate::tools::{self, Call, Calls, Toolbox};
use crate::{json, running};

/// One chat request that is being answered; `atelico.chat` returns it.
///
/// Everything arrives on the main thread, at most once a frame. A request that nobody holds, awaits or listens to any
/// more is cancelled by itself.
///
/// ```gdscript
/// var request := atelico.chat({"model": "npc", "messages": [{"role": "user", "content": "Hello"}]})
/// request.delta.connect(func(text: String): label.text += text)
/// var result: Dictionary = await request.finished()
/// ```
#[derive(GodotClass)]
#[class(no_init, base=RefCounted)]
pub struct AtelicoRequest {
    base: Base<RefCounted>,
    state: State,
    said: String,
    /// Deliver while the scene tree is paused, too. Otherwise the signals wait until it runs again; the model does not.
    #[var]
    while_paused: bool,
    /// The text that has arrived so far.
    #[var(get = get_text, no_set)]
    text: PhantomVar<GString>,
}

const SIGNALS: [&str; 4] = ["delta", "completed", "failed", "ended"];

enum State {
    /// It could not begin. Told on the next frame, when its maker has had time to connect.
    Refused(Failure),
    Running {
        job: i64,
        answer: Answer,
        toolbox: Option<Toolbox>,
    },
    /// The game runs what the model has called.
    Calling {
        calls: Calls,
        answer: Answer,
        toolbox: Toolbox,
        is_cancelled: bool,
    },
    Ended(VarDictionary),
}

/// What is to be done, without the request being borrowed, once its news have been taken.
enum Next {
    Wait,
    Call(Vec<(Value, Callable)>),
    Completed(VarDictionary),
    Failed(VarDictionary),
}

#[godot_api]
impl AtelicoRequest {
    /// More text of the answer: only what is new since the last time.
    #[signal]
    pub(crate) fn delta(text: GString);

    /// The answer is complete. [param response] is an OpenAI chat completion: the text is in
    /// `response.choices[0].message.content`, what speculation did and how long it took in `response.atelico`. A
    /// cancelled request completes with the text so far and the `finish_reason` `"cancelled"`.
    #[signal]
    pub(crate) fn completed(response: VarDictionary);

    /// There is no answer. [param error] is `{"error": {"message", "type", "param", "code"}}`.
    #[signal]
    pub(crate) fn failed(error: VarDictionary);

    /// After [signal completed] or [signal failed], with the same Dictionary.
    #[signal]
    fn ended(result: VarDictionary);

    /// To be awaited: gives the response, or a Dictionary with the key `"error"`. Also works when the request has already
    /// ended. Await it where you call it: `await request.finished()`.
    #[func]
    fn finished(&self) -> Variant {
        match &self.state {
            State::Ended(result) => result.to_variant(),
            _ => Signal::from_object_signal(&self.to_gd(), "ended").to_variant(),
        }
    }

    /// Stop generating as soon as possible. Safe at any time, any number of times.
    #[func]
    pub fn cancel(&mut self) {
        match &mut self.state {
            State::Running { job, .. } => {
                if let Some(engine) = native::existing_engine() {
                    engine.cancel(*job);
                }
            }
            State::Calling { is_cancelled, .. } => *is_cancelled = true,
            State::Refused(_) | State::Ended(_) => {}
        }
    }

    /// Whether the request has ended, one way or another.
    #[func]
    pub fn is_ended(&self) -> bool {
        matches!(self.state, State::Ended(_))
    }

    /// The response or the error of a request that has ended; empty before.
    #[func]
    fn get_result(&self) -> VarDictionary {
        match &self.state {
            State::Ended(result) => result.clone(),
            _ => VarDictionary::new(),
        }
    }

    #[func]
    pub fn get_text(&self) -> GString {
        GString::from(&self.said)
    }
}

impl AtelicoRequest {
    /// Begin a request. What is wrong with it is told by its signals, like every other failure.
    pub fn begin(request: Result<(Value, Option<Toolbox>), Failure>, while_paused: bool) -> Gd<Self> {
        let state = request.and_then(|(body, toolbox)| start(body, toolbox)).unwrap_or_else(State::Refused);
        let request = Gd::from_init_fn(|base| Self {
            base,
            state,
            said: String::new(),
            while_paused,
            text: PhantomVar::default(),
        });
        running::add(request.clone());
        request
    }

    /// Pass on what has arrived. Called once a frame, on the main thread; holds no borrow while signals and tools run, so
    /// that they may do anything with the request.
    pub fn deliver(this: &Gd<Self>, is_paused: bool) {
        if is_paused && !this.bind().while_paused {
            return;
        }
        let (text, next) = this.clone().bind_mut().take();
        if !text.is_empty() {
            this.signals().delta().emit(&GString::from(&text));
        }
        match next {
            Next::Wait => {}
            Next::Call(calls) => {
                for (call, callable) in calls {
                    let started = Call::start(&call, &callable);
                    if let State::Calling { calls, .. } = &mut this.clone().bind_mut().state {
                        calls.push(started);
                    }
                }
            }
            Next::Completed(response) => {
                this.signals().completed().emit(&response);
                this.signals().ended().emit(&response);
                Self::disconnect_all(this.clone());
            }
            Next::Failed(error) => {
                this.signals().failed().emit(&error);
                this.signals().ended().emit(&error);
                Self::disconnect_all(this.clone());
            }
        }
    }

    /// Nothing more will be said. A lambda that was connected and mentions the request would keep both alive for ever.
    pub fn disconnect_all(mut this: Gd<Self>) {
        for name in SIGNALS {
            for connection in this.get_signal_connection_list(name).iter_shared() {
                if let Some(callable) = connection.get("callable") {
                    this.disconnect(name, &callable.to::<Callable>());
                }
            }
        }
    }

    /// The GDScript functions that await it.
    pub fn coroutines(this: &Gd<Self>) -> Vec<Gd<Object>> {
        let connections = this.get_signal_connection_list("ended");
        let receiver = |connection: VarDictionary| connection.get("callable")?.try_to::<Callable>().ok()?.object();
        connections.iter_shared().filter_map(receiver).filter(tools::is_coroutine).collect()
    }

    /// Take what is new: text, and what is to be done now.
    fn take(&mut self) -> (String, Next) {
        let mut new = String::new();
        let next = match &mut self.state {
            State::Ended(_) => Next::Wait,
            State::Refused(failure) => fail(failure),
            State::Calling { .. } => self.take_results(),
            State::Running { job, answer, .. } => match poll(*job, answer, &mut new) {
                Ok(false) => Next::Wait,
                Ok(true) => self.answered(),
                Err(failure) => fail(&failure),
            },
        };
        self.said.push_str(&new);
        if let Next::Completed(result) | Next::Failed(result) = &next {
            self.state = State::Ended(result.clone());
        }
        (new, next)
    }

    /// The model has ended: with an answer, or with calls for the game.
    fn answered(&mut self) -> Next {
        let State::Running { answer, toolbox, .. } = &mut self.state else {
            return Next::Wait;
        };
        let response = answer.response();
        let wanted = toolbox.as_ref().and_then(|toolbox| toolbox.wanted(&response));
        let (Some(wanted), Some(toolbox)) = (wanted, toolbox.take()) else {
            return Next::Completed(json::to_dictionary(&response));
        };
        let with_callable = |call: Value| toolbox.callable(&call).map(|callable| (call, callable));
        let calls = wanted.into_iter().filter_map(with_callable).collect();
        let answer = std::mem::take(answer);
        self.state = State::Calling { calls: Calls::new(), answer, toolbox, is_cancelled: false };
        Next::Call(calls)
    }

    /// Go on once the game has run the calls.
    fn take_results(&mut self) -> Next {
        let State::Calling { calls, answer, toolbox, is_cancelled } = &mut self.state else {
            return Next::Wait;
        };
        if *is_cancelled {
            return Next::Completed(json::to_dictionary(&answer.cancelled()));
        }
        if !calls.are_over(toolbox) {
            return Next::Wait;
        }
        let body = toolbox.next(&answer.response(), calls);
        let State::Calling { toolbox, .. } = std::mem::replace(&mut self.state, State::Ended(VarDictionary::new()))
        else {
            return Next::Wait;
        };
        match start(body, Some(toolbox)) {
            Ok(state) => {
                self.state = state;
                Next::Wait
            }
            Err(failure) => fail(&failure),
        }
    }

    /// Whether somebody could still notice the end: holds the request, or listens to it. `own_references`: the ones
    /// that do not count.
    pub fn has_audience(this: &mut Gd<Self>, own_references: i64) -> bool {
        let references: i64 = this.call("get_reference_count", &[]).try_to().unwrap_or(i64::MAX);
        references > own_references || SIGNALS.iter().any(|name| !this.get_signal_connection_list(*name).is_empty())
    }
}

fn start(body: Value, toolbox: Option<Toolbox>) -> Result<State, Failure> {
    let job = native::engine()?.begin(&streamed(body))?;
    Ok(State::Running { job, answer: Answer::default(), toolbox })
}

fn fail(failure: &Failure) -> Next {
    failure.report();
    Next::Failed(json::to_dictionary(failure.body()))
}

/// Take the events of a job that are there; `new` receives the text. Returns whether it has ended.
fn poll(job: i64, answer: &mut Answer, new: &mut String) -> Result<bool, Failure> {
    let Some(engine) = native::existing_engine() else {
        return Ok(false);
    };
    loop {
        match engine.poll(job) {
            Event::Chunk(chunk) => new.push_str(&answer.take(chunk)),
            Event::Empty => return Ok(false),
            Event::Done => return Ok(true),
            Event::Failed(failure) => {
                // The library forgets a job when Done was taken, which is all that is left of this one.
                if matches!(engine.poll(job), Event::Chunk(_) | Event::Empty) {
                    engine.cancel(job);
                }
                return Err(failure);
            }
        }
    }
}

/// The request as a stream that tells its usage at the end, as a whole response would.
fn streamed(mut request: Value) -> Value {
    request["stream"] = true.into();
    if !request["stream_options"].is_object() {
        request["stream_options"] = Value::Object(Default::default());
    }
    request["stream_options"]["include_usage"] = true.into();
    request
}

/// Answer a request and wait for it, on whatever thread this is.
pub fn complete(request: Result<Value, Failure>) -> Result<Value, Failure> {
    let engine = native::engine()?;
    let job = engine.begin(&streamed(request?))?;
    let mut answer = Answer::default();
    while !poll(job, &mut answer, &mut String::new())? {
        std::thread::sleep(std::time::Duration::from_millis(1));
        if native::existing_engine().is_none() {
            return Err(Failure::new(Code::SHUTTING_DOWN, "The game is closing."));
        }
    }
    Ok(answer.response())
}

/// A request of the game with its model's path made real.
pub fn prepared(request: Result<Value, String>) -> Result<Value, Failure> {
    let mut request = request.map_err(|problem| Failure::new(Code::INVALID_ARGUMENT, problem))?;
    if let Some(model) = request["model"].as_str() {
        request["model"] = crate::paths::resolve_model(model)?.into();
    }
    Ok(request)
}
