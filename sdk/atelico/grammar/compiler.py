"""GrammarCompiler: `response_format` to a compiled grammar, cached. Owns the policy: whitespace, escapes, thoughts."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from llguidance import LLMatcher

from atelico.errors import InternalError, SchemaError
from atelico.grammar.closing import MAX_CLOSING, ClosingTokens, Search
from atelico.grammar.extent import Bounds, Extent, Tags, bounds_of
from atelico.grammar.matcher import Form, Matcher
from atelico.grammar.schema import copy_bounded, normalise
from atelico.grammar.vocabulary import GrammarVocabulary
from atelico.grammar.weaken import LIMITS, enforceable
from atelico.protocol.request import JsonObjectFormat, JsonSchemaFormat, ResponseFormat

# Some models write nothing sensible unless they may begin with a blank, and most leave a line after their thoughts.
_LEAD = r"[ \n]{1,2}"
# Characters of thoughts before the close tag is the only way on: about 16k tokens.
_MAX_THOUGHT_CHARS = 65_536
_ENGINE_OPTIONS = {
    # One line, with a space after each comma and colon, as Python's json module writes it. Free whitespace lets small
    # models write blank lines until max_tokens, and costs tokens: a character sheet has a quarter fewer without, and
    # half of them are forced instead of a tenth. No space at all is reported to make small models write empty arrays.
    "whitespace_flexible": False,
    "item_separator": ", ",
    "key_separator": ": ",
    # Without it "\u00e9" is refused inside a string although it is valid JSON.
    "json_allow_general_unicode_escapes": True,
}
_CACHE_SIZE = 64
# Masks computed, once per grammar and only where the budget is tight, to find its shortest document: some 0.1 s.
_SHORTEST_NODES = 2_000

# Open tag, close tag, and whether the prompt already ends inside the thoughts.
Thinking = tuple[str, str, bool]


class CompiledGrammar:
    """A grammar ready for any number of answers. Safe to use from several threads.

    Attributes:
        key: the same for the same schema, policy and thinking, across processes.
        warnings: what is not enforced, one sentence per keyword.
    """

    def __init__(
        self, key: str, warnings: tuple[str, ...], vocabulary: GrammarVocabulary, grammar: str, form: Form
    ) -> None:
        self.key = key
        self.warnings = warnings
        self._vocabulary = vocabulary
        self._grammar = grammar
        self._form = form
        self._lock = threading.Lock()
        self._shortest: list[int] | None = None
        self._enough = MAX_CLOSING + 1  # what it was last made as short as, if possible
        self._prototype = self._build()
        if self._prototype.is_error():
            raise InternalError(f"The grammar around a schema was refused: {self._prototype.get_error()}")

    def matcher(self, *, bounded: bool = True) -> Matcher:
        """A matcher at the start of an answer. Takes microseconds and shares the masks that are already computed.

        Args:
            bounded: whether parts to which the schema sets no bound are bounded all the same.
        """
        form = self._form if bounded else replace(self._form, bounds=None)
        return Matcher(self._vocabulary, self._prototype.deep_copy(), self._rebuild, form)

    def shortest(self, enough: int) -> list[int] | None:
        """The tokens of a whole answer: of `enough` or fewer if such are found, else the shortest known; None if none
        is found."""
        with self._lock:
            known = self._shortest
            if (known is None or len(known) > enough) and enough < self._enough:
                search = Search(self._vocabulary, self._form.closing, self._form.close_tag, _SHORTEST_NODES)
                known = search.shortest(self._prototype, self._form.start or Extent(), enough)
                self._shortest, self._enough = known, enough
            return list(known) if known is not None else None

    def _rebuild(self) -> LLMatcher:
        # Copies share one lexer with the prototype, so a failure of theirs is its failure too.
        self._prototype = self._build()
        return self._prototype.deep_copy()

    def _build(self) -> LLMatcher:
        return LLMatcher(self._vocabulary.tokenizer, self._grammar, log_level=0, limits=LIMITS)


class GrammarCompiler:
    """Compiles and remembers the grammars of one model. Safe to use from several threads; two that ask for the same
    grammar share one compilation."""

    def __init__(self, vocabulary: GrammarVocabulary, cache_size: int = _CACHE_SIZE) -> None:
        self._vocabulary = vocabulary
        self._cache_size = cache_size
        self._cache: OrderedDict[str, Future[CompiledGrammar]] = OrderedDict()
        self._lock = threading.Lock()

    def compile(
        self, response_format: ResponseFormat | None, *, thinking: Thinking | None = None
    ) -> CompiledGrammar | None:
        """The grammar of an answer in `response_format`; None for free text.

        Args:
            response_format: as in the request.
            thinking: for a model that thinks: its open tag, its close tag, and True when the prompt ends inside the
                thoughts. The schema then applies to what follows the close tag only. Where the prompt is not inside,
                the model may also answer at once.

        Raises:
            SchemaError: the schema cannot be used; the message names keyword and path.
        """
        order = _read(response_format)
        if order is None:
            return None
        key = _key(order, thinking)
        return self._cached(key, lambda: self._compile(order, thinking, key))

    def compile_body(
        self, rules: Sequence[str], *, thinking: Thinking | None = None, lead: bool = False
    ) -> CompiledGrammar:
        """The grammar of an answer that follows `rules`, which define the symbol `body`.

        Args:
            rules: in llguidance's Lark dialect, schemas in them by `json_rule`.
            thinking: as for `compile`.
            lead: whether a little space may come first.
        """
        key = hashlib.sha256(json.dumps([list(rules), thinking, lead, _LEAD, _MAX_THOUGHT_CHARS]).encode()).hexdigest()
        whole = [*self._around("LEAD? body" if lead else "body", thinking), f"LEAD: /{_LEAD}/", *rules]
        return self._cached(
            key, lambda: CompiledGrammar(key, (), self._vocabulary, _grammar(whole), self._form(thinking))
        )

    def enforce(self, schema: dict[str, Any], where: str, param: str, *, strict: bool) -> EnforcedSchema:
        """`schema` as the engine can enforce it.

        Args:
            where, param: how errors and warnings name it, and the request's field.
            strict: refuse what cannot be enforced, instead of weakening it.

        Raises:
            SchemaError: it cannot be used.
        """
        try:
            order = _Order(json.dumps(copy_bounded(schema)), strict, where, param)
        except SchemaError as error:
            error.param = param
            raise
        return self._enforce(order)

    def document(self, response_format: ResponseFormat) -> tuple[str | None, tuple[str, ...]]:
        """The answer that `response_format` asks for as a Lark expression, None for free text; and warnings.

        Raises:
            SchemaError: as `compile`.
        """
        order = _read(response_format)
        if order is None:
            return None, ()
        enforced = self._enforce(order)
        return json_rule(enforced.schema), tuple(f"response_format: {warning}" for warning in enforced.warnings)

    def symbol(self, text: str) -> str:
        """`text` as Lark: a control token where the model has one of this name, else the text itself."""
        return self._symbol(text)

    def _cached(self, key: str, build: Callable[[], CompiledGrammar]) -> CompiledGrammar:
        with self._lock:
            known = self._cache.get(key)
            if known is not None:
                self._cache.move_to_end(key)
            else:
                mine = self._cache[key] = Future()
                while len(self._cache) > self._cache_size:
                    self._cache.popitem(last=False)
        if known is not None:
            return known.result()
        try:
            compiled = build()
        except BaseException as error:
            with self._lock:
                if self._cache.get(key) is mine:
                    del self._cache[key]
            mine.set_exception(error)
            raise
        mine.set_result(compiled)
        return compiled

    def _compile(self, order: _Order, thinking: Thinking | None, key: str) -> CompiledGrammar:
        enforced = self._enforce(order)
        warnings = tuple(f"response_format: {warning}" for warning in enforced.warnings)
        form = self._form(thinking, bounds_of(enforced.schema))
        return CompiledGrammar(key, warnings, self._vocabulary, _grammar(self._rules(enforced.schema, thinking)), form)

    @cached_property
    def _closing(self) -> ClosingTokens:
        return ClosingTokens(self._vocabulary)

    def _form(self, thinking: Thinking | None, bounds: Bounds | None = None) -> Form:
        """What a matcher needs to know; `bounds` where the answer is one JSON document."""
        if thinking is None:
            return Form(self._closing, Extent() if bounds is not None else None, bounds)
        open_tag, close_tag, inside = (thinking[0].strip(), thinking[1].strip(), thinking[2])
        start = Extent.at_start(Tags(open_tag.encode(), close_tag.encode()), inside=inside)
        return Form(self._closing, start, bounds, tuple(self._vocabulary.spell(close_tag)))

    def _enforce(self, order: _Order) -> EnforcedSchema:
        schema = json.loads(order.schema_text)
        try:
            normalise(schema)
            schema, findings = enforceable(schema, order.where, strict=order.strict)
        except SchemaError as error:
            error.param = order.param
            raise
        _try_first_steps(schema, self._vocabulary, order)
        return EnforcedSchema(schema, tuple(f"{finding}; {finding.outcome}." for finding in findings))

    def _rules(self, schema: dict[str, Any], thinking: Thinking | None) -> list[str]:
        """The grammar around `schema`, in llguidance's Lark dialect: thoughts, a little whitespace, the document."""
        return [*self._around("LEAD? document", thinking), f"LEAD: /{_LEAD}/", *_document(schema)[1:]]

    def _around(self, answer: str, thinking: Thinking | None) -> list[str]:
        """The rules from the start to `answer`, through the thoughts of a model that thinks."""
        rules = [f"start: {answer}"]
        if thinking is not None:
            open_tag, close_tag, inside = thinking
            open_symbol, close_symbol = self._symbol(open_tag), self._symbol(close_tag)
            rules[0] = f"start: thoughts {answer}" if inside else f"start: thinking? {answer}"
            if not inside:
                rules.append(f"thinking: {open_symbol} thoughts")
            text = f"/(.|\\n){{0,{_MAX_THOUGHT_CHARS}}}/"
            if close_symbol.startswith("<"):
                rules += [f"thoughts: THOUGHT {close_symbol}", f"THOUGHT: {text}"]
            else:
                # A lazy match: thoughts end at the first close tag.
                rules.append(f"thoughts[suffix={close_symbol}]: {text}")
        return rules

    def _symbol(self, tag: str) -> str:
        """A control token where the model has one for `tag`, else the text itself."""
        token = self._vocabulary.special_id(tag.strip())
        return f"<[{token}]>" if token is not None else json.dumps(tag.strip())


