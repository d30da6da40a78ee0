"""Tallies: how often an interval was given and held the truth, cell by cell, added up over pieces of a study."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np

import dipsmith as ds
from dipsmith.errors import NotCarried
from dipsmith.inference.fit import Fit

HERE = Path(__file__).parent
TALLIES = HERE / "methods.csv"
FRESH = HERE / "fresh.csv"


@dataclass(frozen=True)
class Tally:
    """One coefficient of one cell.

    Attributes
    ----------
    method, relation, planned, epsilon, estimand, coefficient
        The cell; `coefficient` is "(none)" for runs that were refused.
    runs
        Releases in which it was asked: given an interval, or refused.
    intervals, held
        Intervals that were given, and those of them that held the truth.
    relative
        The sum of their widths, each in units of the authentic rows' own interval.
    seconds
        Processor time, with the cell's share of the release.
    reason
        Of the first refusal.
    """

    method: str
    relation: str
    planned: bool
    epsilon: str
    estimand: str
    coefficient: str
    runs: int
    intervals: int
    held: int
    relative: float
    seconds: float
    reason: str = ""

    @property
    def case(self) -> tuple[str, str, bool, str]:
        """Which releases."""
        return self.method, self.relation, self.planned, self.epsilon

    @property
    def key(self) -> tuple[object, ...]:
        """Which coefficient of which cell."""
        return (*self.case, self.estimand, self.coefficient)

    def __add__(self, other: Tally) -> Tally:
        return replace(
            self,
            runs=self.runs + other.runs,
            intervals=self.intervals + other.intervals,
            held=self.held + other.held,
            relative=round(self.relative + other.relative, 4),
            seconds=round(self.seconds + other.seconds, 3),
            reason=self.reason or other.reason,
        )


REFUSED = "(none)"


@dataclass(frozen=True)
class Question:
    """What is asked of a release: a name for print, a formula, and how it is fitted."""

    name: str
    formula: str
    family: Any = "auto"

    @property
    def planned(self) -> dict[str, str]:
        """As a steward plans it."""
        return {"formula": self.formula} | ({} if self.family == "auto" else {"model": self.family})


@dataclass(frozen=True, eq=False)
class Asked:
    """What a release said to a question: coefficients with intervals, or the sentence that refused them."""

    fit: Fit | None
    reason: str = ""

    @classmethod
    def of(cls, release: ds.Release, question: Question, *, replicates: int, seed: int) -> Asked:
        """Ask as a researcher does."""
        try:
            found = ds.fit(release, question.formula, family=question.family, replicates=replicates, seed=seed)
        except NotCarried as refused:
            return cls(None, " ".join(str(refused).split()))
        return cls(found)

    def intervals(self) -> Iterable[tuple[str, float, float]]:
        """Coefficients that have an interval: name, low, high."""
        if self.fit is not None:
            low, high = self.fit.combined.interval
            for name, one, other in zip(self.fit.names, low.tolist(), high.tolist(), strict=True):
                if np.isfinite(one) and np.isfinite(other):
                    yield name, one, other


def counted(
    case: tuple[str, str, bool, str],
    question: Question,
    asked: Asked,
    truth: Mapping[str, float],
    widths: Mapping[str, float],
    seconds: float,
) -> list[Tally]:
    """One run as tallies: each coefficient by itself; a slope is what a regression is asked for, an intercept what a mean is."""
    told = {name: (low, high) for name, low, high in asked.intervals()}
    wanted = [n for n in truth if n != "Intercept"] or ["Intercept"]
    found = []
    for name in wanted:
        if name in told:
            low, high = told[name]
            held = int(low <= truth[name] <= high)
            relative = (high - low) / widths[name]
            found.append(Tally(*case, question.name, name, 1, 1, held, relative, seconds / len(wanted)))
    if len(found) < len(wanted):
        reason = asked.reason or "no interval for some of its coefficients"
        found.append(Tally(*case, question.name, REFUSED, 1, 0, 0, 0.0, seconds if not found else 0.0, reason))
    return found


def merged(tallies: Iterable[Tally]) -> list[Tally]:
    """One tally for each coefficient of each cell."""
    found: dict[tuple[object, ...], Tally] = {}
    for one in tallies:
        found[one.key] = found[one.key] + one if one.key in found else one
    return list(found.values())


def read(path: Path = TALLIES) -> list[Tally]:
    """The tallies of earlier runs; none where there is no file."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as held:
        return [
            Tally(
                row["method"],
                row["relation"],
                row["planned"] == "True",
                row["epsilon"],
                row["estimand"],
                row["coefficient"],
                int(row["runs"]),
                int(row["intervals"]),
                int(row["held"]),
                float(row["relative"]),
                float(row["seconds"]),
                row["reason"],
            )
            for row in csv.DictReader(held)
        ]


def write(tallies: Sequence[Tally], path: Path = TALLIES) -> None:
    """Write all tallies, sorted."""
    with path.open("w", encoding="utf-8", newline="") as held:
        writer = csv.DictWriter(held, [f.name for f in fields(Tally)], lineterminator="\n")
        writer.writeheader()
        for one in sorted(tallies, key=lambda t: tuple(map(str, t.key))):
            writer.writerow(asdict(one))


def wilson(held: float, asked: float) -> tuple[float, float]:
    """Wilson's 95 % interval of a share.

    >>> tuple(round(end, 3) for end in wilson(950, 1000))
    (0.935, 0.962)
    """
    z, share = 1.959964, held / asked
    centre = (share + z**2 / (2 * asked)) / (1 + z**2 / asked)
    half = z / (1 + z**2 / asked) * sqrt(share * (1 - share) / asked + (z / (2 * asked)) ** 2)
    return max(0.0, centre - half), min(1.0, centre + half)
