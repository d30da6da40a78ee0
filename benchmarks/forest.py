"""The forest against a recursive one, scikit-learn and the forest of the Duke memos.

    python benchmarks/forest.py speed        # fit and label 1.3 million rows; memory; growth with the rows
    python benchmarks/forest.py adult        # held-out log loss over ε, n_B and trees (--adult PATH)
    python benchmarks/forest.py personnel    # coefficients of log pay, four years (--rows per year)

Without a part all three are run. Times are CPU seconds of one process. Ratios are within one run.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dipsmith.codec.encode import Encoder
from dipsmith.examples import personnel
from dipsmith.methods.forest.forest import Forest
from dipsmith.privacy.budget import PureDP
from dipsmith.privacy.curator import Curator
from dipsmith.schema import Attribute, Categories, Codes, Marginal, Schema, Unit

MEMO = {"shrink": False, "marginal_share": 0.0, "order_share": 0.0}
"""Plain leaves, all of ε in the leaves: the memos' forest, with an explicit relation and none of its leaks."""

MEMO_FLOOR = 0.01
"""No probability of the memos' forest below this: without it, its log loss would be infinite."""


def column(name: str, size: int, role: str = "public") -> Attribute:
    values = [str(v) for v in range(size)]
    return Attribute(name, "string", Categories.of(values, other="0"), role)  # type: ignore[arg-type]


# --- speed ----------------------------------------------------------------------------------------

FANS = (60, 15, 50, 40, 60, 2)
LABELS = 6
NAMES = tuple(f"x{i}" for i in range(len(FANS)))
SPEED = Schema(
    "speed",
    (*(column(n, s) for n, s in zip(NAMES, FANS, strict=True)), column("y", LABELS, "private")),
    Unit(),
    "label",
)


def simulated(n: int, seed: int) -> Codes:
    """Skewed predictors with main effects on six labels."""
    rng = np.random.default_rng(seed)
    columns = {}
    for name, fan in zip(NAMES, FANS, strict=True):
        share = np.arange(1, fan + 1) ** -0.7 if fan > 2 else np.ones(2)
        columns[name] = rng.choice(fan, n, p=share / share.sum()).astype(np.uint8)
    effects = np.random.default_rng(0)
    odds = np.zeros((n, LABELS), dtype=np.float32)
    for name, fan in zip(NAMES, FANS, strict=True):
        odds += effects.normal(0, 0.4, (fan, LABELS)).astype(np.float32)[columns[name]]
    odds += rng.gumbel(size=odds.shape).astype(np.float32)
    return Codes.of(SPEED, {**columns, "y": odds.argmax(axis=1)})


def recursive(
    public: NDArray[np.uint8],
    private: NDArray[np.uint8],
    y: NDArray[np.uint8],
    n_b: int,
    epsilon: float,
    rng: np.random.Generator,
    used: frozenset[int] = frozenset(),
) -> object:
    """The tree as one writes it down first: a call per branch, a mask per label."""
    free = [j for j in range(len(FANS)) if j not in used]
    if len(public) < n_b or not free:
        counts = np.maximum(np.bincount(y, minlength=LABELS) + rng.laplace(0, 2 / epsilon, LABELS), 0)
        return counts / counts.sum() if counts.sum() > 0 else np.full(LABELS, 1 / LABELS)
    j = free[rng.integers(len(free))]
    children = []
    for label in range(FANS[j]):
        here, there = public[:, j] == label, private[:, j] == label
        children.append(recursive(public[here], private[there], y[there], n_b, epsilon, rng, used | {j}))
    return j, children


def recursive_labels(node: object, rows: NDArray[np.uint8], index: NDArray[np.int64], p: NDArray[np.float64]) -> None:
    if isinstance(node, np.ndarray):
        p[index] += node
        return
    assert isinstance(node, tuple)
    j, children = node
    for label, child in enumerate(children):
        here = rows[:, j] == label
        if here.any():
            recursive_labels(child, rows[here], index[here], p)


