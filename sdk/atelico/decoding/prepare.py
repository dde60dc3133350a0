"""From a request to lanes: render, tokenise, compile the grammar, choose sampler and proposers. No llama.cpp decode."""

from __future__ import annotations

from dataclasses import dataclass

from atelico._native import Sampler
from atelico.decoding.calling import Calling, messages_for, thinking_tags
from atelico.decoding.closing import WINDOW, Closing
from atelico.decoding.lane import Lane
from atelico.decoding.loaded import LoadedModel
from atelico.decoding.options import build_sampler, pick_seed, pick_temperature
from atelico.decoding.text import TextStream
from atelico.errors import ContextOverflowError, InvalidRequestError
from atelico.grammar.compiler import CompiledGrammar
from atelico.job import Job
from atelico.models.template import Segment
from atelico.models.thinking import ThinkSplitter, starts_inside
from atelico.protocol.request import ChatRequest, Message, Priority, RequestOptions
from atelico.runtime.vocabulary import Vocabulary
from atelico.speculation import gates, registry
from atelico.speculation.draft import Drafter, Proposer
from atelico.speculation.registry import Memories, SpeculationPlan
from atelico.tools.plan import plan_tools

# Lower starts first.
PRIORITIES: dict[Priority, int] = {"high": 0, "normal": 1, "low": 2}


@dataclass(frozen=True)
class _Prepared:
    """What the lanes of a job have in common. `inside`: whether the prompt ends inside a thought."""

    job: Job
    loaded: LoadedModel
    prompt: list[int]
    max_tokens: int
    grammar: CompiledGrammar | None
    plan: SpeculationPlan
    inside: bool
    calling: Calling | None


def prepare(job: Job, loaded: LoadedModel) -> tuple[list[Lane], tuple[str, ...]]:
    """The lanes of `job`, one per choice, and the warnings for its response.

    Raises:
        InvalidRequestError: the chat template refuses the messages, or a field does not fit this model.
        ContextOverflowError: the prompt leaves no room for an answer.
        SchemaError: the schema of `response_format` cannot be enforced.
    """
    request = job.request
    tools = plan_tools(request) if job.prompt is None else None
    calling = Calling.choose(tools, request, loaded) if tools is not None else None
    if job.prompt is not None:
        segments: list[Segment] = []
        prompt = _tokenize_raw(job.prompt, loaded.model.vocabulary)
    else:
        segments = loaded.template.render_segments(
            calling.messages if calling is not None else messages_for(request, loaded),
            template_kwargs=request.chat_template_kwargs,
            tools=calling.descriptions if calling is not None else None,
        )
        prompt = _tokenize(segments, loaded)
    room = loaded.context.n_ctx - len(prompt)
    if room < 1:
        raise ContextOverflowError(
            f"The prompt has {len(prompt)} tokens; the context of this model holds {loaded.context.n_ctx} "
            "and needs room for an answer.",
            param="messages" if job.prompt is None else "prompt",
            hint="Shorten it, or configure a larger n_ctx.",
        )
    inside = loaded.thinking is not None and starts_inside(loaded.thinking, "".join(s.text for s in segments))
    grammar: CompiledGrammar | None
    warnings: tuple[str, ...]
    if calling is not None:
        grammar, warnings = calling.compile(request, loaded, thinking_tags(loaded, inside=inside))
    else:
        grammar = _grammar(request, loaded, inside=inside)
        warnings = grammar.warnings if grammar is not None else ()
    if grammar is not None and request.response_format is not None:
        _check_budget(request, grammar, room)
    plan = _plan(request, loaded, structured=grammar is not None)
    max_tokens = min(request.token_limit() or room, room)
    prepared = _Prepared(job, loaded, prompt, max_tokens, grammar, plan, inside, calling)
    seed = pick_seed(request)
    return [_lane(prepared, choice, seed + choice) for choice in range(request.n or 1)], warnings


def prefix_tokens(messages: list[Message], loaded: LoadedModel) -> list[int]:
    """The tokens with which every prompt begins whose dialogue begins with `messages`."""
    return _tokenize(loaded.template.render_segments(messages, add_generation_prompt=False), loaded)


def _tokenize(segments: list[Segment], loaded: LoadedModel) -> list[int]:
    vocabulary = loaded.model.vocabulary
    bos = (
        [vocabulary.bos] if vocabulary.adds_bos and not loaded.template.adds_bos and vocabulary.bos is not None else []
    )
    if any(segment.is_user_text and _has_special(segment.text, vocabulary) for segment in segments):
        # A player who types "<|im_end|>" must not end the turn: only the template's own text makes control tokens.
        parts = [vocabulary.tokenize(segment.text, special=not segment.is_user_text) for segment in segments]
        return bos + [token for part in parts for token in part]
    # Otherwise in one piece, so that the tokens are the very ones the model was trained on.
    return bos + vocabulary.tokenize("".join(segment.text for segment in segments), special=True)


def _tokenize_raw(text: str, vocabulary: Vocabulary) -> list[int]:
    """The tokens of a prompt that no template has made; it may name control tokens."""
    tokens = vocabulary.tokenize(text, special=True)
    if vocabulary.adds_bos and vocabulary.bos is not None and tokens[:1] != [vocabulary.bos]:
        tokens.insert(0, vocabulary.bos)
    if not tokens:  # there must be something to go on from
        tokens = [token for token in (vocabulary.bos, vocabulary.eos) if token is not None][:1]
    if not tokens:
        raise InvalidRequestError("prompt is empty, and this model has no token that begins a text.", param="prompt")
    return tokens


