"""Steps that converge slowly, made longer by what earlier ones have shown.

A fixed-point step x → x + f(x) whose f has an inexact slope shrinks its error by a constant factor. Differences of
earlier steps tell the slope along the directions already walked; taking them into account is Anderson's
acceleration (1965, "Iterative procedures for nonlinear integral equations"), which on linear equations is GMRES
(Walker and Ni 2011).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from dipsmith.arrays import Floats

KEPT: Final = 6
"""Earlier steps that are remembered."""


class Secants:
    """The last steps of one fixed-point iteration."""

    def __init__(self) -> None:
        self.places: list[Floats] = []
        self.steps: list[Floats] = []

    def accelerated(self, place: Floats, step: Floats) -> Floats:
        """Where to go from `place`, from which the plain iteration would take `step`.

        >>> slow, place = Secants(), np.array([1.0, 1.0])
        >>> for _ in range(4):  # towards zero, by a tenth and by half of the way
        ...     place = slow.accelerated(place, -place * [0.1, 0.5])
        >>> bool(np.abs(place).max() < 1e-9)
        True
        """
        self.places, self.steps = [*self.places, place][-KEPT:], [*self.steps, step][-KEPT:]
        if len(self.steps) == 1:
            return place + step
        walked, changed = np.diff(self.places, axis=0).T, np.diff(self.steps, axis=0).T
        share, *_ = np.linalg.lstsq(changed, step, rcond=1e-10)
        return np.asarray(place + step - (walked + changed) @ share)