def spent(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def least(work: Callable[[], object]) -> float:
    """The shorter of two runs: what other work on the machine adds is not ours, nor the peers'."""
    return min(spent(work) for _ in range(2))


def ours(private: Codes, public: Codes, n_b: int, trees: int = 10) -> None:
    curator = Curator.rehearse(private, PureDP(1), seed=1)
    model = Forest(["y"], trees=trees, n_b=n_b, weights=None).fit(curator)
    model.label(public, seed=1)


def speed(rows: int = 1_300_000) -> bool:
    from sklearn.ensemble import ExtraTreesClassifier

    private, public = simulated(rows, 1), simulated(rows, 2).project(NAMES)
    table = {c: np.stack([c[n] for n in NAMES], axis=1) for c in (private, public)}
    y = np.asarray(private["y"], dtype=np.uint8)
    rng = np.random.default_rng(1)

    def reference(n_b: int) -> None:
        tree = recursive(table[public], table[private], y, n_b, 0.1, rng)
        p = np.zeros((rows, LABELS))
        recursive_labels(tree, table[public], np.arange(rows), p)
        (np.cumsum(p, axis=1) < rng.random(rows)[:, None]).sum(axis=1)

    def peer() -> None:
        model = ExtraTreesClassifier(n_estimators=10, max_features=1, max_depth=6, random_state=1)
        model.fit(table[private], y).predict_proba(table[public])

    ours(private.take(slice(0, 10_000)), public.take(slice(0, 10_000)), 500)  # warm the noise tables
    print(f"10 trees, {rows:,} private and {rows:,} public rows, fit and label all; CPU seconds")
    mine = {n_b: least(lambda n_b=n_b: ours(private, public, n_b)) for n_b in (500, 25)}
    scikit = least(peer)
    fine = True
    for n_b, wanted in ((500, 10), (25, 40)):
        slow = 10 * least(lambda n_b=n_b: reference(n_b))
        fine &= told(
            f"n_B = {n_b}: recursive {slow:.0f} (one tree × 10), ours {mine[n_b]:.1f}",
            slow / mine[n_b],
            wanted,
            larger=True,
        )
    fine &= told(f"scikit-learn ExtraTrees {scikit:.1f} against ours {mine[500]:.1f}", mine[500] / scikit, 1.0)
    fine &= told("peak memory at n_B = 500, MB", peak_memory(rows), 500)
    factor = 10_000_000 / rows
    large = simulated(10_000_000, 1)
    grown = spent(lambda: ours(large, large.project(NAMES), 500)) / mine[500] / factor
    fine &= told(f"{rows:,} to 10,000,000 rows: time per row grows by", grown, 1.3)
    return fine


def peak_memory(rows: int) -> float:
    """Megabytes resident at most, of a process that only loads the rows, fits and labels."""
    with tempfile.TemporaryDirectory() as folder:
        for seed in (1, 2):
            np.savez(Path(folder) / f"{seed}.npz", **dict(simulated(rows, seed).columns))
        child = [sys.executable, __file__, "--child", folder]
        return float(subprocess.run(child, check=True, capture_output=True, text=True).stdout)


def child(folder: str) -> None:
    private, public = (
        Codes.of(SPEED, dict(np.load(Path(folder) / f"{seed}.npz", allow_pickle=False))) for seed in (1, 2)
    )
    ours(private, public.project(NAMES), 500)
    # Not getrusage: a child begins with the peak of the process that started it.
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line)
    print(int(peak.split()[1]) / 1024)


def told(what: str, found: float, wanted: float, *, larger: bool = False) -> bool:
    fine = found >= wanted if larger else found <= wanted
    sign = "≥" if larger else "≤"
    print(f"  {'ok  ' if fine else 'MISS'} {what}: {found:.3g} (wanted {sign} {wanted:g})", flush=True)
    return fine


# --- utility on Adult -----------------------------------------------------------------------------

EPSILONS = ("0.1", "0.75", "3")
SPLITS = (10, 25, 100, 500, 1000, 5000)
TREES = (1, 3)
SEEDS = 5


