"""Rows that break no rule: draw, leave out those that do, draw again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dipsmith.arrays import Bools
from dipsmith.errors import UsageError
from dipsmith.privacy.randomness import generator, named_seed
from dipsmith.schema import Codes, Schema
from dipsmith.schema.rules import Rule

ROUNDS = 100
BARREN = 1 << 20
"""After so many rows without a lawful one a model is not asked again."""
TRIED = 10_000
"""Steps of the search for a combination that no rule forbids."""


def lawful_rows(draw: Callable[[int], Codes], n: int, seed: int | None = None) -> Codes:
    """Draw `n` rows that break no rule, from a model that may not know all of them.

    The result is distributed as the model's rows given that they are lawful. A model so noisy that
    nothing it draws is lawful says nothing about the rows still wanted: they are drawn uniformly.
    """
    drawn = draw(n)
    if not drawn.schema.rules or n == 0:
        return drawn
    random = generator(None if seed is None else named_seed(seed, ("uniform",)))
    parts: list[Codes] = []
    wanted, barren = n, 0
    for attempt in range(2 * ROUNDS):
        fine = drawn.lawful()
        parts.append(drawn.take(np.flatnonzero(fine)[:wanted]))
        wanted -= len(parts[-1])
        if wanted == 0:
            return Codes.concatenate(parts)
        more = int(wanted / max(float(fine.mean()), 0.01) * 1.1) + 16
        if barren < BARREN:
            barren = 0 if len(parts[-1]) else barren + len(drawn)
        asked = attempt < ROUNDS and barren < BARREN
        uniform = {} if asked else {a.name: random.integers(0, a.size, more) for a in drawn.schema}
        drawn = draw(more) if asked else Codes.of(drawn.schema, uniform, more)
    raise UsageError("the rules of the schema leave almost no combination of values possible; check them")


def require_possible(schema: Schema) -> None:
    """Refuse rules that leave no combination of values, before anything is paid for.

    Codes of an attribute that the same rules name are alike, so that one of each kind is tried; a search that
    finds nothing within `TRIED` steps is given the benefit of the doubt.
    """
    kinds: list[list[frozenset[int]]] = []
    for attribute in schema:
        naming: dict[int, set[int]] = {}
        for i, rule in enumerate(schema.rules):
            for code in dict(rule.never).get(attribute.name, ()):
                naming.setdefault(code, set()).add(i)
        if naming:
            found = {frozenset(rules) for rules in naming.values()}
            found |= {frozenset()} if len(naming) < attribute.size else set()
            kinds.append(sorted(found, key=lambda kind: (len(kind), sorted(kind))))
    needed = [len(rule.never) for rule in schema.rules]
    tried, stack = 0, [tuple[frozenset[int], ...]()]
    while stack and tried < TRIED:
        taken = stack.pop()
        if len(taken) == len(kinds):
            return
        for kind in reversed(kinds[len(taken)]):
            tried += 1
            hit = Counter(i for chosen in (*taken, kind) for i in chosen)
            if not any(hit[i] == needed[i] for i in kind):
                stack.append((*taken, kind))
    if not stack:
        raise UsageError("the rules leave no combination of values possible; check the schema's rules")


def label_codes(schema: Schema, targets: Sequence[str]) -> dict[str, NDArray[np.intp]]:
    """For every joint label of some attributes, the last one varying fastest, its code in each of them."""
    codes = np.unravel_index(np.arange(schema.size(targets)), [schema[t].size for t in targets])
    return dict(zip(targets, codes, strict=True))


def meets(rule: Rule, columns: Mapping[str, NDArray[np.integer]], size: int) -> Bools:
    """Which of `size` rows meet every condition of the rule that is about one of the columns."""
    met = np.ones(size, dtype=bool)
    for name, codes in rule.never:
        if name in columns:
            met &= np.isin(columns[name], codes)
    return met
