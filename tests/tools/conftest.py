"""Tools that the tests call, and SmolLM2's vocabulary for grammars without a running model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from atelico.grammar.compiler import GrammarCompiler
from atelico.grammar.vocabulary import GrammarVocabulary
from atelico.runtime.model import Model, ModelOptions
from atelico.runtime.vocabulary import Vocabulary


@pytest.fixture(scope="session")
def model(smollm2_file: Path) -> Iterator[Model]:
    loaded = Model(smollm2_file, ModelOptions(n_gpu_layers=0))
    yield loaded
    loaded.close()


@pytest.fixture(scope="session")
def vocabulary(model: Model) -> Vocabulary:
    return model.vocabulary


@pytest.fixture(scope="session")
def compiler(vocabulary: Vocabulary) -> GrammarCompiler:
    assert vocabulary.eos is not None
    ends = [vocabulary.eos, *sorted(vocabulary.eog - {vocabulary.eos})]
    made = GrammarVocabulary.build(
        vocabulary.pieces(), sorted(vocabulary.special), ends, vocabulary.bos, vocabulary.tokenize
    )
    return GrammarCompiler(made)
