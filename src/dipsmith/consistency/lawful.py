"""Rows that break no rule: draw, leave out those that do, draw again."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dipsmith.errors import UsageError
from dipsmith.schema import Codes

ROUNDS = 200


def lawful_rows(draw: Callable[[int], Codes], n: int) -> Codes:
    """Draw `n` rows that break no rule, from a model that may not know all of them.

    The result is distributed as the model's rows given that they are lawful.
    """
    drawn = draw(n)
    if not drawn.schema.rules or n == 0:
        return drawn
    parts: list[Codes] = []
    wanted = n
    for _ in range(ROUNDS):
        fine = drawn.lawful()
        parts.append(drawn.take(np.flatnonzero(fine)[:wanted]))
        wanted -= len(parts[-1])
        if wanted == 0:
            return Codes.concatenate(parts)
        share = max(float(fine.mean()), 0.01)
        drawn = draw(int(wanted / share * 1.1) + 16)
    raise UsageError(
        "nearly every row that the noisy model draws breaks a rule of the schema; use a larger ε, or put the rule's columns in one clique"
    )
