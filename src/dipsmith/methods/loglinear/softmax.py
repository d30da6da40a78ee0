"""Label probabilities from log-odds, with those labels at zero that a rule forbids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dipsmith.arrays import Bools, Floats

FEW = 32
"""Labels up to which a pass over the rows for each label is faster than one along the labels."""


@dataclass(frozen=True, eq=False)
class BarredLabels:
    """Joint labels that a rule forbids for some rows."""

    rows: Bools
    labels: Bools


def softmax(eta: Floats) -> tuple[Floats, Floats]:
    """Probabilities along the last axis, in place, and the log of their normaliser."""
    top = _along_labels(np.maximum, eta)
    eta -= top[:, None]
    np.exp(eta, out=eta)
    total = _along_labels(np.add, eta)
    eta /= total[:, None]
    return eta, np.log(total) + top


def _along_labels(ufunc: np.ufunc, x: Floats) -> Floats:
    """Reduce rows × labels over the labels; label by label while these are few, which is faster."""
    if x.shape[1] > FEW:
        return np.asarray(ufunc.reduce(x, axis=1))
    total = x[:, 0].copy()
    for k in range(1, x.shape[1]):
        ufunc(total, x[:, k], out=total)
    return total


def barred_softmax(eta: Floats, barred: Sequence[BarredLabels], chunk: slice) -> tuple[Floats, Floats]:
    """`softmax` with probability 0 for labels that a rule forbids.

    A row whose labels are all forbidden breaks the rules whatever it is called; it gets the model's label.
    """
    if not barred:
        return softmax(eta)
    allowed = eta.copy()
    for bar in barred:
        allowed[np.ix_(bar.rows[chunk], bar.labels)] = -np.inf
    hopeless = np.isneginf(allowed).all(axis=1)
    allowed[hopeless] = eta[hopeless]
    return softmax(allowed)
