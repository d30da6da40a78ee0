"""Simulated regressions with known coefficients: the two models of the STEPS simulation study.

Four independent, uniform categorical predictors with 2, 3, 4 and 5 levels, and a response with standard
normal errors (Bowen, Liu and Su, arXiv 1803.06763, section 3.2):

*Model 1*, main effects: Y = β₀ + Σ βⱼ·dummyⱼ + e, ten dummies (1 + 2 + 3 + 4), first level the reference.

*Model 2*, saturated: Y = β(x₁, x₂, x₃, x₄) + e, 120 cell means, drawn once from a standard normal law.

The paper does not state the law of the predictors (uniform here), the cell means (drawn here, see
`CELL_MEANS_SEED`) nor the range over which Y is cut into 15 bins (public, [−5, 7] here).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Final, Literal

import numpy as np
import pyarrow as pa

from dipsmith.arrays import Floats
from dipsmith.examples import write_example
from dipsmith.schema import Schema

LEVELS: Final = {"x1": 2, "x2": 3, "x3": 4, "x4": 5}
MAIN_EFFECTS: Final[Mapping[str, tuple[float, ...]]] = {
    "x1": (0.5,),
    "x2": (0.5, -0.8),
    "x3": (1.0, 0.5, 0.5),
    "x4": (0.5, 0.7, 0.8, 0.5),
}
INTERCEPT: Final = 0.0
LOWEST, HIGHEST, BINS = -5.0, 7.0, 15
CELL_MEANS_SEED: Final = 1279

Model = Literal[1, 2]


@dataclass(frozen=True, eq=False)
class RegressionTruth:
    """What made the response: the named coefficients, and the mean of Y in each of the 120 cells of the predictors.

    Model 1 has an intercept and ten effects, in the order of the predictors; Model 2 has the cell means, the last
    predictor varying fastest.
    """

    coefficients: Floats
    names: tuple[str, ...]
    means: Floats


def truth(model: Model) -> RegressionTruth:
    """The coefficients of a model.

    >>> truth(1).coefficients.tolist()
    [0.0, 0.5, 0.5, -0.8, 1.0, 0.5, 0.5, 0.5, 0.7, 0.8, 0.5]
    >>> truth(2).coefficients.size
    120
    """
    if model == 1:
        effects = [e for name in LEVELS for e in MAIN_EFFECTS[name]]
        names = [f"{name}={level}" for name, k in LEVELS.items() for level in range(2, k + 1)]
        coefficients = np.array([INTERCEPT, *effects])
        return RegressionTruth(coefficients, ("intercept", *names), design() @ coefficients)
    means = np.random.default_rng(CELL_MEANS_SEED).standard_normal(prod(LEVELS.values()))
    cells = np.ndindex(*LEVELS.values())
    return RegressionTruth(means, tuple("".join(str(c + 1) for c in cell) for cell in cells), means)


def design() -> Floats:
    """The design matrix of Model 1 over the 120 cells of the predictors: intercept and ten dummies."""
    codes = np.stack(np.unravel_index(np.arange(prod(LEVELS.values())), tuple(LEVELS.values())))
    dummies = [codes[j] == level for j, k in enumerate(LEVELS.values()) for level in range(1, k)]
    return np.stack([np.ones(codes.shape[1]), *dummies], axis=1).astype(np.float64)


def simulate(rows: int = 10_000, model: Model = 1, seed: int = 0) -> tuple[pa.Table, RegressionTruth]:
    """Simulate one table and return it with the truth behind it.

    >>> table, made_by = simulate(100, model=2)
    >>> table.column_names, made_by.means.size
    (['x1', 'x2', 'x3', 'x4', 'y'], 120)
    """
    made_by = truth(model)
    rng = np.random.default_rng(seed)
    cell = rng.integers(0, made_by.means.size, rows)
    y = made_by.means[cell] + rng.standard_normal(rows)
    codes = np.unravel_index(cell, tuple(LEVELS.values()))
    columns = {name: pa.array(code + 1) for name, code in zip(LEVELS, codes, strict=True)}
    return pa.table(columns | {"y": pa.array(y)}), made_by


def schema(neighbours: str = "replace") -> Schema:
    """Describe the tables: four categorical predictors, and the response in 15 bins over a public range."""
    fields: list[dict[str, object]] = [
        {"name": name, "type": "integer", "enum": list(range(1, k + 1)), "other": 1} for name, k in LEVELS.items()
    ]
    fields.append({"name": "y", "type": "number", "minimum": LOWEST, "maximum": HIGHEST, "bins": {"count": BINS}})
    return Schema.from_dict({"name": "regression", "unit": "row", "neighbours": neighbours, "fields": fields})


def write(folder: str | Path, rows: int = 10_000, model: Model = 1, *, seed: int = 0) -> RegressionTruth:
    """Write regression.parquet and regression.yaml into a folder."""
    table, made_by = simulate(rows, model, seed)
    write_example(folder, table, schema())
    return made_by
