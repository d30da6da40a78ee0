"""Can a classifier tell the tables apart? SPECKS, pMSE and binned propensity scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dipsmith.report.content import Block, Cell
from dipsmith.utility.binned_scores import binned_scores
from dipsmith.utility.captions import table
from dipsmith.utility.findings import Findings
from dipsmith.utility.metric import Chapter, Metric
from dipsmith.utility.pmse import pmse
from dipsmith.utility.propensity import propensity
from dipsmith.utility.side_by_side import SideBySide
from dipsmith.utility.specks import mean_specks, specks


def _find(both: SideBySide) -> dict[str, Any]:
    scores, binned, squared = [], [], None
    for classifier in both.classifiers:
        sets = []
        for i in range(len(both.pairs)):
            scored = both.propensity(classifier, i)
            sets.append(specks(scored))
            if i == 0:
                binned.append(binned_scores(scored))
                squared = pmse(scored) if classifier == "logistic" else squared
        scores.append(mean_specks(sets))
    squared = squared or pmse(propensity(both.pairs[0], draws=0))
    return {"specks": tuple(scores), "pmse": squared, "binned": tuple(binned)}


def _lines(found: Findings) -> list[tuple[str, Cell, Cell]]:
    squared = found["pmse"]
    expected = squared.resampled_mean
    independent = squared.independent_mean / expected if expected else float("nan")
    return [
        *((f"SPECKS, {s.classifier}", s.value, s.null_95) for s in found["specks"]),
        ("pMSE ratio, logistic", squared.ratio, independent),
    ]


def _squared(found: Findings) -> list[tuple[Cell, ...]]:
    p = found["pmse"]
    return [(p.value, p.standardised, p.resampled_mean, p.ratio, p.independent_mean, p.independent_ratio)]


def _blocks(found: Sequence[Findings]) -> list[Block]:
    how = {True: "by the other half", False: "in sample"}
    return [
        table(
            "SPECKS: the Kolmogorov–Smirnov distance of the propensity scores",
            ("classifier", "KS", "null mean", "null 95 %", "scored"),
            found,
            lambda f: [
                (s.classifier, s.value, s.null_mean, s.null_95, how[s.crossfitted])
                for s in sorted(f["specks"], key=lambda s: -s.value)
            ],
            "0 would be indistinguishable, 1 perfectly separable. Only what exceeds the null's 95 % point is a difference.",
        ),
        table(
            "pMSE of the logistic model with main effects, against both nulls",
            ("pMSE", "S-pMSE", "null: resampled", "ratio", "null: independent", "ratio to it"),
            found,
            _squared,
            "Resampled: synthetic rows drawn from the authentic ones (Snoke et al. 2018). Independent: another sample of the "
            "same population, which no release can be asked to beat.",
        ),
        table(
            "χ² of binned scores: are both tables equally frequent in every tenth of the scores?",
            ("classifier", "χ²", "degrees of freedom", "null mean", "p"),
            found,
            lambda f: [(b.classifier, b.statistic, b.freedom, b.null_mean, b.p) for b in f["binned"]],
            "Sakshaug and Raghunathan 2010. With many rows p is 0 for any difference; compare χ² with its null mean.",
        ),
    ]


TELLING_APART = Chapter("Can a classifier tell them apart?", _find, _blocks, _lines, place=1)

Measure = Callable[[SideBySide], tuple[float, float]]


def _specks_of(classifier: str) -> Measure:
    def measure(both: SideBySide) -> tuple[float, float]:
        sets = [specks(both.scored(classifier, i)) for i in range(len(both.pairs))]
        return float(np.mean([s.value for s in sets])), sets[0].null_mean

    return measure


def _pmse(both: SideBySide) -> tuple[float, float]:
    found = pmse(both.scored("logistic"))
    return found.value, found.independent_mean


def _s_pmse(both: SideBySide) -> tuple[float, float]:
    found = pmse(both.scored("logistic"))
    expected = (found.independent_mean - found.resampled_mean) / found.resampled_sd
    return found.standardised, expected if found.resampled_sd else float("nan")


def _binned(both: SideBySide) -> tuple[float, float]:
    found = binned_scores(both.scored("logistic"))
    return found.statistic, found.null_mean


def _of(name: str, title: str, measure: Measure, reference: str = "what chance alone gives") -> Metric:
    return Metric(name, title, "lower", measure, reference, TELLING_APART)


SPECKS = _of("specks", "SPECKS, logistic main effects", _specks_of("logistic"))
SPECKS_INTERACTIONS = _of("specks-interactions", "SPECKS, interactions", _specks_of("interactions"))
SPECKS_CART = _of("specks-cart", "SPECKS, classification tree", _specks_of("cart"))
SPECKS_FOREST = _of("specks-forest", "SPECKS, random forest", _specks_of("forest"))
SPECKS_BOOSTING = _of("specks-boosting", "SPECKS, boosting", _specks_of("boosting"))
PMSE = _of("pmse", "pMSE, logistic main effects", _pmse)
PMSE_RATIO = _of(
    "pmse-ratio",
    "pMSE against two independent samples",
    lambda both: (pmse(both.scored("logistic")).independent_ratio, 1.0),
    "1 is chance",
)
S_PMSE = _of("s-pmse", "standardised pMSE", _s_pmse)
BINNED_SCORES = _of("binned-scores", "binned propensity scores", _binned)
