"""The networks that can draft for one loaded model, each made when a request first asks for it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from atelico._native import AbortFlag, Sampler
from atelico.config import EngineConfig
from atelico.errors import AtelicoError, ModelLoadError
from atelico.runtime.context import Context, ContextOptions, check_room
from atelico.runtime.model import Model, ModelOptions
from atelico.runtime.mtp import HeadContext
from atelico.runtime.vocabulary_match import mismatch
from atelico.speculation.draft import Drafter
from atelico.speculation.draft_model import DraftModel, ModelDrafter
from atelico.speculation.mtp import Head, HeadDrafter
from atelico.speculation.pick import as_sampled_by, drawn_with
from atelico.speculation.registry import DrafterKind

logger = logging.getLogger(__name__)

# Where the drafter of a model is; None where there is none.
FindDrafter = Callable[[], Path | None]

_NO_DRAFT_MODEL = (
    "proposer 'draft_model' has no drafter: none is configured (drafters = {target = drafter}), "
    "and there is no NAME-draft.gguf beside the model"
)


@dataclass(frozen=True)
class DraftedModel:
    """What the drafters need to know of the model they draft for.

    Attributes:
        no_head: why its NextN head cannot draft, or None.
        abort: stops the passes of its decode thread.
    """

    model: Model
    context: Context
    config: EngineConfig
    n_threads: int
    no_head: str | None
    find_drafter: FindDrafter
    abort: AbortFlag


class Drafters:
    """Made on the thread that prepares requests; what they make is used and closed on the decode thread."""

    def __init__(self, target: DraftedModel) -> None:
        """Nothing is loaded yet."""
        self._target = target
        self._head: Head | None = None
        self._draft_model: DraftModel | None = None
        self._missing: dict[DrafterKind, str | None] = {}

    def missing(self, kind: DrafterKind) -> str | None:
        """Why there is no such drafter; None where there is one. Loads it at the first call."""
        if kind not in self._missing:
            try:
                self._missing[kind] = self._load(kind)
            except AtelicoError as error:
                logger.warning("no drafter '%s' for %s: %s", kind, self._target.model.path.name, error)
                self._missing[kind] = f"the drafter '{kind}' cannot be used: {error.message}"
        return self._missing[kind]

    def make(self, kind: DrafterKind, n_prompt: int, sampler: Sampler, *, draws: bool) -> Drafter:
        """A drafter for one lane. Only for a kind that is not missing.

        Args:
            n_prompt: tokens of the lane's prompt.
            sampler: the lane's, which will verify the drafts.
            draws: whether its tokens are to be draws from its distribution, as the rule "stochastic" needs them.
        """
        pick = (drawn_with if draws else as_sampled_by)(sampler, self._target.model.vocabulary.n_tokens)
        if kind == "mtp":
            assert self._head is not None
            return HeadDrafter(self._head, n_prompt, pick)
        assert self._draft_model is not None
        return ModelDrafter(self._draft_model, n_prompt, pick)

    def close(self) -> None:
        """Free what was loaded; before the model itself."""
        for loaded in (self._head, self._draft_model):
            if loaded is not None:
                loaded.close()
        self._head = self._draft_model = None

    def _load(self, kind: DrafterKind) -> str | None:
        if kind == "mtp":
            if self._target.no_head is not None:
                return self._target.no_head
            self._head = self._load_head()
            return None
        path = self._target.find_drafter()
        if path is None:
            return _NO_DRAFT_MODEL
        self._draft_model = self._load_draft_model(path)
        return None

    def _load_head(self) -> Head:
        target, config = self._target, self._target.config
        context = HeadContext(
            target.model,
            n_cells=target.context.n_cells + config.n_lanes * (config.max_draft + 1),
            n_sequences=config.n_lanes,
            n_threads=target.n_threads,
            n_batch=target.context.n_batch,
            abort=target.abort,
        )
        return Head(context, config.n_lanes, target.model.vocabulary.eog)

    def _load_draft_model(self, path: Path) -> DraftModel:
        target, config = self._target, self._target.config
        model = Model(path, ModelOptions(n_gpu_layers=config.n_gpu_layers))
        try:
            difference = mismatch(target.model, model)
            if difference is not None:
                raise ModelLoadError(f"{path.name} has another vocabulary than the model: {difference}.")
            if model.recurrent:
                raise ModelLoadError(f"{path.name} has recurrent memory, which cannot forget a rejected draft.")
            options = ContextOptions(
                n_ctx=min(target.context.n_ctx, model.n_ctx_train),
                n_cells=target.context.n_cells + config.n_lanes * (config.max_draft + 1),
                n_batch=target.context.n_batch,
                n_sequences=config.n_lanes,
                n_outputs=config.n_lanes,
                n_threads=target.n_threads,
            )
            check_room(model, options)
            # A pass reads all weights once, so their sizes tell what it costs well enough to begin with.
            expected_cost = model.n_bytes / target.model.n_bytes
            return DraftModel(model, Context(model, options, target.abort), expected_cost)
        except BaseException:
            model.close()
            raise
