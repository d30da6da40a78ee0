"""Estimated effects of public attributes on private labels, with standard errors that include the noise.

An effect is the log-odds of a label against the reference label (the first of the schema) in one cell
of a term, relative to the average row: effects of a term, weighted by the public number of rows in
each cell, sum to zero. Labels are drawn with *shrunk* effects, which are better on the whole but drawn
towards zero one by one. What is reported for reading is the estimate without that pull, whose standard
error covers sampling and noise: ± 1.96 of them hold the truth 95 times in 100. (Interactions overlap with
the effects that they refine and are told from them by shrinkage alone; they are reported shrunk, with
their posterior standard deviation.)
"""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dipsmith.methods.loglinear.public_design import LabelTerm, contrasts

Float = NDArray[np.float64]

SHOWN = 40


@dataclass(frozen=True)
class Effect:
    """One effect: the log-odds of `label` against `reference` in one cell, relative to the average row.

    The cell is `level` of the public attributes (names joined by ×) in a stratum (empty for all rows), with so many
    public rows; without any the standard error is infinite. `shrunk` is the effect as it is used for drawing labels.
    """

    stratum: str
    attributes: str
    level: str
    targets: str
    label: str
    reference: str
    effect: float
    std_error: float
    shrunk: float
    rows: int


@dataclass(frozen=True)
class Effects:
    """All effects of a model; iterate, or take `to_arrow()` for a table."""

    effects: tuple[Effect, ...]

    def __len__(self) -> int:
        return len(self.effects)

    def __iter__(self) -> Iterator[Effect]:
        return iter(self.effects)

    def of(self, *attributes: str) -> Effects:
        """The effects of one term."""
        name = " × ".join(attributes)
        return Effects(tuple(e for e in self.effects if e.attributes == name))

    def to_arrow(self) -> Any:
        """The effects as a `pyarrow.Table`."""
        import pyarrow as pa

        names = list(Effect.__annotations__)
        return pa.table({name: [getattr(e, name) for e in self.effects] for name in names})

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __str__(self) -> str:
        lines = [
            f"{e.stratum + ' ' if e.stratum else ''}{e.attributes} = {e.level}: {e.targets} {e.label} against {e.reference} {e.effect:+.3f} ± {e.std_error:.3f}"
            for e in self.effects[:SHOWN]
        ]
        return "\n".join([*lines, *([f"… {len(self) - SHOWN} more"] if len(self) > SHOWN else [])])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        columns = ("attribute", "level", "target", "label", "against", "effect", "s.e.", "shrunk", "rows")
        lines = ["".join(f"<th>{c}</th>" for c in columns)]
        for e in self.effects[:SHOWN]:
            names = (html.escape(v) for v in (e.attributes, e.level, e.targets, e.label, e.reference))
            values = (*names, f"{e.effect:+.3f}", f"{e.std_error:.3f}", f"{e.shrunk:+.3f}", f"{e.rows:,}")
            lines.append("<tr>" + "".join(f"<td>{v}</td>" for v in values) + "</tr>")
        more = f"<p>… {len(self) - SHOWN} more: to_arrow()</p>" if len(self) > SHOWN else ""
        return f"<table><thead><tr>{lines[0]}</tr></thead><tbody>{''.join(lines[1:])}</tbody></table>{more}"


def centred(table: Float, sizes: NDArray[np.integer]) -> Float:
    """Log-odds against the first label, cells × labels − 1, relative to the average row."""
    odds = table[:, 1:] - table[:, :1]
    return np.asarray(odds - _shares(sizes) @ odds)


def standard_errors(term: LabelTerm, covariance: Float, sizes: NDArray[np.integer]) -> Float:
    """Standard errors of the `centred` effects of a term, from the covariance of its contrasts."""
    basis = contrasts(term.labels)
    w = _shares(sizes)
    errors = np.empty((term.cells, term.contrasts))
    for label in range(1, term.labels):
        q = basis[label] - basis[0]
        if covariance.ndim == 3:
            own = np.einsum("a,cab,b->c", q, covariance, q)
            variance = own * (1 - 2 * w) + float(w**2 @ own)
        else:
            split = covariance.reshape(term.cells, term.contrasts, term.cells, term.contrasts)
            whole = np.einsum("a,cadb,b->cd", q, split, q)
            variance = np.diag(whole) - 2 * whole @ w + float(w @ whole @ w)
        errors[:, label - 1] = np.sqrt(np.maximum(variance, 0.0))
    return errors


def _shares(sizes: NDArray[np.integer]) -> Float:
    total = sizes.sum()
    return np.asarray(sizes / total if total else np.full(len(sizes), 1 / max(len(sizes), 1)))
