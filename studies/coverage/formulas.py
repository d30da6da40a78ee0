"""Random regressions on random populations: what `dipsmith.fit` accepts, and how often it then holds the truth.

Each number is a population of five columns that depend on one another by chance, and a formula made by chance: response,
terms, perhaps a product, perhaps a fixed effect. It is asked of five releases, by methods drawn from five families.
"""

from __future__ import annotations

import csv
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from studies.coverage.methods import METHODS, PLANS
from studies.coverage.people import FIRST, Population, category, number
from studies.coverage.tally import Asked, Question

import dipsmith as ds
from dipsmith.errors import DipsmithError

RESULTS = Path(__file__).parent / "formulas.csv"
FORMULAS, ROWS, SIZE, REPLICATES = 200, 3000, 60_000, 20
EPSILONS = ("0.5", "1", "3")
LETTERS = {"g": "pqr", "b": "01", "c": "01"}
NUMBERS = {"x": 3, "y": 5}
KINDS = ("one table of all columns", "tables that the method chose", "whole rows, planned", "labels, planned", "labels")


@dataclass(frozen=True)
class Answer:
    """What one release said to one formula."""

    number: int
    kind: str
    method: str
    relation: str
    epsilon: str
    formula: str
    intervals: int
    held: int
    reason: str = ""


def population(random: np.random.Generator) -> Population:
    """Five columns, each by chance dependent on those before it."""
    columns: dict[str, Any] = {}
    before: list[np.ndarray[Any, Any]] = []
    for name in random.permutation([*LETTERS, *NUMBERS]).tolist():
        score = sum((random.normal(0, 0.5) * z for z in before), np.zeros(SIZE))
        if len(before) > 1 and random.random() < 0.5:
            one, other = random.choice(len(before), 2, replace=False)
            score = score + random.normal(0, 0.5) * before[one] * before[other]
        if name in NUMBERS:
            largest = NUMBERS[name]
            value = np.clip(np.round(largest / 2 + score + random.normal(0, 0.25 * largest, SIZE)), 0, largest)
            columns[name] = value.astype(int)
        else:
            ends = random.normal(0, 0.4, len(LETTERS[name]))
            chance = score[:, None] * np.linspace(-0.7, 0.7, len(ends)) + ends + random.gumbel(size=(SIZE, len(ends)))
            value = chance.argmax(axis=1)
            columns[name] = np.array(list(LETTERS[name]))[value]
        before.append((value - value.mean()) / max(value.std(), 0.1))
    fields_ = [category(n, letters) for n, letters in LETTERS.items()] + [number(n, m) for n, m in NUMBERS.items()]
    return Population(pa.table({f["name"]: columns[f["name"]] for f in fields_}), tuple(fields_))


def formula(random: np.random.Generator) -> Question:
    """Response, one to three terms, perhaps a product of two, perhaps a fixed effect."""
    response = random.choice(["y", "x", "b", "c"])
    others = random.permutation([n for n in "gbcxy" if n != response]).tolist()
    terms = others[: random.integers(1, 4)]
    rest = others[len(terms) :]
    text = " + ".join(terms)
    if len(terms) > 1 and random.random() < 0.35:
        text = " + ".join([f"{terms[0]}*{terms[1]}", *terms[2:]])
    fixed = [n for n in rest if n in LETTERS]
    if response in NUMBERS and fixed and random.random() < 0.4:
        text += f" | {fixed[0]}"
    return Question("", f"{response} ~ {text}")


def ask(at: int) -> list[Answer]:
    """One formula, five releases."""
    random = np.random.default_rng([FIRST, at])
    people, question = population(random), formula(random)
    truth = people.truth(question.formula)
    named = [n for n in LETTERS if n in question.formula]
    found = []
    for i, kind in enumerate(KINDS):
        pool = (("flat", "steps", "universal"), ("aim", "mst", "privbayes", "marginals", "forest"), PLANS)
        method = str(random.choice(("loglinear", "forest") if i > 2 else pool[i]))
        epsilon, relation = str(random.choice(EPSILONS)), str(random.choice(["replace", "add-remove"]))
        private = (str(random.choice(named or ["b"])),) if i > 2 else ()
        relation = "label" if private else relation
        table = people.sample(ROWS, FIRST + 10 * at + i)
        asked = _asked(people, table, question, (method, relation, private, epsilon, "planned" in kind), 10 * at + i)
        told = [(truth[n], low, high) for n, low, high in asked.intervals() if n != "Intercept"]
        held = sum(low <= value <= high for value, low, high in told)
        facts = (at, kind, method, relation, epsilon, question.formula, len(told), held)
        found.append(Answer(*facts, asked.reason[:120]))
    return found


