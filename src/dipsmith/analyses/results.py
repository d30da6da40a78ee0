"""Results: planned analyses with their estimates, as the card and `results.json` tell them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from math import isfinite
from typing import Any

import numpy as np
import scipy

from dipsmith.analyses.bin_doubt import Refusal
from dipsmith.analyses.direct import DirectEstimate
from dipsmith.errors import UsageError

LEVEL = 0.95

NEAR = 0.5, 0.02
"""Rows carry a coefficient if they differ by at most so much of its standard error, or of itself."""


@dataclass(frozen=True)
class DirectCoefficient:
    """One coefficient: its estimate, its interval, and how much of its variance is noise; None where it is not told.

    `in_rows` is what a plain regression of the first set's rows gives instead; None where none was run. `doubt` is the part of
    the standard error that allows for numbers known in bins.
    """

    name: str
    estimate: float | None
    se: float | None
    low: float | None
    high: float | None
    noise_share: float | None
    in_rows: float | None = None
    doubt: float = 0.0

    @property
    def rows_differ(self) -> bool:
        """Whether a plain regression of the rows says something else."""
        if self.in_rows is None or self.estimate is None or self.se is None:
            return False
        return abs(self.in_rows - self.estimate) > max(NEAR[0] * self.se, NEAR[1] * abs(self.estimate))


@dataclass(frozen=True)
class Result:
    """A planned analysis and what the noisy sums say of it; `part` is the value of `by`; `refusal` says why nothing is told."""

    formula: str
    model: str
    part: str | None
    rows: int
    df: float
    sigma: float | None
    coefficients: tuple[DirectCoefficient, ...]
    covariance: tuple[tuple[float, ...], ...]
    notes: tuple[str, ...] = ()
    refusal: Refusal | None = None

    @classmethod
    def of(cls, formula: str, model: str, part: str | None, found: DirectEstimate) -> Result:
        """From an estimate."""
        told = np.isfinite(np.diag(found.covariance)) & np.isfinite(found.values)
        se = np.sqrt(np.where(told, np.diag(found.covariance), np.nan))
        t = float(scipy.special.stdtrit(found.df, 0.5 + LEVEL / 2))
        # A response that is the same in all rows has no variance, of which nothing is noise.
        variance = np.diag(found.covariance)
        share = np.divide(np.diag(found.noise), variance, out=np.zeros(len(variance)), where=variance > 0)
        doubt = np.zeros(len(found.names)) if found.doubt is None else found.doubt
        coefficients = [
            DirectCoefficient(n, float(b), float(s), float(b - t * s), float(b + t * s), float(x), doubt=float(d))
            if ok
            else DirectCoefficient(n, None, None, None, None, None)
            for n, b, s, x, d, ok in zip(found.names, found.values, se, share, doubt, told, strict=True)
        ]
        covariance = tuple(
            tuple(float(x) for x in row) for row in np.where(np.isfinite(found.covariance), found.covariance, 0.0)
        )
        # Noise can make a number of rows negative, and leave nothing to tell.
        rows, sigma = max(found.rows, 0), found.sigma if isfinite(found.sigma) else None
        why = found.refusal
        notes = found.notes if why is None else (*found.notes, f"Not told: {why.reason}. {why.ask}.")
        return cls(formula, model, part, rows, found.df, sigma, tuple(coefficients), covariance, notes, why)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Result:
        """From what `results.json` holds."""
        given = dict(data)
        given["coefficients"] = tuple(DirectCoefficient(**c) for c in given["coefficients"])
        given["covariance"] = tuple(tuple(row) for row in given["covariance"])
        given["notes"] = tuple(given["notes"])
        given["refusal"] = None if given.get("refusal") is None else Refusal(**given["refusal"])
        return cls(**given)

    def with_rows(self, plain: Iterable[float | None]) -> Result:
        """With what a plain regression of the rows gives for each coefficient."""
        pairs = zip(self.coefficients, plain, strict=True)
        return replace(self, coefficients=tuple(replace(c, in_rows=b) for c, b in pairs))

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)

    @property
    def title(self) -> str:
        """The formula, and which part of the rows it is about."""
        return self.formula if self.part is None else f"{self.formula}, {self.part}"

    @property
    def row_difference(self) -> str:
        """In words, what a plain regression of the rows gives where it differs most; empty where rows carry the result."""
        apart = [c for c in self.coefficients if c.rows_differ]
        if not apart:
            return ""
        most = max(apart, key=lambda c: abs((c.in_rows or 0.0) - (c.estimate or 0.0)) / max(c.se or 0.0, 1e-300))
        others = f" ({len(apart)} of {len(self.coefficients)} coefficients differ)" if len(apart) > 1 else ""
        return (
            f"a plain regression of them gives {most.in_rows:.4g} for {most.name}, where the direct estimate is "
            f"{most.estimate:.4g} ± {most.se:.2g}{others}"
        )

    def __getitem__(self, name: str) -> DirectCoefficient:
        for c in self.coefficients:
            if c.name == name:
                return c
        raise UsageError(
            f"there is no coefficient '{name}'; there are: {', '.join(c.name for c in self.coefficients[:20])}"
        )

    def __str__(self) -> str:
        width = max(len(c.name) for c in self.coefficients)
        lines = [f"{self.title}: direct estimate, {self.rows:,} rows"]
        lines += [f"  {'':{width}}  estimate  [95 % interval]      noise's share"]
        for c in self.coefficients:
            if c.estimate is None or c.se is None:
                lines.append(f"  {c.name:{width}}  not told")
            else:
                lines.append(
                    f"  {c.name:{width}}  {c.estimate: .4f}  [{c.low: .4f}, {c.high: .4f}]  {c.noise_share:.0%}"
                )
        apart = [f"The rows do not carry it: {self.row_difference}."] if self.row_difference else []
        return "\n".join([*lines, *(f"  {note}" for note in (*self.notes, *apart))])


def result_for(results: Iterable[Result], formula: str) -> list[Result]:
    """The results of a formula, one for each part."""
    plain = " ".join(formula.split())
    return [r for r in results if " ".join(r.formula.split()) == plain]


def results_text(results: Iterable[Result]) -> str:
    """`results.json`."""
    told = {"format": 1, "level": LEVEL, "results": [r.to_dict() for r in results]}
    return json.dumps(told, ensure_ascii=False, indent=1, allow_nan=False) + "\n"
