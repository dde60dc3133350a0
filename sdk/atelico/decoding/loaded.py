"""A loaded model with everything its requests share: weights, memory, template, grammars, proposers' memories."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from atelico._native import AbortFlag
from atelico.config import EngineConfig
from atelico.errors import ConfigError, ModelLoadError
from atelico.grammar.compiler import GrammarCompiler
from atelico.grammar.vocabulary import GrammarVocabulary
from atelico.models import thinking
from atelico.models.gguf import GgufInfo
from atelico.models.template import ChatTemplate
from atelico.models.thinking import ThinkingFormat
from atelico.runtime import kernels, mtp
from atelico.runtime.context import Context, ContextOptions, check_room
from atelico.runtime.model import Model, ModelOptions
from atelico.runtime.threads import default_threads
from atelico.speculation import gates
from atelico.speculation.drafters import DraftedModel, Drafters, FindDrafter
from atelico.speculation.governor import Governor, GovernorLimits
from atelico.speculation.registry import Memories

# A larger context costs memory at once, and games rarely need it; the configuration may ask for more.
DEFAULT_N_CTX = 4096


@dataclass
class LoadedModel:
    """What `load` makes. The decode thread owns `model` and `context`; the rest is safe from several threads."""

    info: GgufInfo
    model: Model
    context: Context
    template: ChatTemplate
    thinking: ThinkingFormat | None
    device: str
    load_ms: float
    ready_at: float
    config: EngineConfig
    n_threads: int
    governor: Governor
    drafters: Drafters
    memories: Memories = field(default_factory=Memories)

    @functools.cached_property
    def grammars(self) -> GrammarCompiler:
        """Compiler and cache of this model's grammars; made at the first structured request."""
        vocabulary = self.model.vocabulary
        first_eos = [vocabulary.eos] if vocabulary.eos in vocabulary.eog else []
        return GrammarCompiler(
            GrammarVocabulary.build(
                vocabulary.pieces(),
                sorted(vocabulary.special),
                [*first_eos, *sorted(vocabulary.eog - set(first_eos))],
                vocabulary.bos,
                vocabulary.tokenize,
            )
        )

    def gate_target(self, *, structured: bool) -> gates.Target:
        """What the gates look at for a request to this model."""
        return replace(
            gates.Target.of(self.info, self.device, self.config),
            recurrent=self.model.recurrent,
            batched_verify=self.model.batched_verify,
            structured=structured,
            n_rollback=self.context.n_rollback,
        )

    def close(self) -> None:
        """Free memory and weights."""
        self.drafters.close()
        self.context.close()
        self.model.close()


def load(
    info: GgufInfo,
    config: EngineConfig,
    on_progress: Callable[[float], bool],
    abort: AbortFlag,
    find_drafter: FindDrafter = lambda: None,
) -> LoadedModel:
    """Load the weights and allocate the memory. `find_drafter`: where the file of a draft model is, if there is one.

    Raises:
        ConfigError: the configured context is longer than the model was trained for.
        ModelLoadError: the file cannot be loaded, or cannot chat.
        CancelledError: `on_progress` returned False.
    """
    started = time.perf_counter()
    if info.is_embedding or info.kind != "model":
        raise ModelLoadError(
            f"{info.path.name} is not a model that generates text ({info.kind}, {info.architecture}).",
            param="model",
            hint="Use a chat model.",
        )
    if info.n_ctx_train and config.n_ctx > info.n_ctx_train:
        raise ConfigError(
            f"n_ctx is {config.n_ctx}, but {info.path.name} was trained for {info.n_ctx_train} tokens.",
            hint="Use a smaller n_ctx, or 0 for the default.",
        )
    no_head = mtp.why_not(info.architecture, info.nextn_predict_layers, has_tensors=info.has_nextn_tensors)
    repack = not config.exact or kernels.repacks_exactly(info.matrix_types)
    options = ModelOptions(n_gpu_layers=config.n_gpu_layers, load_head=no_head is None, repack=repack)
    model = Model(info.path, options, on_progress)
    try:
        sizes = _context_options(info, model, config)
        check_room(model, sizes)
        context = Context(model, sizes, abort)
    except BaseException:
        model.close()
        raise
    vocabulary = model.vocabulary
    template = ChatTemplate.for_model(
        info,
        bos_token=vocabulary.text(vocabulary.bos) if vocabulary.bos is not None else "",
        eos_token=vocabulary.text(vocabulary.eos) if vocabulary.eos is not None else "",
    )
    ready_at = time.perf_counter()
    return LoadedModel(
        info=info,
        model=model,
        context=context,
        template=template,
        thinking=thinking.detect(template.text),
        device=config.device or model.device,
        load_ms=(ready_at - started) * 1000,
        ready_at=ready_at,
        config=config,
        n_threads=sizes.n_threads,
        governor=Governor(_governor_limits(config)),
        drafters=Drafters(DraftedModel(model, context, config, sizes.n_threads, no_head, find_drafter, abort)),
    )


def _context_options(info: GgufInfo, model: Model, config: EngineConfig) -> ContextOptions:
    max_rows = config.n_lanes * (config.max_draft + 1)
    # Each sequence of recurrent memory costs a state, and a finished one cannot be shared or cut.
    n_sequences = config.n_lanes + (0 if model.recurrent else config.n_kept)
    # Rollback states multiply the recurrent memory, so only a model that may speculate gets them.
    may_speculate = model.recurrent and gates.veto(gates.Target.of(info, config.device or model.device, config)) is None
    n_rollback = min(config.spec_rollback, config.max_draft) if may_speculate else 0
    n_ctx = config.n_ctx or min(info.n_ctx_train or DEFAULT_N_CTX, DEFAULT_N_CTX)
    n_exact = kernels.exact_rows(info.matrix_types, model.device)
    return ContextOptions(
        n_ctx=n_ctx,
        n_cells=max(config.kv_tokens, n_ctx) if config.kv_tokens else 2 * n_ctx,
        # llama.cpp aborts unless a batch holds more rows than there are rollback slots.
        n_batch=max(config.n_batch, max_rows, n_rollback + 2),
        n_sequences=n_sequences,
        n_outputs=max_rows,
        n_threads=config.n_threads or default_threads(),
        n_rollback=n_rollback,
        n_exact=n_exact if config.exact or n_exact == kernels.EVERY_WIDTH else 0,
    )


def _governor_limits(config: EngineConfig) -> GovernorLimits:
    return GovernorLimits(
        min_yield=config.spec_min_yield,
        yield_rounds=config.spec_yield_rounds,
        min_speedup=config.spec_min_speedup,
        reprobe=config.spec_reprobe,
        reprobe_max=config.spec_reprobe_max,
        max_lanes=config.spec_max_lanes,
    )