def adult_codes(path: Path) -> Codes:
    """Age in 5-year bins, hours in 10-hour bins, the rest as they are; sex and race private."""
    import pandas as pd

    table = pd.read_csv(path, keep_default_na=False, skipinitialspace=True)
    columns: dict[str, NDArray[np.int64]] = {"age": np.clip((table["age"].to_numpy() - 15) // 5, 0, 15)}
    attributes = [column("age", 16)]
    for name in ("workclass", "education", "marital-status", "occupation"):
        codes = pd.Categorical(table[name])
        columns[name] = codes.codes.astype(np.int64)
        attributes.append(column(name, len(codes.categories)))
    columns["hours"] = np.clip(table["hours-per-week"].to_numpy() // 10, 0, 9)
    attributes.append(column("hours", 10))
    for name in ("sex", "race"):
        codes = pd.Categorical(table[name])
        columns[name] = codes.codes.astype(np.int64)
        attributes.append(column(name, len(codes.categories), "private"))
    return Codes.of(Schema("adult", tuple(attributes), Unit(), "label"), columns)


def loss(p: NDArray[np.float64], codes: Codes, target: str) -> float:
    return float(-np.log(p[np.arange(len(codes)), codes[target]]).mean())


def fitted_loss(forest: Forest, epsilon: str, half: tuple[Codes, Codes], seed: int, floor: float = 0) -> float:
    train, test = half
    model = forest.fit(Curator.rehearse(train, PureDP(epsilon), seed=seed))
    p = np.maximum(model.probabilities(test.project(test.schema.public)), floor)
    assert forest.targets
    return loss(p / p.sum(axis=1, keepdims=True), test, forest.targets[0])


def marginal_loss(target: str, epsilon: str, half: tuple[Codes, Codes], seed: int) -> float:
    """The label marginal bought with the whole ε."""
    train, test = half
    curator = Curator.rehearse(train, PureDP(epsilon), seed=seed)
    (table,) = curator.measure([Marginal.of(train.schema, [target])], [PureDP(epsilon)])
    share = np.maximum(table.values, 0.5)
    return loss(np.tile(share / share.sum(), (len(test), 1)), test, target)


def boosted_loss(target: str, half: tuple[Codes, Codes]) -> float:
    from sklearn.ensemble import HistGradientBoostingClassifier

    train, test = half
    names = train.schema.public
    known, asked = (np.stack([c[n] for n in names], axis=1).astype(float) for c in half)
    model = HistGradientBoostingClassifier(categorical_features=[True] * len(names), max_iter=60, random_state=0)
    return loss(model.fit(known, train[target]).predict_proba(asked), test, target)


def adult(path: Path | None) -> bool:
    if path is None or not path.exists():
        print("  not tested: give the public Adult extract with --adult PATH or DIPSMITH_ADULT")
        return True
    codes = adult_codes(path)
    halves = []
    for seed in range(SEEDS):
        order = np.random.default_rng(seed).permutation(len(codes))
        cut = len(codes) // 2
        halves.append((codes.take(order[:cut]), codes.take(order[cut:])))
    fine = True
    for target in ("sex", "race"):
        fine &= adult_target(target, halves)
    return fine


def adult_target(target: str, halves: Sequence[tuple[Codes, Codes]]) -> bool:
    limit = np.mean([boosted_loss(target, half) for half in halves])
    print(f"\n{target}: held-out log loss, mean of {SEEDS} halves; boosted trees without privacy {limit:.4f}")
    print("     ε  trees        " + "".join(f"{f'n_B={n}':>9}" for n in SPLITS))
    best: dict[str, float] = {}
    default: dict[str, float] = {}
    worst_marginal = worst_memo = -np.inf
    for epsilon in EPSILONS:
        marginal = mean_over(halves, lambda h, s, e=epsilon: marginal_loss(target, e, h, s))
        lines: dict[tuple[int, str], list[float]] = {}
        for trees, n_b in product(TREES, SPLITS):
            memo = Forest([target], trees=trees, n_b=n_b, weights=None, **MEMO)  # type: ignore[arg-type]
            mine = Forest([target], trees=trees, n_b=n_b)
            lines.setdefault((trees, "memo"), []).append(
                mean_over(halves, lambda h, s, f=memo, e=epsilon: fitted_loss(f, e, h, s, MEMO_FLOOR))
            )
            lines.setdefault((trees, "ours"), []).append(
                mean_over(halves, lambda h, s, f=mine, e=epsilon: fitted_loss(f, e, h, s))
            )
        for (trees, who), found in lines.items():
            print(f"{epsilon:>6} {trees:>6}  {who:<10}" + "".join(f"{x:9.4f}" for x in found), flush=True)
        for trees in TREES:
            gaps = np.subtract(lines[trees, "ours"], lines[trees, "memo"])
            worst_memo = max(worst_memo, float(gaps.max()))
            worst_marginal = max(worst_marginal, max(lines[trees, "ours"]) - marginal)
        best[epsilon] = min(min(lines[trees, "memo"]) for trees in TREES)
        default[epsilon] = mean_over(halves, lambda h, s, e=epsilon: fitted_loss(Forest([target]), e, h, s))
        print(
            f"{epsilon:>6}         marginal {marginal:.4f}, memo's best {best[epsilon]:.4f}, "
            f"our default {default[epsilon]:.4f}"
        )
    fine = told("ours minus the private marginal, worst", worst_marginal, 0.01)
    fine &= told("ours minus the memo's forest at the same setting, worst", worst_memo, 0.005)
    for epsilon in EPSILONS:
        fine &= told(f"ε = {epsilon}: default minus the memo's best", default[epsilon] - best[epsilon], 0.002)
    margin = 0.0 if target == "sex" else 0.01
    return fine & told("default at ε = 0.75 minus the memo's best at 3", default["0.75"] - best["3"], margin)


def mean_over(halves: Sequence[tuple[Codes, Codes]], one: Callable[[tuple[Codes, Codes], int], float]) -> float:
    return float(np.mean([one(half, seed) for seed, half in enumerate(halves)]))


# --- coefficients of log pay ----------------------------------------------------------------------

TARGETS = ("sex", "race")
COEFFICIENTS = ("woman", "race A", "race B", "race C", "race D")

MEMO_B = [{"trees": t, "n_b": n, "weights": {"pay": float(w)}} for t, n, w in product((3, 6), (25, 500), (1, 10, 40))]
MEMO_A = [
    {"trees": t, "n_b": n, "weights": w}
    for t, n, w in product(
        (5, 10),
        (1000, 2000),
        ({"occupation": 20.0, "pay": 10.0}, {"agency": 60.0, "occupation": 20.0}, {"occupation": 60.0}),
    )
]


class PayModel:
    """Least squares of log pay on sex, race, age, age², education, agency and occupation, one year."""

    def __init__(self, table: Mapping[str, NDArray[np.float64]]) -> None:
        age, schooling = (table["age"] - 45) / 10, table["education"] / 10
        fixed = [np.ones_like(age), age, age**2, schooling]
        for name in ("agency", "occupation"):
            fixed += [table[name] == k for k in range(1, int(table[name].max()) + 1)]
        self.fixed = np.column_stack(fixed).astype(np.float32)
        self.response = np.log(table["pay"])
        self.within = (self.fixed.T @ self.fixed).astype(np.float64)
        self.told = self.fixed.T.astype(np.float64) @ self.response

    def coefficients(self, sex: NDArray[np.integer], race: NDArray[np.integer]) -> NDArray[np.float64]:
        """Coefficients of being a woman and of race A to D."""
        groups = np.column_stack([sex == 0, *(race == k for k in range(4))]).astype(np.float32)
        cross = (groups.T @ self.fixed).astype(np.float64)
        own = (groups.T @ groups).astype(np.float64)
        left = np.block([[own, cross], [cross.T, self.within]])
        right = np.concatenate([groups.T.astype(np.float64) @ self.response, self.told])
        return np.asarray(np.linalg.lstsq(left, right, rcond=None)[0][:5])


def pay(rows: int) -> bool:
    table, _ = personnel.simulate(rows)
    schema = personnel.schema()
    encoder = Encoder(schema, schema.names)
    codes = Codes.concatenate([encoder.encode(batch)[0] for batch in table.to_batches()])
    raw = {}
    for name in ("age", "education", "pay", "agency", "occupation"):
        column_ = table[name].combine_chunks()
        raw[name] = (column_.indices if hasattr(column_, "indices") else column_).to_numpy().astype(float)
    years = [np.flatnonzero(codes["year"] == y) for y in range(schema["year"].size)]
    models = [PayModel({name: values[here] for name, values in raw.items()}) for here in years]
    authentic = np.array(
        [m.coefficients(codes["sex"][y], codes["race"][y]) for m, y in zip(models, years, strict=True)]
    )
    print(f"{rows:,} rows per year, {len(years)} years, ε = 0.75 per year; mean over the years")
    print("  " + " " * 58 + "".join(f"{c:>9}" for c in COEFFICIENTS) + "   mean |difference|")
    shown("authentic", authentic, authentic)

    def tried(forest: Forest, epsilon: str = "0.75") -> float:
        model = forest.fit(Curator.rehearse(codes, PureDP(epsilon), seed=1))
        made = model.label(codes.project(schema.public), seed=1)
        found = np.array([m.coefficients(made["sex"][y], made["race"][y]) for m, y in zip(models, years, strict=True)])
        return shown(described(forest, epsilon), authentic, found)

    default = Forest(TARGETS, strata="year")
    mine = tried(default)
    tried(default, "1000")
    memos = []
    for settings in (*MEMO_B, *MEMO_A):
        memos.append(tried(Forest(TARGETS, strata="year", **settings, **MEMO)))  # type: ignore[arg-type]
    return told("mean absolute difference, ours against the best of the memos'", mine / min(memos), 1.0)


def described(forest: Forest, epsilon: str) -> str:
    if forest.shrink:
        return f"ours, default, ε = {epsilon}"
    assert isinstance(forest.weights, Mapping)
    weights = ", ".join(f"{k} {v:g}" for k, v in forest.weights.items())
    return f"memo, {forest.trees} trees, n_B = {forest.n_b}, {weights}"


def shown(name: str, authentic: NDArray[np.float64], found: NDArray[np.float64]) -> float:
    gap = float(np.abs(found - authentic).mean())
    print(f"  {name:<58}" + "".join(f"{x:9.4f}" for x in found.mean(axis=0)) + f"{gap:12.4f}", flush=True)
    return gap


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help="speed, adult, personnel; default: all")
    beside = Path(__file__).resolve().parents[2] / "shared" / "data" / "adult.csv"
    given = os.environ.get("DIPSMITH_ADULT")
    parser.add_argument("--adult", type=Path, default=Path(given) if given else beside)
    parser.add_argument("--rows", type=int, default=1_000_000, help="personnel: rows per year")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child)
        return 0
    parts: dict[str, Callable[[], bool]] = {
        "speed": speed,
        "adult": lambda: adult(options.adult),
        "personnel": lambda: pay(options.rows),
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
