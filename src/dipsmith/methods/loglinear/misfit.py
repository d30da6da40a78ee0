"""Misfit: how badly a model of labels fits a table that it does not contain, for choosing interactions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dipsmith.errors import UnsupportedError
from dipsmith.methods.loglinear.clique import Clique
from dipsmith.schema import Marginal, Schema

Float = NDArray[np.float64]


@dataclass(frozen=True)
class Misfit:
    """How badly the current model fits a table that it does not contain.

    Half the L1 distance (McKenna, Mullins, Sheldon and Miklau 2022, AIM, use the whole) between the true label counts and the model's expectation of them, minus
    what sampling and the noise to come would make of it by themselves.

    Privacy
    -------
    Under `label` one unit changes the labels of at most k rows; each leaves one cell of a table and
    enters another of the same public group, so ½‖S − E‖₁ moves by at most k. E and the allowance are
    functions of noisy tables and public rows.
    """

    expected: Mapping[Clique, Float]
    allowance: Mapping[Clique, float]
    schema: Schema
    name: ClassVar[str] = "misfit of label counts"

    def tables(self, candidate: Clique) -> Sequence[Marginal]:
        """The one table of the candidate."""
        return [candidate.marginal(self.schema)]

    def value(self, candidate: Clique, counts: Sequence[NDArray[np.int64]]) -> float:
        """Larger when the model misses more."""
        return (
            0.5 * float(np.abs(counts[0] - self.expected[candidate].ravel()).sum())
            - self.allowance[candidate]
        )

    def sensitivity(self, relation: str, max_rows: int) -> Fraction:
        """Half of one label leaving a cell and entering another, for k rows."""
        if relation != "label":
            raise UnsupportedError(
                f"the misfit of label counts has a proof for neighbours label, not {relation}"
            )
        return Fraction(max_rows)

    def monotone(self, relation: str) -> bool:
        """A changed label may raise one table's misfit and lower another's."""
        return False


def allowance(expected: Float, noise_sd: float) -> float:
    """What ½‖S − E‖₁ is on average when the model is right and the table is measured with noise.

    Sampling gives a count of mean e in a group of n the variance e(1 − e/n); noise adds its own. The
    mean of |N(0, s²)| is s√(2/π).
    """
    totals = expected.sum(axis=1, keepdims=True)
    sampling = expected * (1 - expected / np.maximum(totals, 1e-300))
    spread = np.sqrt(np.maximum(sampling, 0.0) + noise_sd**2) * (totals > 0)
    return float(spread.sum() / np.sqrt(2 * np.pi))
