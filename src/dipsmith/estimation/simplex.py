"""Numbers that can be counts: non-negative, whole, and with the sum they must have.

Noisy counts are made into counts in two steps. `project` moves them to the nearest point of
{x ≥ 0, Σx = total}, distance weighted by 1/variance: x_u = max(0, y_u − τ·s_u). `round_to` makes them
whole by largest remainders. Each exists for one flat table, `…_within` for many parents at once (each
with its children and its total). `clip` sets negative numbers
to zero and rescales, as many papers do; it adds half the noise scale to every empty cell on average.

Guarantee: results are non-negative and sum to their total (a negative total counts as 0); impossible
cells are 0; children known exactly keep their value whenever the total allows it; ties are broken by
position; nothing is random.

The threshold τ is found by Michelot's active-set iteration (J. Optim. Theory Appl. 50, 1986; reviewed by
Condat, "Fast projection onto the simplex and the l1 ball", Math. Programming 158, 2016), here with weights;
it ends at the same τ as a full sort.

Privacy: reads noisy numbers and public facts only; post-processing, free.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dipsmith.arrays import Bools, Floats, Ints
from dipsmith.errors import UsageError

LARGEST_TOTAL = 10**11
"""Whole numbers up to here are rounded exactly: beyond, doubles no longer hold the remainders."""

SMALLEST_RATIO = 1e-100
"""Variances of one family that are further apart than this differ no more."""

SNAP = 1e-9
"""A number this close to a whole one is meant to be it."""


def project(
    values: ArrayLike, total: float, possible: Bools | None = None, variances: ArrayLike | None = None
) -> Floats:
    """Find the nearest table, of any shape, that is non-negative and has the given total.

    `possible` is False where a cell must be 0. `variances` has the noise variance of each cell, by default equal:
    the larger, the more the cell moves. A cell of variance 0 is known and stays; one of variance `inf` takes what
    the others leave.

    >>> project([5.0, 3.0, -2.0], 6).tolist()
    [4.0, 2.0, 0.0]
    >>> project([5.0, 3.0, -2.0], 6, possible=np.array([True, False, True])).tolist()
    [6.0, 0.0, 0.0]
    """
    table = as_finite(values)
    allowed = as_mask(table, possible)
    if variances is not None:
        one_family, spread = np.zeros(table.size, dtype=np.int64), np.ravel(variances)
        found = project_within(table.ravel(), one_family, [total], spread, allowed.ravel())
        return found.reshape(table.shape)
    goal = float(_totals([total])[0])
    if goal == 0:
        return np.zeros_like(table)
    y = table[allowed]
    if y.size == 0:
        raise _no_place(1)
    while True:
        tau = (y.sum() - goal) / y.size
        above = y > tau
        if above.all() or not above.any():
            break
        y = y[above]
    out = np.where(allowed, np.maximum(table - tau, 0.0), 0.0)
    carries = out > 0
    if not carries.any():
        # τ was lost in rounding (a total far below the values): the largest cells carry the total.
        carries = allowed & (table == y.max())
    out[carries] += (goal - out.sum()) / np.count_nonzero(carries)
    return np.maximum(out, 0.0)


def project_within(
    values: ArrayLike,
    parent: ArrayLike,
    totals: ArrayLike,
    variances: ArrayLike | None = None,
    possible: Bools | None = None,
) -> Floats:
    """Project the children of many parents at once, each family onto its own total.

    `parent` has each child's parent, an index into `totals`, in any order; `variances` and `possible` are per child,
    as in `project`. Known children (variance 0) stay at their value; if they exceed the family's total, or nobody
    else can take the rest, they are scaled to it.

    >>> project_within([5.0, 3.0, -2.0, 1.0, 1.0], [0, 0, 0, 1, 1], [6.0, 4.0]).tolist()
    [4.0, 2.0, 0.0, 2.0, 2.0]
    """
    y, family, goal, allowed = _families(values, parent, totals, possible)
    if variances is None:
        _refuse_unplaced(family, goal, allowed)
        return _project_free(y, np.ones_like(y), family, goal, allowed)
    s = np.asarray(variances, dtype=np.float64)
    if s.shape != y.shape or not (s >= 0).all():
        raise UsageError(f"Variances to project with: expected {y.size} numbers, none negative or missing")
    known = allowed & (s == 0)
    out = np.where(known, np.maximum(y, 0.0), 0.0)
    taken = _sums(out, family, goal.size)
    free = allowed & ~known
    _refuse_unplaced(family, goal, free | (out > 0))
    rest = np.maximum(goal - taken, 0.0)
    unmeasured = free & np.isinf(s)
    if unmeasured.any():
        # The limit of a large variance: measured children stay, unless they alone exceed the total.
        measured = np.where(free & ~unmeasured, np.maximum(y, 0.0), 0.0)
        left = rest - _sums(measured, family, goal.size)
        takes = (left >= 0) & any_within(unmeasured, family, goal.size)
        out += np.where(takes[family], measured, 0.0)
        rest = np.where(takes, left, rest)
        free &= takes[family] == unmeasured
        s = np.where(unmeasured, 1.0, s)
    out += _project_free(y, s, family, rest, free)
    too_much = (taken > goal) | ~any_within(free, family, goal.size)
    scaled = (too_much & (taken > 0))[family]
    out[scaled] = out[scaled] / taken[family[scaled]] * goal[family[scaled]]
    return out


def _project_free(y: Floats, s: Floats, family: Ints, goal: Floats, free: Bools) -> Floats:
    """Project the free children, all of finite and positive variance; the others are 0."""
    out = np.zeros_like(y)
    live = np.flatnonzero(free & (goal[family] > 0))
    y, s, family = y[live], s[live], family[live]
    widest = np.zeros(goal.size)
    np.maximum.at(widest, family, s)
    # Only ratios of variances matter; in this range neither y/s nor τ overflows.
    s = np.maximum(s / widest[family], SMALLEST_RATIO)
    ratio = y / s
    top = np.full(goal.size, -np.inf)
    np.maximum.at(top, family, ratio)
    largest = ratio == top[family]
    tau = np.zeros(goal.size)
    active = np.arange(live.size)
    while active.size:
        owner = family[active]
        weight = _sums(s[active], owner, goal.size)
        excess = _sums(y[active], owner, goal.size) - goal
        np.divide(excess, weight, out=tau, where=weight > 0)
        leaves = y[active] <= tau[owner] * s[active]
        unsettled = any_within(leaves, owner, goal.size)
        active = active[unsettled[owner] & ~leaves]
    x = np.maximum(y - tau[family] * s, 0.0)
    # The largest y/s is positive in exact arithmetic: it carries a total that rounding lost.
    mover = np.where((x > 0) | largest, s, 0.0)
    gap = np.divide(
        goal - _sums(x, family, goal.size),
        _sums(mover, family, goal.size),
        out=np.zeros(goal.size),
        where=top > -np.inf,
    )
    out[live] = np.maximum(x + gap[family] * mover, 0.0)
    return out


def clip(values: ArrayLike, total: float, possible: Bools | None = None) -> Floats:
    """Set negative and impossible cells to 0 and rescale the rest to the total.

    Where nothing positive is left, the total is spread evenly over the possible cells.

    >>> clip([5.0, 3.0, -2.0], 4).tolist()
    [2.5, 1.5, 0.0]
    """
    table = as_finite(values)
    allowed = as_mask(table, possible)
    goal = float(_totals([total])[0])
    kept = np.where(allowed, np.maximum(table, 0.0), 0.0)
    mass = kept.sum()
    if goal > 0 and mass == 0:
        if not allowed.any():
            raise _no_place(1)
        kept, mass = allowed.astype(np.float64), np.count_nonzero(allowed)
    return kept / mass * goal if goal > 0 else np.zeros_like(table)


def clip_within(values: ArrayLike, parent: ArrayLike, totals: ArrayLike, possible: Bools | None = None) -> Floats:
    """Clip and rescale the children of many parents at once, each family to its own total.

    >>> clip_within([5.0, 3.0, -2.0, -1.0, -1.0], [0, 0, 0, 1, 1], [4.0, 4.0]).tolist()
    [2.5, 1.5, 0.0, 2.0, 2.0]
    """
    y, family, goal, allowed = _families(values, parent, totals, possible)
    _refuse_unplaced(family, goal, allowed)
    kept = np.where(allowed, np.maximum(y, 0.0), 0.0)
    bare = _sums(kept, family, goal.size) == 0
    kept = np.where(bare[family] & allowed, 1.0, kept)
    mass = _sums(kept, family, goal.size)[family]
    return np.divide(kept, mass, out=np.zeros_like(kept), where=mass > 0) * goal[family]


def round_to(values: ArrayLike, total: int, possible: Bools | None = None) -> Ints:
    """Round to whole numbers with the given sum, by largest remainders.

    Every cell is rounded down, and the cells with the largest remainders get one more; among equals the
    first. No cell moves by 1 or more, so zeros stay zeros. Values whose sum is 1 or more away from the
    total are rescaled first (`clip`).

    >>> round_to([1.5, 0.0, 1.5, 0.25, 0.75], 4).tolist()
    [2, 0, 1, 0, 1]
    """
    table = as_finite(values)
    allowed, one_family = as_mask(table, possible).ravel(), np.zeros(table.size, dtype=np.int64)
    return round_within(table.ravel(), one_family, [total], allowed).reshape(table.shape)


def round_within(values: ArrayLike, parent: ArrayLike, totals: ArrayLike, possible: Bools | None = None) -> Ints:
    """Round the children of many parents at once, each family to its own whole total.

    >>> round_within([1.5, 1.5, 0.2, 0.8, 1.0], [0, 0, 1, 1, 1], [3, 2]).tolist()
    [2, 1, 0, 1, 1]
    """
    given, family, _, allowed = _families(values, parent, totals, possible)
    goal = _whole(totals)
    _refuse_unplaced(family, goal, allowed)
    y = _snap(np.where(allowed & (goal[family] > 0), np.maximum(given, 0.0), 0.0))
    sums, candidates = _sums(y, family, goal.size), _sums(y > np.floor(y), family, goal.size)
    missing = goal - _sums(np.floor(y), family, goal.size).astype(np.int64)
    off = (np.abs(sums - goal) >= 1) | (missing < 0) | (missing > candidates)
    if off.any():
        rescaled = off[family]
        y[rescaled] = _snap(clip_within(given, family, goal, allowed)[rescaled])
        missing = goal - _sums(np.floor(y), family, goal.size).astype(np.int64)
    whole = np.floor(y)
    counts = whole.astype(np.int64)
    partial = np.flatnonzero((y > whole) & (missing[family] > 0))
    order = partial[np.lexsort((whole[partial] - y[partial], family[partial]))]
    sizes = np.bincount(family[partial], minlength=goal.size)
    place = np.arange(order.size) - (np.cumsum(sizes) - sizes)[family[order]]
    counts[order[place < missing[family[order]]]] += 1
    return counts


def as_finite(values: ArrayLike) -> Floats:
    """Numbers as float64; refuse what is infinite or not a number."""
    table = np.asarray(values, dtype=np.float64)
    if not np.isfinite(table).all():
        raise UsageError("Counts to make consistent: expected finite numbers, got a missing or infinite one")
    return table


def as_mask(table: Floats, possible: Bools | None) -> Bools:
    """Which cells are possible; all of them by default."""
    if possible is None:
        return np.ones(table.shape, dtype=bool)
    mask = np.asarray(possible)
    if mask.shape != table.shape or mask.dtype != np.bool_:
        raise UsageError(f"Possible cells: expected true or false in the table's shape {table.shape}")
    return mask


def _totals(totals: ArrayLike) -> Floats:
    return np.maximum(as_finite(totals), 0.0)


def _whole(totals: ArrayLike) -> Ints:
    goal = _totals(totals)
    if (goal != np.floor(goal)).any() or (goal > LARGEST_TOTAL).any():
        raise UsageError(f"Totals to round to: expected whole numbers up to {LARGEST_TOTAL}")
    return goal.astype(np.int64)


def _families(
    values: ArrayLike, parent: ArrayLike, totals: ArrayLike, possible: Bools | None
) -> tuple[Floats, Ints, Floats, Bools]:
    y, family, goal = as_finite(values), np.asarray(parent), _totals(totals)
    fits = y.ndim == 1 and family.shape == y.shape and np.issubdtype(family.dtype, np.integer)
    if not fits or (family.size and not 0 <= family.min() <= family.max() < goal.size):
        raise UsageError(f"Children and parents: expected one parent in 0..{goal.size - 1} for each child")
    return y, family.astype(np.int64, copy=False), goal, as_mask(y, possible)


def _sums(numbers: Floats | Bools, family: Ints, parents: int) -> Floats:
    return np.bincount(family, numbers, parents).astype(np.float64, copy=False)


def any_within(flags: Bools, family: Ints, parents: int) -> Bools:
    """Of every parent: whether any of its children is flagged."""
    found = np.zeros(parents, dtype=bool)
    found[family[flags]] = True
    return found


def _refuse_unplaced(family: Ints, goal: Floats | Ints, able: Bools) -> None:
    parents = int(((goal > 0) & ~any_within(able, family, goal.size)).sum())
    if parents:
        raise _no_place(parents)


def _no_place(parents: int) -> UsageError:
    found = f"A positive total and no possible cell to put it in, for {parents} parents"
    return UsageError(f"{found}; correct the totals or the impossible cells")


def _snap(y: Floats) -> Floats:
    near = np.rint(y)
    return np.where(np.abs(y - near) <= SNAP * np.maximum(1.0, near * 1e-3), near, y)
