"""One scenario of the study: a model, a sample size and an ε, all variants on the same simulated tables."""

from __future__ import annotations

import csv
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

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
    "dipsmith PrivBayes": ds.PrivBayes(degree=2, share=0.5),
}
"""The package's own methods as a user would call them: m sets at ε/m, n given. PrivBayes has the paper's degree and half of
its budget for the network."""
FEWER_REPEATS = {"dipsmith PrivBayes": 50}
"""A network takes twenty times as long as a table."""
DRAWN = {
    ("flat projection", "continuous"): "flat table",
    ("STEPS-2 eq3 printed", "continuous"): "STEPS as printed",
    ("UH-4 random GLS clip", "continuous"): "universal histogram",
    ("dipsmith PrivBayes", "discrete"): "PrivBayes",
}
"""What the figures show, coefficient by coefficient: the paper's three methods, and the flat table that it leaves out."""
QUANTILES = (0.025, 0.25, 0.5, 0.75, 0.975)
"""What is kept of the 120 coefficients of Model 2; of Model 1 every one is."""

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Line:
    """The quality of one variant in one scenario, over so many repeats, and the processor seconds that it took.

    `biases`, `errors` and `coverages` are those of each coefficient (or their `QUANTILES`), of what is drawn.
    """

    model: int
    n: int
    method: str
    eps: float
    noise: str
    bias: float
    rmse: float
    coverage: float
    prediction: float
    repeats: int
    seconds: float
    biases: tuple[float, ...] = ()
    errors: tuple[float, ...] = ()
    coverages: tuple[float, ...] = ()

    @property
    def scenario(self) -> tuple[int, int, float]:
        """Model, rows and ε; 0 where nothing is protected."""
        return self.model, self.n, self.eps


def scenario(model: regression.Model, rows: int, epsilon: float, repeats: int, seed: int = 0) -> list[Line]:
    """All variants, with continuous and with discrete noise, and the package's methods."""
    rng = np.random.default_rng([seed, model, rows, int(10 * epsilon)])
    tables, exact = simulate(model, rows, repeats, rng)
    started = time.process_time()

    def line(name: str, law: str, found: Quality, of: int = repeats) -> Line:
        nonlocal started
        before, started = started, time.process_time()
        each = _each(model, found) if (name, law) in DRAWN or law == "none" else {}
        figures = found.bias, found.rmse, found.coverage, found.prediction
        spent = 0.0 if law == "none" else epsilon
        return Line(model, rows, name, spent, law, *figures, of, started - before, **each)

    beta, variance = fit(model, exact)
    lines = [line("no privacy", "none", quality(model, beta[None], variance[None], rng))]
    laws = {"continuous": laplace(rng), "discrete": discrete_laplace(seed)}
    for law, noise in laws.items():
        for name, variant in VARIANTS.items():
            of_one = Sanitised(tables, epsilon / SETS, rows, noise, rng)
            drawn = (draw_rows(variant(of_one), rows, rng) for _ in range(SETS))
            lines.append(line(name, law, _combined(model, drawn, rng)))
    for name, method in PACKAGE.items():
        some = tables[: FEWER_REPEATS.get(name, repeats)]
        sets = (_package(method, some, rows, epsilon / SETS, s, rng) for s in range(SETS))
        lines.append(line(name, "discrete", _combined(model, sets, rng), len(some)))
    return lines


def _each(model: regression.Model, found: Quality) -> dict[str, tuple[float, ...]]:
    """Every coefficient's figures, or the quantiles of many."""
    figures = {"biases": found.biases, "errors": found.errors, "coverages": found.coverages}
    return {k: tuple((v if model == 1 else np.quantile(v, QUANTILES)).tolist()) for k, v in figures.items()}


def _combined(model: regression.Model, sets: Iterator[Moments], rng: np.random.Generator) -> Quality:
    fitted = [fit(model, one) for one in sets]
    return quality(model, np.stack([b for b, _ in fitted]), np.stack([v for _, v in fitted]), rng)


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
    """Write the lines as CSV; the figures of single coefficients are separated by spaces."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(asdict(lines[0])), lineterminator="\n")
        writer.writeheader()
        for line in lines:
            writer.writerow({name: _text(name, value) for name, value in asdict(line).items()})


def read(path: Path) -> list[Line]:
    """Read the lines back."""
    with path.open(newline="") as file:
        return [Line(**{name: _value(name, text) for name, text in line.items()}) for line in csv.DictReader(file)]


_MEASURED = ("bias", "rmse", "coverage", "prediction")
_EACH = ("biases", "errors", "coverages")


def _text(name: str, value: Any) -> Any:
    if name in _EACH:
        return " ".join(f"{v:.3f}" for v in value)
    return f"{value:.4f}" if name in _MEASURED else f"{value:.1f}" if name == "seconds" else value


def _value(name: str, text: str) -> Any:
    if name in _EACH:
        return tuple(float(v) for v in text.split())
    kinds: dict[str, Any] = {"model": int, "n": int, "repeats": int, "method": str, "noise": str}
    return kinds.get(name, float)(text)