@dataclass(frozen=True)
class EnforcedSchema:
    """A schema of which the engine enforces every keyword; `warnings` say what had to be left out for that."""

    schema: dict[str, Any]
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class _Order:
    """What is to be compiled. `where` and `param`: how errors name it."""

    schema_text: str
    strict: bool
    where: str
    param: str


def _read(response_format: ResponseFormat | None) -> _Order | None:
    match response_format:
        case JsonObjectFormat(schema=schema):
            # Without a schema: any object.
            return _order(schema if schema is not None else {"type": "object"}, False, "The schema", "schema")
        case JsonSchemaFormat(json_schema=named):
            strict = named.strict in (True, "true")
            wanted = named.schema if named.schema is not None else {"type": "object"}
            return _order(wanted, strict, f"The schema {named.name!r}", "json_schema.schema")
    return None


def _order(schema: dict[str, Any] | bool, strict: bool, where: str, field: str) -> _Order:
    param = f"response_format.{field}"
    if schema is False:
        raise SchemaError(f"{where} is false, which no value satisfies.", hint="Use an object.", param=param)
    try:
        copy = copy_bounded({} if schema is True else schema)
    except SchemaError as error:
        error.param = param
        raise
    return _Order(json.dumps(copy), strict, where, param)


def _key(order: _Order, thinking: Thinking | None) -> str:
    policy = [order.strict, thinking, _ENGINE_OPTIONS, _LEAD, _MAX_THOUGHT_CHARS, order.schema_text]
    return hashlib.sha256(json.dumps(policy).encode()).hexdigest()