def _has_special(text: str, vocabulary: Vocabulary) -> bool:
    return vocabulary.tokenize(text, special=True) != vocabulary.tokenize(text, special=False)


def _grammar(request: ChatRequest, loaded: LoadedModel, *, inside: bool) -> CompiledGrammar | None:
    if request.response_format is None:
        return None
    return loaded.grammars.compile(request.response_format, thinking=thinking_tags(loaded, inside=inside))


def _check_budget(request: ChatRequest, grammar: CompiledGrammar, room: int) -> None:
    """Refuse an answer that could only be cut: one whose shortest document takes more tokens than it may have."""
    limit = request.token_limit()
    budget = room if limit is None else min(limit, room)
    shortest = grammar.shortest(budget) if budget < WINDOW else None
    if budget >= WINDOW or (shortest is not None and len(shortest) <= budget):
        return
    needed = str(len(shortest)) if shortest is not None else f"more than {budget}"
    message = f"The shortest answer found that satisfies the schema takes {needed} tokens; it may have {budget}."
    if limit is not None and limit <= room:
        param = "max_completion_tokens" if request.max_completion_tokens is not None else "max_tokens"
        raise InvalidRequestError(
            message, param=param, hint=f"Raise {param}, best to twice as many.", code="max_tokens_too_small"
        )
    raise ContextOverflowError(message, param="messages", hint="Shorten the messages, or configure a larger n_ctx.")


def _plan(request: ChatRequest, loaded: LoadedModel, *, structured: bool) -> SpeculationPlan:
    predicted = request.prediction is not None
    veto = gates.veto(loaded.gate_target(structured=structured))
    # A drafter that the gate would not let work is not even loaded.
    missing = loaded.drafters.missing if veto is None else lambda _kind: None
    plan = registry.plan(request.speculative, loaded.config.max_draft, missing, predicted=predicted)
    if plan.reason is None and veto is not None:
        return SpeculationPlan(plan.proposer, reason=veto)
    return plan


def _proposers(prepared: _Prepared) -> list[Proposer]:
    """Those that look drafts up, after they have seen the prompt."""
    request, loaded, grammar, plan = prepared.job.request, prepared.loaded, prepared.grammar, prepared.plan
    remembers = request.atelico is None or request.atelico.memory != "off"
    expected = request.prediction.text() if request.prediction is not None else ""
    assert plan.proposer is not None
    proposers = registry.build(
        plan.proposer,
        loaded.memories if remembers else Memories(),
        len(prepared.prompt),
        schema=grammar.key if grammar is not None and remembers else None,
        prediction=loaded.model.vocabulary.tokenize(expected)[: loaded.context.n_ctx],
        drafted=plan.drafter is not None,
    )
    for proposer in proposers:
        proposer.observe(prepared.prompt)
    return proposers


def _drafter(prepared: _Prepared, sampler: Sampler, *, draws: bool) -> Drafter | None:
    """The network that drafts, if one does, after it has been shown the prompt."""
    if prepared.plan.drafter is None:
        return None
    drafter = prepared.loaded.drafters.make(prepared.plan.drafter, len(prepared.prompt), sampler, draws=draws)
    drafter.observe(prepared.prompt)
    return drafter


def _lane(prepared: _Prepared, choice: int, seed: int) -> Lane:
    job, loaded, prompt, plan = prepared.job, prepared.loaded, prepared.prompt, prepared.plan
    grammar, max_tokens, calling, inside = prepared.grammar, prepared.max_tokens, prepared.calling, prepared.inside
    request = job.request
    options = request.atelico or RequestOptions()
    sampler = build_sampler(request, loaded.info.sampling, loaded.model.vocabulary.n_tokens, seed)
    sampler.prime(prompt)
    # At temperature 0 both rules of acceptance say the same, and the sampler says it without probabilities.
    stochastic = plan.acceptance == "stochastic" and pick_temperature(request, loaded.info.sampling) > 0
    proposers: list[Proposer] = []
    drafter = None
    if plan.reason is None:
        try:
            proposers, drafter = _proposers(prepared), _drafter(prepared, sampler, draws=stochastic)
        except Exception:
            plan = plan.failed()
    stops = request.stop_strings()
    if loaded.template.turn_end is not None and job.prompt is None:
        stops.append(loaded.template.turn_end)
    thinks = loaded.thinking is not None and job.prompt is None
    splitter = ThinkSplitter(loaded.thinking, inside=inside) if thinks and loaded.thinking is not None else None
    return Lane(
        job=job,
        choice=choice,
        tokens=list(prompt),
        n_prompt=len(prompt),
        max_tokens=max_tokens,
        sampler=sampler,
        text=TextStream(stops, splitter, calling.reader() if calling is not None else None),
        plan=plan,
        priority=PRIORITIES[options.priority or "normal"],
        duty=options.duty(),
        reuses=request.cache_prompt is not False and options.reproducible != "on",
        alone=options.reproducible == "on",
        governed=plan.reason is None and options.governor != "off",
        proposers=proposers,
        drafter=drafter,
        guarded=options.near_tie != "off" and not stochastic,
        stochastic=stochastic,
        matcher=grammar.matcher(bounded=options.json_bounds != "off") if grammar is not None else None,
        closing=Closing(grammar.shortest(max_tokens) if max_tokens < WINDOW else None) if grammar is not None else None,
        n_logprobs=(request.top_logprobs or 0) if request.logprobs else None,
        markers=calling.marker_tokens(loaded) if calling is not None else {},
        call_was_named=calling is not None and calling.plan.named,
    )
