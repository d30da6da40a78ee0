"""Designs: which combinations of levels are run.

*Full factorial*: all of them. *Fractional*: a subset of a given size that is D-optimal for main effects and two-way
interactions (or main effects, where it is too small for those), found by exchange (Fedorov, Theory of Optimal
Experiments, 1972): for factors with two levels these are the regular fractions of the textbooks, and it works for any
mixture of levels. *Random*: a given number drawn without replacement; where a parameter is a range, a Latin hypercube.
The same study gives the same design.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import combinations, product
from math import prod
from typing import Any

import numpy as np
from scipy.linalg import helmert

from dipsmith.arrays import Floats, Ints
from dipsmith.errors import InputError
from dipsmith.experiments.ranges import hypercube
from dipsmith.experiments.study import Levels, MethodEntry, RangeEntry, StudyEntry

MOST_SETTINGS = 100_000
RESTARTS = 5
TRIES = 20


@dataclass(frozen=True)
class Setting:
    """One combination: the method, the level of every factor as a label, and the parameters it stands for."""

    method: str
    name: str
    levels: Mapping[str, str]
    values: Mapping[str, Any]

    def __str__(self) -> str:
        return self.name + (f" ({describe_values(self.levels)})" if self.levels else "")


@dataclass(frozen=True)
class Factor:
    """A parameter that is varied: labels and the values behind them, in the order of the file."""

    name: str
    labels: tuple[str, ...]
    values: tuple[Any, ...]

    @classmethod
    def of(cls, name: str, levels: Levels) -> Factor:
        """Levels are a list of values, or a mapping of labels to values.

        >>> Factor.of("weights", {"equal": None, "pay": {"pay": 40}}).labels
        ('equal', 'pay')
        >>> Factor.of("n_b", [25, 500]).labels
        ('25', '500')
        """
        if isinstance(levels, RangeEntry):
            raise InputError(f"'{name}' is a range, which has no levels; use 'design: {{random: N}}'")
        pairs = list(levels.items()) if isinstance(levels, dict) else [(label_of(v), v) for v in levels]
        labels = [str(label) for label, _ in pairs]
        if len(set(labels)) < len(labels):
            raise InputError(f"'{name}' has the same level twice; name the levels: {name}: {{label: value, …}}")
        if not pairs:
            raise InputError(f"'{name}' has no levels; list at least one")
        return cls(name, tuple(labels), tuple(v for _, v in pairs))

    def at(self, i: int) -> tuple[str, str, Any]:
        """Its name, and the label and value of a level."""
        return self.name, self.labels[i], self.values[i]


def label_of(value: Any) -> str:
    """A level as a label.

    >>> label_of(0.25), label_of(None), label_of(["sex", "race"])
    ('0.25', 'none', '["sex", "race"]')
    """
    if value is None or isinstance(value, str):
        return "none" if value is None else value
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:g}"
    return json.dumps(value, ensure_ascii=False)


def in_words(value: Any) -> str:
    """A value of the file in words.

    >>> in_words({"race": {"role": "public"}}), in_words([["age", "sex"]]), in_words(None)
    ('race: (role: public)', 'age × sex', 'none')
    """
    if isinstance(value, dict):
        inner = (f"{k}: ({in_words(v)})" if isinstance(v, dict) else f"{k}: {in_words(v)}" for k, v in value.items())
        return ", ".join(inner) or "none"
    if isinstance(value, list):
        return ", ".join(" × ".join(map(in_words, v)) if isinstance(v, list) else in_words(v) for v in value)
    return label_of(value)


def describe_values(values: Mapping[str, Any]) -> str:
    """Names with their values, in words."""
    return ", ".join(f"{name} = {in_words(value)}" for name, value in values.items())


def settings(study: StudyEntry) -> list[Setting]:
    """The settings of a study, methods in the order of the file."""
    found: list[Setting] = []
    for entry in study.methods:
        varied = study.vary | entry.vary
        if clash := sorted(set(varied) & set(entry.set)):
            raise InputError(f"method '{entry.label}': '{clash[0]}' is both fixed ('set') and varied; keep one of them")
        fixed = {k: v for k, v in (study.set | entry.set).items() if k not in varied}
        ranged = any(isinstance(levels, RangeEntry) for levels in varied.values())
        factors = [] if ranged else [Factor.of(n, levels) for n, levels in varied.items()]
        grid = ([f.at(i) for f, i in zip(factors, index, strict=True)] for index in _choose(factors, study))
        for pairs in _scatter(varied, entry, study) if ranged else grid:
            levels = {name: label for name, label, _ in pairs}
            values = {name: value for name, _, value in pairs}
            found.append(Setting(entry.method, entry.label, levels, fixed | values))
    return found


Combination = list[tuple[str, str, Any]]
"""For every parameter its name, label and value."""


def _scatter(varied: Mapping[str, Levels], entry: MethodEntry, study: StudyEntry) -> list[Combination]:
    """A Latin hypercube over ranges and lists; a parameter's draws are the same for every method that shares it."""
    assert study.design != "full"
    wanted = study.design.random or 0
    spans = {
        name: entry.range_of(name, levels) if isinstance(levels, RangeEntry) else Factor.of(name, levels)
        for name, levels in varied.items()
    }
    seeds = [int.from_bytes(sha256(f"{study.seed} {name}".encode()).digest()[:8], "big") for name in spans]
    found: dict[tuple[str, ...], Combination] = {}
    again = np.random.default_rng(seeds).random((TRIES * wanted, len(spans)))
    # Whole numbers and lists can fall together: such a setting is drawn anew, as often as it makes sense.
    for share in [*hypercube(wanted, seeds), *again]:
        drawn: Combination = []
        for (name, span), u in zip(spans.items(), share.tolist(), strict=True):
            value = None if isinstance(span, Factor) else span.value(u)
            place = span.at(int(u * len(span.labels))) if isinstance(span, Factor) else (name, label_of(value), value)
            drawn.append(place)
        found.setdefault(tuple(label for _, label, _ in drawn), drawn)
        if len(found) == wanted:
            break
    return list(found.values())