def _asked(
    people: Population,
    table: pa.Table,
    question: Question,
    how: tuple[str, str, tuple[str, ...], str, bool],
    seed: int,
) -> Asked:
    method, relation, private, epsilon, planned = how
    made = METHODS[method](targets=list(private)) if private else METHODS[method]()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            release = ds.synthesize(
                table,
                people.schema(relation, private),
                made,
                budget=ds.PureDP(epsilon),
                analyses=[question.planned] if planned else [],
                testing=True,
                noise_seed=FIRST + seed,
            )
    except DipsmithError as refused:
        return Asked(None, " ".join(f"cannot be planned: {refused}".split()))
    return Asked.of(release, question, replicates=REPLICATES, seed=seed)


def step() -> bool:
    """Ask ten more formulas; False where there are enough."""
    done = read()
    first = max((a.number for a in done), default=-1) + 1
    if first >= FORMULAS:
        return False
    started = time.process_time()
    write([*done, *(answer for at in range(first, first + 10) for answer in ask(at))])
    print(f"{time.process_time() - started:6.1f} s  formulas {first}", flush=True)
    return True


def read(path: Path = RESULTS) -> list[Answer]:
    """The answers of earlier runs."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as held:
        whole = ("number", "intervals", "held")
        return [Answer(**{k: int(v) if k in whole else v for k, v in row.items()}) for row in csv.DictReader(held)]


def write(answers: Sequence[Answer], path: Path = RESULTS) -> None:
    """Write all answers."""
    with path.open("w", encoding="utf-8", newline="") as held:
        writer = csv.DictWriter(held, [f.name for f in fields(Answer)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(a) for a in answers)


TEXT = """## Random formulas

{formulas} regressions made by chance, each on a population of its own whose five columns depend on one another by chance: one to
three terms, products, fixed effects, least squares and logistic; {rows:,} rows, ε of .5, 1 or 3. Each is asked of five
releases of different kinds. *Covers* counts all coefficients of accepted regressions; its error lets coefficients of one
formula depend on one another.

{table}

{verdict}
"""


def tell(answers: Sequence[Answer]) -> str:
    """The section of the page."""
    shown = ["| release | asked | accepted | intervals | covers |", "|---|---|---|---|---|"]
    for kind in KINDS:
        shown.append(_line(kind, [a for a in answers if a.kind == kind]))
    shown.append(_line("all", answers))
    asked = len({a.number for a in answers})
    refused = [a for a in answers if not a.intervals]
    verdict = (
        f"Refused were {len(refused):,} of {len(answers):,}: what no noisy table held, what noise had swamped, and odds under `label` whose "
        "response is public, which sums of labels do not tell."
    )
    return TEXT.format(formulas=asked, rows=ROWS, table="\n".join(shown), verdict=verdict)


def coverage(answers: Sequence[Answer]) -> tuple[float, float]:
    """The share of intervals that hold the truth, and its standard error over formulas."""
    numbers = sorted({a.number for a in answers if a.intervals})
    each = np.array(
        [[sum(getattr(a, f) for a in answers if a.number == n) for f in ("held", "intervals")] for n in numbers]
    )
    if not len(each):
        return float("nan"), float("nan")
    share = each[:, 0].sum() / each[:, 1].sum()
    off = each[:, 0] - share * each[:, 1]
    return float(share), float(np.sqrt((off**2).sum()) / each[:, 1].sum())


def _line(kind: str, answers: Sequence[Answer]) -> str:
    share, error = coverage(answers)
    accepted, intervals = sum(a.intervals > 0 for a in answers), sum(a.intervals for a in answers)
    covers = f"{share:.3f} ± {1.96 * error:.3f}".replace("0.", ".") if intervals else "–"
    return f"| {kind} | {len(answers):,} | {accepted:,} | {intervals:,} | {covers} |"
