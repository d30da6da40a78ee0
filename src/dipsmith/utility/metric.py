"""Metrics: what is measured of a release beside the authentic rows, registered by entry points.

`compare`, studies and other packages use the same objects. A package adds one by an entry point of the group
`dipsmith.metrics` that names a `Metric`; dipsmith's own are registered in the same way (`pyproject.toml`). A metric is a
number with what to hold it against, because a number alone means little. Its chapter, if it has one, shows it at length
in the report of a comparison; without one it is a line of the summary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from dipsmith import registry
from dipsmith.counting.households import HouseholdRoster
from dipsmith.errors import InputError, RegistryError
from dipsmith.report.content import Block, Cell
from dipsmith.schema import Codes, Schema
from dipsmith.synthesis.release import Release
from dipsmith.utility.crosstabs import Crosstabs
from dipsmith.utility.findings import Findings
from dipsmith.utility.matching import Matched
from dipsmith.utility.pair import Pair, released_codes
from dipsmith.utility.propensity import ROWS, Propensity, propensity

BY_CHANCE = "what chance alone gives"
ONE_IS_PERFECT, ZERO_IS_PERFECT = "1 is perfect", "0 is perfect"


@dataclass(frozen=True, eq=False)
class SideBySide:
    """A release and the authentic rows, with what several metrics need of them, computed once.

    Confidential by nature: whoever makes one has logged the look first.

    `fresh` rows are of the same population, and the release was not made from them. `classifiers` (names, or scikit-learn
    classifiers) try to tell the tables apart; `sensitive` columns are attacked, None for the synthesised ones; `matched` is a
    third file joined by an identifier. Every null distribution has so many `draws`. `third` is the column that panel (a)
    crosses with the targets, None for the longest list; `shown_pairs` are columns to be drawn within each other; `raw` has
    the authentic numbers and times themselves, None where nobody read them. Classifiers other than logistic main effects,
    and attackers, see at most so many `rows` of each table. `careers` are the authentic rows of a panel, linked;
    `households` the authentic ones with their members, where the release has some and they were read. Chapters that take
    long tell `progress` how much of them is done.
    """

    authentic: Codes
    release: Release
    schema: Schema
    fresh: pa.Table | None = None
    classifiers: tuple[Any, ...] = ("logistic",)
    sensitive: tuple[str, ...] | None = None
    matched: Matched | None = None
    draws: int = 20
    seed: int = 0
    third: str | None = None
    shown_pairs: tuple[tuple[str, str], ...] = ()
    raw: pa.Table | None = None
    rows: int = ROWS
    careers: Any = None
    households: HouseholdRoster | None = None
    progress: Callable[[float], None] = lambda share: None
    _scored: dict[tuple[str, int], Propensity] = field(default_factory=dict, repr=False)

    @cached_property
    def pairs(self) -> list[Pair]:
        """One pair of tables for each set of the release."""
        public = self.schema.public if self.schema.neighbours == "label" else ()
        sets = self.release.tables
        names = [n for n in self.authentic.names if all(n in t.column_names for t in sets)]
        authentic = self.authentic.project(names)
        return [Pair.of(authentic, released_codes(t, self.schema, names), public) for t in sets]

    @cached_property
    def tables(self) -> list[Crosstabs]:
        """The cross-tables of each set."""
        return [Crosstabs(pair, self.seed) for pair in self.pairs]

    def propensity(self, classifier: Any, i: int = 0) -> Propensity:
        """Propensity scores of a set; those of the first set come with a null distribution."""
        return propensity(self.pairs[i], classifier, draws=0 if i else self.draws, rows=self.rows, seed=self.seed)

    def cached_propensity(self, classifier: str, i: int = 0) -> Propensity:
        """The same, kept for the next metric that asks."""
        if (classifier, i) not in self._scored:
            self._scored[classifier, i] = self.propensity(classifier, i)
        return self._scored[classifier, i]


@dataclass(frozen=True)
class MetricValue:
    """One number: of which metric, coefficient and level it is, and what to hold it against."""

    metric: str
    value: float
    reference: float = float("nan")
    term: str = ""
    level: str = ""


@dataclass(frozen=True)
class Chapter:
    """A chapter of a comparison's report.

    `find` gives what it shows of one release, by the keys of comparison.json; `blocks` its content, from the findings of
    all releases (nothing leaves the chapter out); `lines` its lines of the summary for one release: what, value, and what
    chance alone would give. `place` is where it stands on the page: dipsmith's own chapters have 1 to 7; what has less than 1
    stands before the summary. Progress names it where it `applies`, and counts with its `effort`: how long it takes beside
    others.
    """

    heading: str
    find: Callable[[SideBySide], Mapping[str, Any]]
    blocks: Callable[[Sequence[Findings]], Sequence[Block]]
    lines: Callable[[Findings], Sequence[tuple[str, Cell, Cell]]] = lambda found: ()
    place: int = 8
    applies: Callable[[SideBySide], bool] = lambda both: True
    effort: float = 1.0


@dataclass(frozen=True)
class Metric:
    """A number of a release beside the authentic rows.

    Studies call it by its `name`, which is that of its entry point; `title` and `reference` say in words what it is and
    what it is held against. It gives a value; or the value and its reference; or several values, each with its level.
    Without a `chapter` it is a line of the summary.
    """

    name: str
    title: str
    better: Literal["lower", "higher", "target"]
    measure: Callable[[SideBySide], float | tuple[float, float] | list[MetricValue]]
    reference: str = BY_CHANCE
    chapter: Chapter | None = None

    def values(self, both: SideBySide) -> list[MetricValue]:
        """Measure, and put the name on every value."""
        found = self.measure(both)
        if isinstance(found, list):
            return [replace(v, metric=self.name) for v in found]
        value, reference = found if isinstance(found, tuple) else (found, float("nan"))
        return [MetricValue(self.name, float(value), float(reference))]


def mean_over_sets(function: Callable[[Codes, Codes], float]) -> Callable[[SideBySide], float]:
    """Turn a function of (authentic rows, synthetic rows) into a measure: its mean over the release's sets."""
    return lambda both: float(np.mean([function(pair.authentic, pair.synthetic) for pair in both.pairs]))


def metric(name: str) -> Metric:
    """The metric that is registered under a name."""
    known = registry.entry_points_of("metrics")
    if name not in known:
        close = get_close_matches(name, known, 1, 0.5)
        hint = f"did you mean '{close[0]}'?" if close else f"there are: {', '.join(known)}"
        raise InputError(f"metric '{name}' is unknown; {hint}")
    found = registry.load("metrics", name)
    if not isinstance(found, Metric) or found.name != name:
        package = registry.package_of(known[name])
        raise RegistryError(f"'{name}' of package {package} is no dipsmith Metric of that name; reinstall it")
    return found


def all_metrics() -> list[Metric]:
    """Every registered metric, dipsmith's own first."""
    return [metric(name) for name in registry.entry_points_of("metrics")]
