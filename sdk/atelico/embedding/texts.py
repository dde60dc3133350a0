"""What an embedding request is about: its texts, checked, and what they became."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from atelico.errors import InvalidRequestError


@dataclass(frozen=True)
class EmbeddedTexts:
    """The embeddings of some texts, in their order.

    Attributes:
        vectors: float32 [n_texts, n_embd], each of length 1, so that a dot product is a cosine.
        token_counts: tokens of each text, with the control tokens that the model wants around it.
    """

    vectors: npt.NDArray[np.float32]
    token_counts: tuple[int, ...]


def as_texts(given: str | Sequence[str]) -> list[str]:
    """The texts of an embedding request as a list; a str is one text.

    Raises:
        InvalidRequestError: there is none, or one is no valid text; `param` says which.
    """
    if isinstance(given, str):
        given = [given]
    if not isinstance(given, Sequence) or isinstance(given, (bytes, bytearray)) or not given:
        raise InvalidRequestError("input has no text.", param="input", hint="Use a text or a list of texts.")
    for i, text in enumerate(given):
        if not isinstance(text, str):
            raise InvalidRequestError(
                f"input[{i}] is of type {type(text).__name__}, not a text.",
                param=f"input[{i}]",
                hint="Token ids are not accepted: they mean something else to each model.",
            )
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidRequestError(
                f"input[{i}] is not valid Unicode: {error.reason} at character {error.start}.", param=f"input[{i}]"
            ) from None
    return list(given)
