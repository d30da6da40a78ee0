"""Everything that a comparison found out about one release."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dipsmith.schema import Codes, Schema
from dipsmith.synthesis.card import Card
from dipsmith.synthesis.release import Release
from dipsmith.utility.association import Associations, Consistency, associations
from dipsmith.utility.binned_scores import BinnedScores, binned_scores
from dipsmith.utility.cell_sizes import CellSizes, cell_sizes
from dipsmith.utility.crosstabs import Crosstabs
from dipsmith.utility.disclosure import Disclosure, disclosure
from dipsmith.utility.marginal_error import MarginalError, marginal_error
from dipsmith.utility.matching import Correct, Matched, expected_correct
from dipsmith.utility.pair import Pair, released_codes
from dipsmith.utility.panels import (
    LogisticPanel,
    Points,
    correlations,
    joint_bars,
    joint_proportions,
    logistic_panel,
    p_slopes,
)
from dipsmith.utility.pmse import PMSE, pmse
from dipsmith.utility.propensity import propensity
from dipsmith.utility.range_error import RangeError, range_error
from dipsmith.utility.specks import Specks, mean_specks, specks
from dipsmith.utility.subgroups import Subgroups, subgroups

WAYS = (1, 2, 3)
MOST_SENSITIVE = 4


@dataclass(frozen=True, eq=False)
class Findings:
    """One release beside the authentic rows.

    Scores of several sets are means over the sets (`specks`, `marginals`, `agreement`); everything that is listed level by
    level is of the first set.
    """

    name: str
    card: Card
    rows: tuple[int, int]
    given: tuple[str, ...]
    changed: tuple[str, ...]
    specks: tuple[Specks, ...]
    pmse: PMSE
    binned: tuple[BinnedScores, ...]
    marginals: tuple[MarginalError, ...]
    set_tvd: tuple[float, ...]
    ranges: tuple[RangeError, ...]
    associations: Associations
    agreement: tuple[Consistency, ...]
    cells: CellSizes
    subgroups: Subgroups
    bars: Points
    joint: Points
    slopes: Points
    correlations: Points
    logistic: LogisticPanel | None
    disclosures: tuple[Disclosure, ...]
    correct: tuple[Correct, ...]
    matched: Matched | None = None


def find(
    name: str,
    release: Release,
    authentic: Codes,
    schema: Schema,
    *,
    classifiers: Sequence[Any],
    sensitive: Sequence[str] | None,
    draws: int,
    seed: int,
    progress: Callable[[float], None],
) -> Findings:
    """Compare one release with the authentic rows.

    Privacy
    -------
    Exact function of private rows: confidential.
    """
    public = schema.public if schema.neighbours == "label" else ()
    names = [n for n in authentic.names if all(n in t.column_names for t in release.tables)]
    pairs = [
        Pair.of(authentic.project(names), released_codes(table, schema, names), public)
        for table in release.tables
    ]
    first = pairs[0]
    stages = len(classifiers) * len(pairs) + 3 * len(pairs) + 5
    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        progress(min(1.0, done / stages))

    scores: list[Specks] = []
    binned: list[BinnedScores] = []
    squared: PMSE | None = None
    for classifier in classifiers:
        sets = []
        for i, pair in enumerate(pairs):
            found = propensity(pair, classifier, draws=draws if i == 0 else 0, seed=seed)
            sets.append(specks(found))
            if i == 0:
                binned.append(binned_scores(found))
            if i == 0 and classifier == "logistic":
                squared = pmse(found)
            step()
        chance = sets[0]
        mean = mean_specks(
            [Specks(s.classifier, s.value, chance.null_mean, chance.null_95, s.crossfitted) for s in sets]
        )
        scores.append(mean)
    tables = [Crosstabs(pair, seed) for pair in pairs]
    errors = [[marginal_error(t, k) for k in WAYS if k <= len(names)] for t in tables]
    for _ in pairs:
        step()
    tests = [associations(t) for t in tables]
    agreement = [
        _mean_consistency([test.consistency()[i] for test in tests])
        for i in range(len(tests[0].consistency()))
    ]
    step()
    groups = subgroups(tables[0])
    step()
    wanted = _sensitive(first) if sensitive is None else [n for n in sensitive if n in first.changed]
    attacks = tuple(disclosure(first, target, seed=seed) for target in wanted)
    step()
    model = release.models[0].inner if release.models else None
    found_panels = (
        joint_bars(tables[0]),
        joint_proportions(tables[0]),
        p_slopes(tables[0]),
        correlations(tables[0]),
    )
    step()
    made = Findings(
        name,
        release.card,
        (len(first.authentic), len(first.synthetic)),
        first.given,
        first.changed,
        tuple(scores),
        squared or pmse(propensity(first, draws=0)),
        tuple(binned),
        tuple(errors[0]),
        tuple(float(np.mean([e[i].mean for e in errors])) for i in range(len(errors[0]))),
        tuple(range_error(tables[0], seed)),
        tests[0],
        tuple(agreement),
        cell_sizes(first),
        groups,
        *found_panels,
        logistic_panel(first),
        attacks,
        expected_correct(model, authentic),
    )
    progress(1.0)
    return made


def _mean_consistency(sets: Sequence[Consistency]) -> Consistency:
    return Consistency(
        sets[0].level,
        float(np.mean([s.agreement for s in sets])),
        sets[0].nothing,
        sets[0].everything,
        float(np.mean([s.kappa for s in sets])),
    )


def _sensitive(pair: Pair) -> list[str]:
    """The columns to attack: those that were synthesised, where public columns are given; else a few short lists."""
    short = [n for n in pair.changed if 2 <= pair.schema[n].size <= (50 if pair.given else 10)]
    return short[:MOST_SENSITIVE]
