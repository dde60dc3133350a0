"""The prompts of the exactness tests, as a game would ask them. Most make the answer repeat the prompt or itself."""

from __future__ import annotations

from typing import Any

from .scripted import UNGOVERNED

PROMPTS: dict[str, str] = {
    "grounded": (
        "Notice at the harbour gate: The ferry to Grey Island leaves at dawn from the third pier. The fare is two "
        "silver coins. Captain Orla Fenn does not carry horses. In a storm the ferry waits until the red lantern is "
        "taken down.\n\nQuote the notice: from which pier does the ferry leave, what is the fare, who is the captain?"
    ),
    "summary": (
        "Summarise: The lighthouse keeper counted the ships every evening. On the first evening he counted nine ships, "
        "on the second evening he counted seven ships, and on the third evening he counted no ships at all. He lit the "
        "great lamp anyway, because the lamp had never failed a ship, and he wrote in his book that the sea was empty."
    ),
    "code": (
        "Rename the variable `hp` to `health` in this function and print the whole function.\n\n"
        "def take_damage(hp, armour, amount):\n    reduced = max(0, amount - armour)\n    hp = hp - reduced\n"
        "    if hp <= 0:\n        hp = 0\n        print('dead', hp)\n    return hp\n"
    ),
    "list": "List twelve items a travelling merchant sells, one per line, each with a price in silver coins.",
    "dialogue": (
        "Continue the dialogue.\nGuard: Halt! Who goes there?\nThief: Only a baker, sir.\nGuard: A baker at midnight?\n"
        "Thief: Bread must rise early, sir.\nGuard: And what is in the sack?\nThief:"
    ),
    "translation": (
        "Translate into French: Aldric and Maren met the witch Ysolde at the gate of Karth. Aldric gave Ysolde a ring, "
        "Maren gave Ysolde a song, and Ysolde opened the gate of Karth for Aldric and Maren."
    ),
    "story": "Tell a short story about a clockmaker who repairs a clock that runs backwards.",
    "json": (
        'Here are two quests:\n[{"title": "The lost lamb", "giver": "Berta", "reward": 10},\n '
        '{"title": "The broken bridge", "giver": "Otto", "reward": 25}]\n'
        "Write the same list again with three more quests in the same form."
    ),
}


def request(model: str, prompt: str, **fields: Any) -> dict[str, Any]:
    """A request for `prompt` (its text) to `model`, which reads it as a fresh process would; `fields` are added."""
    return {"model": model, "messages": [{"role": "user", "content": prompt}], "cache_prompt": False, **fields}


def speculative(proposer: str, k: int) -> dict[str, Any]:
    """The request fields that have every draft of `proposer`, of at most `k` tokens, verified."""
    return {"speculative": {"proposer": proposer, "k": k}, **UNGOVERNED}