def _choose(factors: Sequence[Factor], study: StudyEntry) -> list[tuple[int, ...]]:
    sizes = [len(f.labels) for f in factors]
    if prod(sizes) > MOST_SETTINGS:
        raise InputError(f"the grid has more than {MOST_SETTINGS:,} settings; vary fewer parameters")
    grid = list(product(*(range(size) for size in sizes)))
    design = study.design
    if design == "full":
        return grid
    wanted = design.fractional or design.random or 0
    if wanted >= len(grid):
        return grid
    if design.random is not None:
        drawn = np.random.default_rng(study.seed).choice(len(grid), wanted, replace=False)
        return [grid[i] for i in sorted(drawn)]
    return [grid[i] for i in fraction(sizes, wanted, study.seed)]


def fraction(sizes: Sequence[int], runs: int, seed: int = 0) -> list[int]:
    """A D-optimal choice of so many rows of the full factorial with these numbers of levels.

    >>> fraction([2, 2, 2], 4)  # half of 2³: each level, and each pair of levels of two factors, equally often
    [0, 3, 5, 6]
    """
    indexes = np.array(list(product(*(range(size) for size in sizes))))
    model, _ = _model(indexes, sizes, runs)
    if model.shape[1] > runs:
        raise InputError(
            f"a fraction of {runs} settings is too small for {model.shape[1]} main effects; give {model.shape[1]} or more"
        )
    rng = np.random.default_rng(seed)
    best: tuple[float, list[int]] = (-np.inf, [])
    for _ in range(RESTARTS):
        chosen = _exchange(model, list(rng.choice(len(model), runs, replace=False)))
        found = _log_determinant(model[chosen])
        if found > best[0] + 1e-9:
            best = (found, sorted(chosen))
    # Every sign flip of a regular fraction is as good: relabel levels cyclically so that it contains the first setting.
    moved = (indexes[best[1]] - indexes[best[1][0]]) % np.array(sizes)
    return sorted(np.ravel_multi_index(tuple(moved.T), tuple(sizes)).tolist())