def _try_first_steps(schema: dict[str, Any], vocabulary: GrammarVocabulary, order: _Order) -> None:
    """Finds now what the engine would find at the first masks only, in the middle of an answer: its limits, and a
    schema without a finite document."""
    trial = LLMatcher(vocabulary.tokenizer, _grammar(_document(schema)), log_level=0, limits=LIMITS)
    if not trial.is_error():
        trial.compute_bitmask()
    if trial.is_stopped() and (not trial.is_error() or "NoExtension" in trial.get_error()):
        raise SchemaError(f"{order.where} is satisfied by no finite document.", param=order.param)
    # To the first property, where the engine's limits show.
    opening = vocabulary.tokenizer.tokenize_str("{")
    if not trial.is_error() and trial.try_consume_tokens(opening) == len(opening) and not trial.is_stopped():
        trial.compute_bitmask()
    if trial.is_error():
        reason = trial.get_error().strip().split("\n")[0].rstrip(".")
        raise SchemaError(
            f"{order.where} is too complex: {reason}.",
            hint="Use fewer optional properties, alternatives or enum values in one place.",
            param=order.param,
        )


def json_rule(schema: dict[str, Any]) -> str:
    """A Lark expression for a JSON document that follows `schema`, under our policy of whitespace and escapes."""
    return f"%json {json.dumps({**schema, 'x-guidance': _ENGINE_OPTIONS})}"


def _document(schema: dict[str, Any]) -> list[str]:
    return ["start: document", f"document: {json_rule(schema)}"]


def _grammar(rules: list[str]) -> str:
    return LLMatcher.grammar_from_lark("%llguidance {}\n" + "\n".join(rules) + "\n")
