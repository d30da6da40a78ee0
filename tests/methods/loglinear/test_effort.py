"""What a fit is said to take grows with everything that it is made of."""

from dataclasses import replace

import pytest

from dipsmith.methods.loglinear.effort import FitSize

PANEL = FitSize(rows=28_000, labels=6, cells=(1, 40, 30, 60, 50), effects=(5, 200, 150, 300, 250))


@pytest.mark.parametrize(
    "change",
    [
        {"rows": 60_000},
        {"rows": 1_300_000},
        {"cells": (1, 40, 30, 60, 50, 20), "effects": (5, 200, 150, 300, 250, 100)},
        {"labels": 12, "effects": (11, 440, 330, 660, 550)},
        {"rounds": 3, "candidate_cells": 30, "candidates": 20},
    ],
)
def test_a_larger_fit_takes_longer_and_more_memory_at_least_as_much(change):
    larger = replace(PANEL, **change).effort
    assert larger.seconds > PANEL.effort.seconds
    assert larger.memory >= PANEL.effort.memory


def test_a_term_that_is_solved_by_itself_does_not_enter_the_large_matrix():
    huge = replace(PANEL, cells=(*PANEL.cells, 20_000), effects=(*PANEL.effects, 100_000)).effort
    assert huge.seconds < 600
    assert huge.memory < 1e9