@dataclass(frozen=True)
class Fraction:
    """What a part (`runs` of so many settings) of the full factorial can tell apart.

    `resolution` is the least number of parameters whose joint effect looks like the mean: 5 and above keep main effects
    and pairs apart, 4 main effects from pairs, 3 main effects from one another (Xu and Wu, Annals of Statistics 29, 2001,
    for any numbers of levels; for two levels it is the textbooks'). `efficiency` is the D-efficiency for the model that the
    fraction was chosen for (`ways` 2: with pairs): 1 if all its effects are orthogonal.
    """

    runs: int
    of: int
    resolution: int
    ways: int
    efficiency: float

    def __str__(self) -> str:
        numeral = ("", "I", "II", "III", "IV", "V", "VI", "VII", "VIII")[min(8, self.resolution)]
        effects = "main effects and pairs" if self.ways == 2 else "main effects"
        return f"{self.runs} of {self.of}, resolution {numeral}, D-efficiency {self.efficiency:.0%} for {effects}"


def fraction_of(study: StudyEntry, entry: MethodEntry) -> Fraction | None:
    """The fraction that a study runs of a method's grid; None where it runs all of it, or a random part."""
    if study.design == "full" or study.design.fractional is None:
        return None
    factors = [Factor.of(n, levels) for n, levels in (study.vary | entry.vary).items()]
    sizes = [len(f.labels) for f in factors]
    index = np.array(_choose(factors, study))
    whole = prod(sizes)
    if len(index) == whole:
        return None
    x, ways = _model(index, sizes, len(index))
    efficiency = float(np.exp(_log_determinant(x) / x.shape[1])) / len(index)
    return Fraction(len(index), whole, resolution(index, sizes), ways, efficiency)


def resolution(index: Ints, sizes: Sequence[int]) -> int:
    """How many parameters the shortest word of a design has.

    >>> resolution(np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]]), [2, 2, 2])  # half of 2³
    3
    """
    blocks = [_contrasts(size)[index[:, j]] for j, size in enumerate(sizes) if size > 1]
    for length in range(1, len(blocks) + 1):
        for group in combinations(blocks, length):
            joint = np.ones((len(index), 1))
            for block in group:
                joint = (joint[:, :, None] * block[:, None, :]).reshape(len(index), -1)
            if float((joint.mean(axis=0) ** 2).sum()) > 1e-9:
                return length
    return len(blocks) + 1


def _model(indexes: Ints, sizes: Sequence[int], runs: int) -> tuple[Floats, int]:
    """The columns with pairs (and 2) where so many runs are enough for them, else those of main effects (and 1)."""
    pairs = model_matrix(indexes, sizes, 2)
    return (pairs, 2) if pairs.shape[1] <= runs else (model_matrix(indexes, sizes, 1), 1)


def model_matrix(indexes: Ints, sizes: Sequence[int], ways: int) -> Floats:
    """Intercept, contrasts of every factor and (with two ways) their products; orthogonal over the full grid."""
    blocks = [_contrasts(size)[indexes[:, j]] for j, size in enumerate(sizes)]
    columns = [np.ones((len(indexes), 1)), *blocks]
    if ways > 1:
        for a, b in combinations(blocks, 2):
            columns.append((a[:, :, None] * b[:, None, :]).reshape(len(indexes), -1))
    return np.concatenate(columns, axis=1)


def _contrasts(size: int) -> Floats:
    """Orthonormal contrasts of a factor's levels (Helmert's), one row per level."""
    return np.asarray(np.sqrt(size) * helmert(size).T)


def _exchange(model: Floats, chosen: list[int]) -> list[int]:
    """Swap a chosen setting for another as long as the determinant grows (one exchange at a time)."""
    p = model.shape[1]
    for _ in range(20 * len(chosen)):
        inverse = np.linalg.inv(model[chosen].T @ model[chosen] + 1e-9 * np.eye(p))
        outside = np.setdiff1d(np.arange(len(model)), chosen)
        spread = model @ inverse
        d_in = np.einsum("ij,ij->i", spread[chosen], model[chosen])
        d_out = np.einsum("ij,ij->i", spread[outside], model[outside])
        cross = spread[chosen] @ model[outside].T
        gain = (1 - d_in)[:, None] * (1 + d_out)[None, :] + cross**2
        i, j = np.unravel_index(int(gain.argmax()), gain.shape)
        if gain[i, j] <= 1 + 1e-6:
            break
        chosen[int(i)] = int(outside[j])
    return chosen


def _log_determinant(rows: Floats) -> float:
    sign, value = np.linalg.slogdet(rows.T @ rows)
    return float(value) if sign > 0 else -np.inf
