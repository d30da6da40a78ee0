"""Labellers under the `label` relation, side by side: memo forest, our forest, log-linear, marginal, limit.

    python benchmarks/labellers.py adult          # held-out log loss of sex and race (--adult PATH)
    python benchmarks/labellers.py interactions   # simulated three-way effects: how much of the gap is closed
    python benchmarks/labellers.py personnel      # coefficients of log pay, four years (--rows per year)
    python benchmarks/labellers.py scale          # 1.3 and 10 million rows: time and memory
    python benchmarks/labellers.py figures        # docs/images/labellers-*.svg from the results kept

Without a part all are run. Every part prints what it found beside what is wanted; `adult` and `personnel` keep their
numbers in benchmarks/results (`--results FOLDER`).
"""

from __future__ import annotations

import argparse
import csv
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dipsmith.codec.encode import Encoder
from dipsmith.examples import personnel
from dipsmith.methods.forest.forest import Forest
from dipsmith.methods.loglinear.loglinear import LogLinear
from dipsmith.methods.loglinear.penalty import Penalty
from dipsmith.methods.loglinear.public_design import LabelTerm, PublicDesign
from dipsmith.methods.loglinear.solver import FREE, EffectEquations, estimate_effects
from dipsmith.privacy.budget import PureDP
from dipsmith.privacy.curator import Curator
from dipsmith.schema import Attribute, Categories, Codes, Schema, Unit

Float = NDArray[np.float64]


def column(name: str, values: Sequence[str], role: str = "public", *, ordered: bool = False) -> Attribute:
    domain = Categories.of(values, other=values[0], ordered=ordered)
    return Attribute(name, "string", domain, role)  # type: ignore[arg-type]


def numbered(name: str, size: int, role: str = "public", *, ordered: bool = False) -> Attribute:
    return column(name, [str(i) for i in range(size)], role, ordered=ordered)


def loss(p: Float, y: NDArray[np.integer]) -> float:
    return float(-np.log(np.maximum(p[np.arange(len(y)), y], 1e-12)).mean())


def told(what: str, found: float, wanted: float, *, larger: bool = False) -> bool:
    fine = found >= wanted if larger else found <= wanted
    print(
        f"  {'ok    ' if fine else 'MISSED'} {what}: {found:.4f} (wanted {'≥' if larger else '≤'} {wanted:g})",
        flush=True,
    )
    return fine


# --- the memos' forest, small -------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class MemoForest:
    """Random trees with plain noisy leaves and equal weights; tuned in hindsight, which costs nothing here."""

    n_b: int
    trees: int

    def probabilities(self, train: Codes, test: Codes, target: str, epsilon: float, rng: np.random.Generator) -> Float:
        """Grow, noise the leaves, and give the test rows their label distributions."""
        names = [n for n in train.schema.public if n in train.columns]
        labels = train.schema[target].size
        codes = [np.stack([c[n] for n in names], axis=1).astype(np.int64) for c in (train, test)]
        total = np.zeros((len(test), labels))
        for _ in range(self.trees):
            leaf = [np.zeros(len(c), dtype=np.int64) for c in (train, test)]
            used = np.zeros((1, len(names)), dtype=bool)
            growing = np.ones(1, dtype=bool)
            for _ in names:
                sizes = np.bincount(leaf[0], minlength=len(used))
                growing &= sizes >= self.n_b
                if not growing.any():
                    break
                asked = np.where(used, -1.0, rng.random(used.shape)).argmax(axis=1)
                below = []
                for at, rows in zip(leaf, codes, strict=True):
                    branch = np.where(growing[at], rows[np.arange(len(at)), asked[at]] + 1, 0)
                    below.append(at * 64 + branch)
                keys, index = np.unique(np.concatenate(below), return_inverse=True)
                leaf = [index[: len(train)], index[len(train) :]]
                parents = keys // 64
                used, growing = used[parents].copy(), growing[parents] & (keys % 64 > 0)
                used[np.flatnonzero(growing), asked[parents[growing]]] = True
                growing &= ~used.all(axis=1)
            counts = np.bincount(leaf[0] * labels + train[target], minlength=len(used) * labels)
            table = counts.reshape(-1, labels)
            scale = (1 if labels == 2 else 2) * self.trees / epsilon
            if labels == 2:
                second = table[:, 1] + rng.laplace(0, scale, len(table))
                noisy = np.stack([table.sum(axis=1) - second, second], axis=1)
            else:
                noisy = table + rng.laplace(0, scale, table.shape)
            noisy = np.maximum(noisy, 0)
            p = np.where(noisy.sum(axis=1, keepdims=True) > 0, noisy, 1.0)
            total += (p / p.sum(axis=1, keepdims=True))[leaf[1]]
        # Without a floor the log loss of dead leaves would be infinite.
        p = np.maximum(total / self.trees, 0.01)
        return np.asarray(p / p.sum(axis=1, keepdims=True))


