"""The configuration a game hands to atelico_create: the fields of EngineConfig as JSON.

The user's own configuration file is not read: a game must not behave differently for it.
"""

from __future__ import annotations

import msgspec

from atelico.config import EngineConfig
from atelico.errors import ConfigError


def decode_config(text: bytes) -> EngineConfig:
    """The configuration in `text`; empty takes the defaults.

    Raises:
        ConfigError: it is not JSON, or has a wrong or unknown field.
    """
    if not text.strip():
        return EngineConfig()
    hint = f"Known fields: {', '.join(EngineConfig.__struct_fields__)}."
    try:
        return msgspec.json.decode(text, type=EngineConfig)
    except msgspec.ValidationError as error:
        raise ConfigError(f"The configuration is wrong: {error}.", hint=hint) from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise ConfigError(f"The configuration is not valid JSON: {error}.", hint=hint) from None
