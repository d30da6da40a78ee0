"""One scenario of the study: a model, a sample size and an ε, all variants on the same simulated tables."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from studies.steps_simulation.estimation import Moments, Quality, draw_rows, fit, moments, quality, simulate
from studies.steps_simulation.variants import SHAPE, VARIANTS, Float, Sanitised, discrete_laplace, laplace

import dipsmith as ds
from dipsmith.examples import regression
from dipsmith.methods.method import Method
from dipsmith.privacy.curator import Curator
from dipsmith.schema import Codes

SETS = 4
REPEATS = 200
EPSILONS = (0.5, 2.0, 5.0, 10.0)
SIZES = (10_000, 4_000)
SCENARIOS = [(model, rows, epsilon) for model in (1, 2) for rows in SIZES for epsilon in EPSILONS]

PACKAGE: dict[str, Method] = {
    "dipsmith Steps": ds.Steps(layers=[["x1", "x2", "x4"]]),
    "dipsmith Steps, auto": ds.Steps(),
    "dipsmith Flat": ds.Flat(),
}
"""The package's own methods as a user would call them: m sets at ε/m, n given."""

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Line:
    """The quality of one variant in one scenario."""

    model: int
    n: int
    method: str
    eps: float
    noise: str
    bias: float
    rmse: float
    coverage: float
    prediction: float


def scenario(model: regression.Model, rows: int, epsilon: float, repeats: int, seed: int = 0) -> list[Line]:
    """All variants, with continuous and with discrete noise, and the package's methods."""
    rng = np.random.default_rng([seed, model, rows, int(10 * epsilon)])
    tables, exact = simulate(model, rows, repeats, rng)
    beta, variance = fit(model, exact)
    lines = [_line(model, rows, "no privacy", 0.0, "none", quality(model, beta[None], variance[None], rng))]
    laws = {"continuous": laplace(rng), "discrete": discrete_laplace(seed)}
    for law, noise in laws.items():
        for name, variant in VARIANTS.items():
            of_one = Sanitised(tables, epsilon / SETS, rows, noise, rng)
            drawn = (draw_rows(variant(of_one), rows, rng) for _ in range(SETS))
            lines.append(_line(model, rows, name, epsilon, law, _combined(model, drawn, rng)))
    for name, method in PACKAGE.items():
        sets = (_package(method, tables, rows, epsilon / SETS, s, rng) for s in range(SETS))
        lines.append(_line(model, rows, name, epsilon, "discrete", _combined(model, sets, rng)))
    return lines


def _combined(model: regression.Model, sets: Iterator[Moments], rng: np.random.Generator) -> Quality:
    fitted = [fit(model, one) for one in sets]
    return quality(model, np.stack([b for b, _ in fitted]), np.stack([v for _, v in fitted]), rng)


def _line(model: regression.Model, rows: int, name: str, epsilon: float, law: str, found: Quality) -> Line:
    return Line(model, rows, name, epsilon, law, found.bias, found.rmse, found.coverage, found.prediction)


def _package(method: Method, tables: Float, rows: int, epsilon: float, seed: int, rng: np.random.Generator) -> Moments:
    """One synthetic set of every table, made by the package's method under add-remove with a public n."""
    schema = regression.schema("add-remove")
    counts = np.empty((len(tables), tables[0].size), dtype=np.int64)
    for i, table in enumerate(tables):
        curator = Curator.rehearse(_rows(schema, table), ds.PureDP(epsilon), given_rows=rows, seed=seed * 100_003 + i)
        made = method.fit(curator).sample(rows, seed=seed * 100_003 + i)
        cells = np.ravel_multi_index([made[name] for name in schema.names], SHAPE)
        counts[i] = np.bincount(cells, minlength=table.size)
    return moments(counts.reshape(len(tables), -1, regression.BINS), rng)


def _rows(schema: ds.Schema, table: Float) -> Codes:
    cells: NDArray[np.int64] = np.repeat(np.arange(table.size), table.ravel().astype(np.int64))
    return Codes.of(schema, dict(zip(schema.names, np.unravel_index(cells, SHAPE), strict=True)))


def reference() -> dict[tuple[int, int, str, float], float]:
    """RMSE in every scenario and variant, published values of an independent prototype of this study.

    Made with continuous Laplace noise and 200 repeats, so that they carry a Monte-Carlo error of about 3 %.
    """
    with (HERE / "reference.csv").open(newline="") as file:
        return {
            (int(r["model"]), int(r["n"]), r["method"], float(r["eps"])): float(r["rmse"]) for r in csv.DictReader(file)
        }


def write(lines: Sequence[Line], path: Path) -> None:
    """Write the lines as CSV."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(asdict(lines[0])), lineterminator="\n")
        writer.writeheader()
        for line in lines:
            writer.writerow({k: f"{v:.4f}" if k in _MEASURED else v for k, v in asdict(line).items()})


def read(path: Path) -> list[Line]:
    """Read the lines back."""
    with path.open(newline="") as file:
        return [
            Line(
                int(r["model"]),
                int(r["n"]),
                r["method"],
                float(r["eps"]),
                r["noise"],
                *(float(r[k]) for k in _MEASURED),
            )
            for r in csv.DictReader(file)
        ]


_MEASURED = ("bias", "rmse", "coverage", "prediction")