MEMO = [MemoForest(n, t) for n in (10, 25, 100, 500, 1000, 5000) for t in (1, 3)]


# --- Adult ------------------------------------------------------------------------------------------

EDUCATION = [
    "Preschool",
    "1st-4th",
    "5th-6th",
    "7th-8th",
    "9th",
    "10th",
    "11th",
    "12th",
    "HS-grad",
    "Some-college",
    "Assoc-voc",
    "Assoc-acdm",
    "Bachelors",
    "Masters",
    "Prof-school",
    "Doctorate",
]
WORK = [
    "?",
    "Private",
    "Self-emp-not-inc",
    "Self-emp-inc",
    "Federal-gov",
    "Local-gov",
    "State-gov",
    "Without-pay",
    "Never-worked",
]
MARRIED = [
    "Married-civ-spouse",
    "Divorced",
    "Never-married",
    "Separated",
    "Widowed",
    "Married-spouse-absent",
    "Married-AF-spouse",
]
JOBS = [
    "?",
    "Tech-support",
    "Craft-repair",
    "Other-service",
    "Sales",
    "Exec-managerial",
    "Prof-specialty",
    "Handlers-cleaners",
    "Machine-op-inspct",
    "Adm-clerical",
    "Farming-fishing",
    "Transport-moving",
    "Priv-house-serv",
    "Protective-serv",
    "Armed-Forces",
]
RACES = ["White", "Black", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other"]
WANTED = {"sex": {"0.1": 0.470, "0.75": 0.438, "3": 0.435}, "race": {"0.1": 0.550, "0.75": 0.528, "3": 0.521}}
SEEDS = 5


def adult_codes(path: Path) -> Codes:
    """Age in 5-year bins, hours in 10-hour bins, the rest as they are; sex and race private."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file, skipinitialspace=True))
    listed = {
        "workclass": WORK,
        "education": EDUCATION,
        "marital-status": MARRIED,
        "occupation": JOBS,
        "sex": ["Female", "Male"],
        "race": RACES,
    }
    codes = {n: np.array([v.index(r[n].strip()) for r in rows]) for n, v in listed.items()}
    codes["age"] = (np.array([int(r["age"]) for r in rows]) - 15) // 5
    codes["hours"] = (np.array([int(r["hours-per-week"]) for r in rows]) - 1) // 10
    attributes = (
        numbered("age", 16, ordered=True),
        column("workclass", WORK),
        column("education", EDUCATION, ordered=True),
        column("marital-status", MARRIED),
        column("occupation", JOBS),
        numbered("hours", 10, ordered=True),
        column("sex", ["Female", "Male"], "private"),
        column("race", RACES, "private"),
    )
    return Codes.of(Schema("adult", attributes, Unit(), "label"), codes)


def fitted(method: LogLinear | Forest, train: Codes, epsilon: str, seed: int, test: Codes) -> Float:
    model = method.fit(Curator.rehearse(train, PureDP(epsilon), seed=seed))
    return model.probabilities(test.project(test.schema.public))


def boosted(train: Codes, test: Codes, target: str) -> float:
    from sklearn.ensemble import HistGradientBoostingClassifier

    x = [np.stack([c[n] for n in c.schema.public], axis=1) for c in (train, test)]
    ordered = [train.schema[n].domain.ordered for n in train.schema.public]
    model = HistGradientBoostingClassifier(
        categorical_features=[not o for o in ordered],
        learning_rate=0.05,
        max_iter=200,
        early_stopping=True,
        random_state=0,
    )
    return loss(model.fit(x[0], train[target]).predict_proba(x[1]), test[target])


def kept(folder: Path, name: str, columns: Sequence[str], lines: Sequence[Sequence[object]]) -> None:
    """Write a table of results."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"labellers-{name}.csv").open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([columns, *lines])


def adult(path: Path, results: Path) -> bool:
    if not path.exists():
        print("  not tested: give the public Adult extract with --adult PATH or DIPSMITH_ADULT")
        return True
    codes = adult_codes(path)
    halves = []
    for seed in range(SEEDS):
        order = np.random.default_rng(seed).permutation(len(codes))
        halves.append((codes.take(order[: len(codes) // 2]), codes.take(order[len(codes) // 2 :])))
    fine, lines = True, []
    print(f"held-out log loss, mean of {SEEDS} halves of {len(codes):,} rows")
    print("target     ε  marginal  memo best   forest  main effects  log-linear  boosted, not private")
    for target in ("sex", "race"):
        limit = float(np.mean([boosted(a, b, target) for a, b in halves]))
        for epsilon in ("0.02", "0.1", "0.75", "3"):
            marginal = mean_loss(LogLinear([target], predictors=[]), halves, target, epsilon)
            best = min(mean_loss(memo, halves, target, epsilon) for memo in MEMO)
            forest = mean_loss(Forest([target]), halves, target, epsilon)
            plain = mean_loss(LogLinear([target], interactions=0), halves, target, epsilon)
            found = mean_loss(LogLinear([target]), halves, target, epsilon)
            figures = f"{marginal:8.4f}  {best:9.4f} {forest:8.4f}  {plain:12.4f}  {found:10.4f}  {limit:9.4f}"
            print(f"{target:<6} {epsilon:>5}  {figures}", flush=True)
            lines.append([target, epsilon, *(f"{x:.4f}" for x in (marginal, best, forest, plain, found, limit))])
            if epsilon in WANTED[target]:
                fine &= told(f"log-linear, {target}, ε = {epsilon}", found, WANTED[target][epsilon])
            else:
                fine &= told(f"above the private marginal, {target}, ε = {epsilon}", found - marginal, 0.01)
            if (target, epsilon) == ("sex", "3"):
                closed = (plain - found) / (plain - limit)
                fine &= told("share of the gap from main effects to boosting closed", closed, 0.5, larger=True)
    kept(results, "adult", ("target", "epsilon", *COMPARED), lines)
    return fine


COMPARED = ("marginal", "memo's best", "forest", "main effects", "log-linear", "boosted")


def mean_loss(
    method: LogLinear | Forest | MemoForest, halves: Sequence[tuple[Codes, Codes]], target: str, epsilon: str
) -> float:
    losses = []
    for seed, (train, test) in enumerate(halves):
        if isinstance(method, MemoForest):
            p = method.probabilities(train, test, target, float(epsilon), np.random.default_rng(seed))
        else:
            p = fitted(method, train, epsilon, seed, test)
        losses.append(loss(p, test[target]))
    return float(np.mean(losses))


# --- interactions -------------------------------------------------------------------------------------


def interactions(rows: int = 60_000) -> bool:
    """Three binary effects of pairs and one of a triple, on top of main effects; half held out."""
    sizes = {"a": 6, "b": 5, "c": 8, "d": 4, "e": 7, "f": 3}
    attributes = [numbered(n, s) for n, s in sizes.items()]
    schema = Schema("three-way", (*attributes, numbered("y", 3, "private")), Unit(), "label")
    rng = np.random.default_rng(0)
    columns = {n: rng.integers(0, s, rows) for n, s in sizes.items()}
    eta = sum(rng.normal(0, 0.4, (s, 3))[columns[n]] for n, s in sizes.items())
    for group in (("a", "b"), ("c", "d"), ("e", "f"), ("a", "d", "f")):
        effect = rng.normal(0, 0.6, (*(sizes[n] for n in group), 3))
        eta = eta + effect[tuple(columns[n] for n in group)]
    p = np.exp(eta) / np.exp(eta).sum(axis=1, keepdims=True)
    columns["y"] = (rng.random((rows, 1)) > np.cumsum(p, axis=1)[:, :-1]).sum(axis=1)
    codes = Codes.of(schema, columns)
    train, test = codes.take(slice(0, rows // 2)), codes.take(slice(rows // 2, None))
    limit = boosted(train, test, "y")
    plain = np.mean([loss(fitted(LogLinear(["y"], interactions=0), train, "3", s, test), test["y"]) for s in range(3)])
    found = np.mean([loss(fitted(LogLinear(["y"]), train, "3", s, test), test["y"]) for s in range(3)])
    truth = loss(p[rows // 2 :], test["y"])
    print(f"truth {truth:.4f}, boosted {limit:.4f}, main effects {plain:.4f}, with interactions {found:.4f}  (ε = 3)")
    closed = float((plain - found) / (plain - limit))
    return told("share of the gap between main effects and boosting closed", closed, 0.5, larger=True)


# --- coefficients of log pay ----------------------------------------------------------------------------

ANALYSIS = "log(pay) ~ sex + race + age + I(age**2) + education | agency + occupation"
NAMES = ("woman", "race A", "race B", "race C", "race D")


def analyst_schema() -> Schema:
    """The example's schema for this analysis: occupations in full, and pay in steps of 6 % instead of $5,000.

    In 1988 a step of $5,000 is a fifth of the median pay, as wide as the spread that is to be explained.
    """
    described = personnel.schema().to_dict()
    steps = [0, *(round(10_000 * 1.06**i) for i in range(56)), 250_000]
    for entry in described["fields"]:
        entry.pop("collapse", None)
        if entry["name"] == "pay":
            entry["bins"] = {"edges": steps}
    described["rules"] = []
    return Schema.from_dict(described)


class PayModel:
    """Least squares of log pay on sex, race, age, age², education, agency and occupation, one year."""

    def __init__(self, raw: dict[str, Float]) -> None:
        age, schooling = (raw["age"] - 45) / 10, raw["education"] / 10
        fixed = [np.ones_like(age), age, age**2, schooling]
        for name in ("agency", "occupation"):
            fixed += [raw[name] == k for k in range(1, int(raw[name].max()) + 1)]
        self.fixed = np.column_stack(fixed).astype(np.float32)
        self.response = np.log(raw["pay"])
        self.within = (self.fixed.T @ self.fixed).astype(np.float64)
        self.told = self.fixed.T.astype(np.float64) @ self.response

    def coefficients(self, made: Codes) -> Float:
        """Coefficients of being a woman and of race A to D."""
        groups = np.column_stack([made["sex"] == 0, *(made["race"] == k for k in range(4))]).astype(np.float32)
        cross = (groups.T @ self.fixed).astype(np.float64)
        left = np.block([[(groups.T @ groups).astype(np.float64), cross], [cross.T, self.within]])
        right = np.concatenate([groups.T.astype(np.float64) @ self.response, self.told])
        return np.asarray(np.linalg.lstsq(left, right, rcond=None)[0][:5])


def sex_by_place(raw: dict[str, Float], made: Codes) -> Float:
    """Logistic regression of sex on agency and occupation: their effects, each against its mean."""
    cells = [raw[n].astype(np.int64) for n in ("agency", "occupation")]
    sizes = [int(c.max()) + 1 for c in cells]
    keys, index = np.unique(cells[0] * sizes[1] + cells[1], return_inverse=True)
    both = np.arange(2)
    terms = [LabelTerm(np.zeros(len(keys), dtype=np.int64), 1, both, 2)]
    terms += [LabelTerm(c, s, both, 2) for c, s in zip((keys // sizes[1], keys % sizes[1]), sizes, strict=True)]
    design = PublicDesign(tuple(terms), np.bincount(index), 2)
    tables = [np.bincount(t.cell[index] * 2 + made["sex"], minlength=t.cells * 2).reshape(-1, 2) for t in terms]
    penalties = tuple(Penalty(t.cells, 1, fixed=FREE) for t in terms)
    found = estimate_effects(
        EffectEquations(design, design.statistics(tables), (0.0,) * 3, penalties, (True,) * 3)
    ).effects
    return np.concatenate([found[s] - found[s].mean() for s in design.slices[1:]])


def pay(rows: int, results: Path, only: str = "", year: int | None = None) -> bool:
    """All four years at once, or one year at a time; results of other years and methods are kept."""
    asked = personnel.YEARS if year is None else (year,)
    file = results / "labellers-pay.csv"
    lines: dict[tuple[str, str], list[object]] = {}
    if file.exists():
        with file.open(newline="") as old:
            lines = {(line[0], line[2]): [*line] for line in list(csv.reader(old))[1:]}

    def keep(method: str, found: Float) -> None:
        for y, values in zip(asked, found, strict=True):
            lines[method, str(y)] = [method, rows, y, *(f"{v:.5f}" for v in values)]

    table, _ = personnel.simulate(rows)
    table = table.filter(np.isin(table["year"].to_numpy(), asked))
    raw: dict[str, Float] = {}
    for name in ("age", "education", "pay", "agency", "occupation", "year"):
        values = table[name].combine_chunks()
        raw[name] = (values.indices if hasattr(values, "indices") else values).to_numpy().astype(np.float64)
    years = [np.flatnonzero(raw["year"] == y) for y in asked]
    inside = [{n: v[y] for n, v in raw.items()} for y in years]
    models = [PayModel(r) for r in inside]
    print(f"{rows:,} rows per year, ε = 0.75 per year, sex and race jointly")
    runs: list[tuple[str, Schema, LogLinear | Forest, bool]] = [
        (
            "log-linear, planned analysis",
            analyst_schema(),
            LogLinear(["sex", "race"], analyses=[ANALYSIS], strata="year"),
            True,
        ),
        ("log-linear, default", analyst_schema(), LogLinear(["sex", "race"], strata="year"), False),
        ("forest, default", analyst_schema(), Forest(["sex", "race"], strata="year"), False),
        (
            "log-linear, $5,000 grid, 13 occupations",
            personnel.schema(),
            LogLinear(["sex", "race"], strata="year"),
            False,
        ),
    ]
    fine, shown = True, False
    for name, schema, method, required in [r for r in runs if only in r[0]]:
        encoder = Encoder(schema, schema.names)
        codes = Codes.concatenate([encoder.encode(batch)[0] for batch in table.to_batches()])
        authentic = np.array([m.coefficients(codes.take(y)) for m, y in zip(models, years, strict=True)])
        if not shown:
            for y, line in zip(asked, authentic, strict=True):
                print(f"  authentic {y}     " + "".join(f"{n} {v:+.4f}   " for n, v in zip(NAMES, line, strict=True)))
            keep("authentic", authentic)
            shown = True
        start = time.process_time()
        model = method.fit(Curator.rehearse(codes, PureDP("0.75"), seed=asked[0]))
        made = model.label(codes.project(schema.public), seed=1)
        seconds = time.process_time() - start
        found = np.array([m.coefficients(made.take(y)) for m, y in zip(models, years, strict=True)])
        keep(name, found)
        print(f"  {name} ({seconds:.0f} s of processor time)")
        for y, line in zip(asked, found, strict=True):
            print(f"            {y}     " + "".join(f"{n} {v:+.4f}   " for n, v in zip(NAMES, line, strict=True)))
        excess = np.abs(found - authentic) / np.maximum(0.005, 0.1 * np.abs(authentic))
        places = [[sex_by_place(r, c.take(y)) for c in (codes, made)] for r, y in zip(inside, years, strict=True)]
        agree = min(np.corrcoef(a, b)[0, 1] for a, b in places)
        several = len(asked) > 1
        trend = np.corrcoef(authentic[:, 0], found[:, 0])[0, 1] if several else np.nan
        within = told("largest difference, as a share of max(0.005, 10 %)", float(excess.max()), 1.0)
        told("mean absolute difference", float(np.abs(found - authentic).mean()), 0.005)
        trend_kept = not several or told(
            "correlation of the sex coefficients over the years", float(trend), 0.95, larger=True
        )
        places_kept = told(
            "correlation of logistic effects of agency and occupation on sex", float(agree), 0.99, larger=True
        )
        fine &= not required or (within and trend_kept and places_kept)
    kept(results, "pay", ("method", "rows per year", "year", *NAMES), list(lines.values()))
    return fine


# --- scale ----------------------------------------------------------------------------------------------

FANS = (60, 15, 50, 40, 60, 2)
LABELS = 6


def scale_codes(n: int) -> Codes:
    attributes = [numbered(f"x{i}", s, ordered=i in (0, 2)) for i, s in enumerate(FANS)]
    schema = Schema("scale", (*attributes, numbered("y", LABELS, "private")), Unit(), "label")
    rng = np.random.default_rng(0)
    effects = [rng.normal(0, 0.4, (s, LABELS)) for s in FANS]
    parts = []
    for start in range(0, n, 1 << 17):
        rows = min(1 << 17, n - start)
        common = rng.normal(size=rows)
        codes = [np.clip((0.5 * common + rng.normal(size=rows) + 3) / 6 * s, 0, s - 1).astype(np.int64) for s in FANS]
        eta = sum(e[c] for e, c in zip(effects, codes, strict=True)) + rng.gumbel(size=(rows, LABELS))
        columns = {f"x{i}": c for i, c in enumerate(codes)} | {"y": eta.argmax(axis=1)}
        parts.append(Codes.of(schema, columns, rows))
    return Codes.concatenate(parts)


def scale_once(rows: int) -> None:
    codes = scale_codes(rows)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    wall, busy = time.perf_counter(), time.process_time()
    curator = Curator.rehearse(codes, PureDP("0.75"), seed=1)
    LogLinear(["y"]).fit(curator).label(codes.project(codes.schema.public), seed=1)
    spent = time.perf_counter() - wall, time.process_time() - busy
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{spent[0]} {spent[1]} {before} {peak}")


def scale() -> bool:
    found = {}
    for rows in (1_300_000, 10_000_000):
        run = [sys.executable, str(Path(__file__)), "--once", str(rows)]
        text = subprocess.run(run, check=True, capture_output=True, text=True).stdout
        wall, busy, before, peak = (float(x) for x in text.split())
        found[rows] = busy
        print(
            f"  {rows:,} rows: fit + label {wall:.1f} s, {busy:.1f} s of processor time, {peak:.0f} MB at most ({before:.0f} MB of rows)"
        )
        if rows == 1_300_000:
            fine = told("seconds of processor time for 1.3 million rows, one thread", busy, 20.0)
            fine &= told("GB at most", peak / 1024, 1.0)
    growth = found[10_000_000] / found[1_300_000] / (10 / 1.3)
    return told("time from 1.3 to 10 million rows against linear", growth, 1.3) and fine


# --- figures --------------------------------------------------------------------------------------------

SHOWN = {"log-linear, planned analysis": "log-linear", "forest, default": "forest"}


def figures(results: Path, folder: Path) -> bool:
    """Draw what results are kept."""
    from dipsmith.report.canvas import standalone

    for name, drawn in (("adult", drawn_losses), ("pay", drawn_pay)):
        kept_in = results / f"labellers-{name}.csv"
        if not kept_in.exists():
            print(f"  {kept_in} is missing: run the part first")
            continue
        with kept_in.open(newline="") as file:
            (folder / f"labellers-{name}.svg").write_text(standalone(drawn(list(csv.DictReader(file)))))
        print(f"  {folder}/labellers-{name}.svg")
    return True


def drawn_losses(table: Sequence[dict[str, str]]) -> str:
    """Held-out log loss against ε, a panel for each target."""
    from dipsmith.report.figures import ChartLine, Trend, trends

    panels = []
    for target in ("sex", "race"):
        rows = [r for r in table if r["target"] == target]
        losses = {n: np.array([float(r[n]) for r in rows]) for n in COMPARED}
        made = [ChartLine(n, losses[n]) for n in ("log-linear", "forest", "memo's best", "marginal")]
        panels.append(Trend(f"{target}, against ε", ChartLine("boosted", losses["boosted"]), made))
    epsilons = [r["epsilon"] for r in table if r["target"] == "sex"]
    drawn = trends(epsilons, panels, "held-out log loss, nats", zero=False)
    return drawn.replace(">authentic<", ">boosted<")


def drawn_pay(table: Sequence[dict[str, str]]) -> str:
    """Coefficients over the years, a panel for each."""
    from dipsmith.report.figures import ChartLine, Trend, trends

    panels = []
    for name in NAMES:
        by = {m: np.array([float(r[name]) for r in table if r["method"] == m]) for m in ("authentic", *SHOWN)}
        lines = [ChartLine(short, by[m]) for m, short in SHOWN.items()]
        panels.append(Trend(name, ChartLine("authentic", by["authentic"]), lines))
    return trends([str(y) for y in personnel.YEARS], panels, "coefficient of log pay")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help="adult, interactions, personnel, scale, figures; default: all")
    beside = Path(__file__).resolve().parents[2] / "shared" / "data" / "adult.csv"
    parser.add_argument("--adult", type=Path, default=Path(os.environ.get("DIPSMITH_ADULT", beside)))
    parser.add_argument("--rows", type=int, default=1_000_000, help="personnel: rows per year")
    parser.add_argument("--year", type=int, choices=personnel.YEARS, help="personnel: one year alone")
    parser.add_argument("--only", default="", help="personnel: methods whose name has this in it")
    parser.add_argument("--results", type=Path, default=Path(__file__).resolve().parent / "results")
    parser.add_argument("--once", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once:
        scale_once(options.once)
        return 0
    parts: dict[str, Callable[[], bool]] = {
        "adult": lambda: adult(options.adult, options.results),
        "interactions": interactions,
        "personnel": lambda: pay(options.rows, options.results, options.only, options.year),
        "scale": scale,
        "figures": lambda: figures(options.results, Path(__file__).resolve().parents[1] / "docs" / "images"),
    }
    fine = True
    for name in options.parts or parts:
        if name not in parts:
            parser.error(f"unknown part '{name}'; there are: {', '.join(parts)}")
        print(f"\n--- {name} ---", flush=True)
        fine &= parts[name]()
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
