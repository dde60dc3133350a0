"""The engine's configuration: a TOML file, environment variables, defaults that leave room for the game."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import platformdirs
from msgspec import Meta, Struct

from atelico.errors import ConfigError
from atelico.remote.options import RemoteOptions

Size = Annotated[int, Meta(ge=1, le=2**31 - 1)]

ENV_CONFIG = "ATELICO_CONFIG"
ENV_MODELS = "ATELICO_MODELS"
_ENV_FIELDS = {
    "ATELICO_N_CTX": "n_ctx",
    "ATELICO_N_THREADS": "n_threads",
    "ATELICO_N_GPU_LAYERS": "n_gpu_layers",
}
ENV_KERNELS = "ATELICO_KERNELS"


class EngineConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How an engine runs. Every field has a default that works.

    Attributes:
        aliases: model names of your own, each for a file or for another name.
        model_folders: folders searched for .gguf files, besides the ones in `ATELICO_MODELS`.
        n_ctx: tokens of context per request; 0 takes the model's own, at most 4,096.
        n_threads: threads that decode; 0 takes the physical cores minus one, so that the renderer keeps one.
        n_gpu_layers: layers on the GPU, if there is one; -1 for all.
        n_batch: rows of the largest forward pass, so also the prompt tokens read in one.
        n_lanes: requests that are decoded at the same time; more wait.
        kv_tokens: tokens of the KV cache, which running requests share; kept dialogues may hold as many outside of it.
            0 takes twice `n_ctx`.
        n_kept: finished dialogues whose memory is kept, besides the running lanes, for others to continue or share.
        prefill_chunk: prompt tokens read per round while other lanes generate, so that they go on meanwhile.
        exact: on the CPU, keep to kernels that compute a token alike alone and in a batch, so that speculation cannot
            change a text; see docs/exactness.md for what that costs.
        kernels: what computes on the CPU: "own", atelico's kernels, or "llama.cpp". One process has one kind, that of
            its first engine.
        low_priority: run the decode threads below normal priority, so that the game's own threads go first.
        max_draft: the largest draft of one request, whatever `k` it asks for.
        spec_min_yield, spec_yield_rounds: a request whose drafts bring fewer accepted tokens per round than this, after
            so many rounds, stops drafting; two such requests in a row abandon the proposer for a while.
        spec_min_speedup: drafts are verified only where they are expected to be so many times faster than none.
        spec_reprobe, spec_reprobe_max: requests after which an abandoned proposer is tried again, doubling up to the
            maximum.
        spec_rollback: rejected draft tokens that a hybrid model's recurrent memory can take back, so the longest draft
            of such a model. Each adds a copy of that memory; 0 decodes such models plainly.
        drafters: for a model, the smaller one of the same vocabulary that drafts for it (proposer "draft_model"). Where
            none is named, a file NAME-draft.gguf beside the model NAME.gguf is taken.
        spec_max_lanes: speculate only while at most so many lanes run; 0 leaves it to the measurement.
        max_queue: requests that may wait; one more is refused with BusyError.
        remotes: endpoints that the model name remote::ALIAS means, by their alias.
        cache_dir: where assembled models are kept; empty takes the user's cache folder.
        device: overrides what the gates take for the device, for tests; empty asks llama.cpp.
    """

    aliases: dict[str, str] = {}
    model_folders: list[str] = []
    n_ctx: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0
    n_threads: Annotated[int, Meta(ge=0, le=1024)] = 0
    n_gpu_layers: Annotated[int, Meta(ge=-1, le=100_000)] = -1
    n_batch: Annotated[int, Meta(ge=1, le=65_536)] = 256
    n_lanes: Annotated[int, Meta(ge=1, le=64)] = 4
    kv_tokens: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0
    n_kept: Annotated[int, Meta(ge=0, le=128)] = 4
    prefill_chunk: Size = 64
    exact: bool = True
    kernels: Literal["own", "llama.cpp"] = "own"
    low_priority: bool = True
    max_draft: Annotated[int, Meta(ge=0, le=256)] = 16
    spec_min_yield: Annotated[float, Meta(ge=0.0)] = 0.75
    spec_yield_rounds: Size = 24
    spec_min_speedup: Annotated[float, Meta(ge=0.0)] = 1.08
    spec_reprobe: Size = 32
    spec_reprobe_max: Size = 1024
    spec_rollback: Annotated[int, Meta(ge=0, le=64)] = 4
    drafters: dict[str, str] = {}
    spec_max_lanes: Annotated[int, Meta(ge=0)] = 0
    max_queue: Size = 256
    remotes: dict[str, RemoteOptions] = {}
    cache_dir: str = ""
    device: str = ""

    def folders(self) -> list[Path]:
        """The folders searched for models, in order."""
        from_env = [p for p in os.environ.get(ENV_MODELS, "").split(os.pathsep) if p]
        default = platformdirs.user_data_path("atelico", appauthor=False) / "models"
        bundled = Path(sys.prefix).parent / "models"  # beside the interpreter of a bundle
        found = [bundled] if bundled.is_dir() else []
        return [*(Path(p).expanduser() for p in (*from_env, *self.model_folders)), *found, default]

    def cache_folder(self) -> Path:
        """The folder for assembled models."""
        if self.cache_dir:
            return Path(self.cache_dir).expanduser()
        return platformdirs.user_cache_path("atelico", appauthor=False)


def default_config_path() -> Path:
    """Where the configuration is read from when nobody names a file."""
    return platformdirs.user_config_path("atelico", appauthor=False) / "config.toml"


def load_config(path: str | Path | None = None, environ: Mapping[str, str] = os.environ) -> EngineConfig:
    """The configuration in `path`, else in the file `ATELICO_CONFIG` names, else in the user's config folder, else the
    defaults; single fields are overridden by `ATELICO_N_CTX`, `ATELICO_N_THREADS`, `ATELICO_N_GPU_LAYERS` and
    `ATELICO_KERNELS`.

    Raises:
        ConfigError: the file is missing though it was named, is not TOML, or has a wrong or unknown field.
    """
    named = path or environ.get(ENV_CONFIG)
    file = Path(named).expanduser() if named else default_config_path()
    fields: dict[str, object] = {}
    if named or file.is_file():
        try:
            fields = msgspec.toml.decode(file.read_bytes())
        except OSError as error:
            raise ConfigError(f"The configuration file {file} cannot be read: {error.strerror}.") from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"The configuration file {file} is not valid TOML: {error}.") from None
    source = str(file)
    for variable, field in _ENV_FIELDS.items():
        if variable in environ:
            try:
                fields[field] = int(environ[variable])
            except ValueError:
                raise ConfigError(f"{variable} is {environ[variable]!r}, not a whole number.") from None
            source = variable
    if ENV_KERNELS in environ:
        fields["kernels"] = environ[ENV_KERNELS]
        source = ENV_KERNELS
    try:
        return msgspec.convert(fields, EngineConfig)
    except msgspec.ValidationError as error:
        raise ConfigError(
            f"The configuration ({source}) is wrong: {error}.",
            hint=f"Known fields: {', '.join(EngineConfig.__struct_fields__)}.",
        ) from None
