"""Whole suites of schemas and documents. benchmarks/schemas.py prints the same in full."""

from __future__ import annotations

import pytest
from benchmarks.schemas import DATA, Encode, edge_cases, measure, sample_cases, suite_cases

from atelico.grammar import GrammarCompiler, GrammarVocabulary

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="../shared/data is not beside the repository")

Loaded = tuple[GrammarVocabulary, Encode]


def test_real_schemas_are_enforced_exactly_or_refused(loaded: Loaded) -> None:
    cases = sample_cases()[::3]
    score = measure(cases, GrammarCompiler(loaded[0]), loaded[1], strict=True)
    assert score.invalid_accepted == []
    assert score.valid_rejected == []
    assert score.crashed == []
    assert score.n_pass + len(score.refused) == len(cases)
    assert score.n_pass >= 0.8 * len(cases)


def test_without_strict_nearly_all_real_schemas_are_usable_and_every_gap_has_a_warning(loaded: Loaded) -> None:
    cases = sample_cases()[::3]
    score = measure(cases, GrammarCompiler(loaded[0]), loaded[1], strict=False)
    assert score.crashed == []
    assert len(score.refused) <= 0.03 * len(cases)
    assert set(score.invalid_accepted) <= set(score.warned)


def test_schemas_from_bug_reports(loaded: Loaded) -> None:
    score = measure(edge_cases(), GrammarCompiler(loaded[0]), loaded[1], strict=True)
    # By design: a number's digits are bounded by the masks (see test_grammar_matcher), which a walk does not ask.
    assert set(score.invalid_accepted) <= {"number_forever"}
    # Known: "\/" is legal JSON for "/", and the engine has no way to allow it.
    assert set(score.valid_rejected) <= {"string_controls"}
    assert score.crashed == []
    unsatisfiable = {"remote_ref", "unsat"}
    unenforceable = {"pattern_lookahead_email", "oneOf_overlap", "uniqueItems", "format_unknown", "minProperties"}
    assert set(score.refused) - unsatisfiable <= unenforceable
    assert unsatisfiable <= set(score.refused)


def test_schemas_from_bug_reports_without_strict(loaded: Loaded) -> None:
    score = measure(edge_cases(), GrammarCompiler(loaded[0]), loaded[1], strict=False)
    assert set(score.refused) == {"remote_ref", "unsat"}
    assert set(score.invalid_accepted) - {"number_forever"} <= set(score.warned)


# Where a valid text of the JSON-Schema-Test-Suite is refused, it is for one of these reasons.
ORDER = {"allOf: allOf", "allOf: allOf with base schema", "const: const with object"}
SPELLING = {  # 1.0 where the schema says 1: equal as numbers, but answers use the schema's spelling
    "const: const with 0 does not match other zero-like types",
    "const: const with 1 does not match true",
    "const: const with -2.0 matches integer and float types",
    "const: float and integers are equal up to 64-bit representation limits",
    "enum: enum with 0 does not match false",
    "enum: enum with [0] does not match ",
    "enum: enum with 1 does not match true",
    "enum: enum with [1] does not match ",
    "type: integer type matches integers",
}


def test_the_json_schema_test_suite(loaded: Loaded) -> None:
    score = measure(suite_cases(), GrammarCompiler(loaded[0]), loaded[1], strict=True)
    assert score.invalid_accepted == []
    assert score.crashed == []
    # `format` is an annotation in that suite; here it is enforced.
    unexplained = {name for name in score.valid_rejected if not name.startswith("format: ")}
    assert {name for name in unexplained if not any(name.startswith(known) for known in ORDER | SPELLING)} == set()
    assert score.texts_pass >= 650
