"""A long text of a game's world, as long as wanted: sentences from a seeded generator, which never repeat whole."""

from __future__ import annotations

import random

_WHO = (
    "the baker Berta",
    "Captain Orla Fenn",
    "the shepherd Wim",
    "Madam Quill",
    "General Hanne Rook",
    "Bodo of the inn",
)
_WHAT = ("sold", "lost", "found", "buried", "praised", "stole", "painted", "counted", "wrapped", "hid")
_THING = (
    "a brass key",
    "seven lanterns",
    "an old map",
    "the blue cloth",
    "two mules",
    "a barrel of oil",
    "the red hat",
)
_WHERE = ("in Ashdale", "at the ford", "below the tower of Sarn", "in Port Sallow", "beside the river Lune", "in Karth")
_WHY = ("because of the rain", "for a bet", "to please the queen", "out of boredom", "against all advice", "by mistake")


def sentences(seed: int, n: int) -> list[str]:
    """`n` sentences; those of different seeds differ from the first word on."""
    draw = random.Random(seed)
    return [
        f"In the year {draw.randrange(100, 999)} {draw.choice(_WHO)} {draw.choice(_WHAT)} {draw.choice(_THING)} "
        f"{draw.choice(_WHERE)} {draw.choice(_WHY)}."
        for _ in range(n)
    ]


def world_text(seed: int, n_sentences: int) -> str:
    """The sentences as one text; about 22 tokens each."""
    return f"Chronicle number {seed}. " + " ".join(sentences(seed, n_sentences))
