"""Presence: in which periods units are there, drawn before anything else about them is.

When a unit comes, when it leaves for good and whether it is away in between is told by entries, one line for each unit
(`schema.steps`). Who is away when, between the first and the last period, is told by steps: so many rows has a period, so
many return in it. Who of those with the same past leaves is drawn by each one's odds.

Privacy: reads models made of noisy tables; post-processing, free.
"""

from __future__ import annotations

import numpy as np

from dipsmith.arrays import Bools, Floats, Ints
from dipsmith.privacy.randomness import Generator
from dipsmith.schema import Codes, Schema
from dipsmith.schema.steps import BROKEN, END, GAPS, band_width, entry_name


def shrunk_shares(counts: Floats, of: Floats, variance: float) -> Floats:
    """Shares of noisy counts, as far as noise hides them moved to the share of all of them together.

    Which part of their spread is noise is known; the rest is what shares differ by (James and Stein, Proc. Fourth Berkeley
    Symposium 1, 1961).

    >>> shrunk_shares(np.array([50.0, 150.0]), np.array([200.0, 200.0]), variance=0.0).tolist()
    [0.25, 0.75]
    >>> shrunk_shares(np.array([50.0, 150.0]), np.array([200.0, 200.0]), variance=1e6).tolist()
    [0.5, 0.5]
    """
    known = of >= 1.0
    if not known.any():
        return np.zeros(len(of))
    whole = float(np.clip(counts[known].sum() / of[known].sum(), 0.0, 1.0))
    noise = np.where(known, variance / np.maximum(of, 1.0) ** 2, 0.0)
    far = np.where(known, counts / np.maximum(of, 1.0) - whole, 0.0)
    # Each period counts as much as noise lets it tell.
    trust = np.where(known, 1.0, 0.0) / np.maximum(noise, 1e-12)
    differ = max(0.0, float((trust * (far**2 - noise)).sum() / trust.sum()))
    return np.asarray(np.clip(whole + far * differ / np.maximum(differ + noise, 1e-300), 0.0, 1.0))


def draw_presence(entries: Codes, schema: Schema, away: Floats, returns: Floats, random: Generator) -> Bools:
    """In which periods each unit is there, units × periods, by when it enters, leaves and whether it is away in between.

    `away` are the shares of units between their first and last period that are not there, by period; `returns` the shares of
    these who come again.
    """
    width, periods, units = band_width(schema), len(away), len(entries)
    begin = entries[entry_name(str(schema.unit.order))].astype(np.int64)
    end = np.minimum(entries[END].astype(np.int64) * width + random.integers(0, width, units), periods - 1)
    end = np.maximum(begin, end)
    there = np.arange(periods)
    present = np.asarray((begin[:, None] <= there) & (there <= end[:, None]))
    at = np.flatnonzero((entries[GAPS] == BROKEN) & (end - begin > 1))
    inside = (begin[at, None] < there) & (there < end[at, None])
    present[at] &= ~_draw_gaps(inside, away * present.sum(axis=0), returns, random)
    return present


def _draw_gaps(inside: Bools, away: Floats, returns: Floats, random: Generator) -> Bools:
    """Who is away when: everybody at least once, and as many in a period as are expected away, as far as can be.

    `inside` says between whose first and last period a period lies. Of those who are away, `returns` come back.
    """
    gone = np.zeros_like(inside)
    for t in range(1, inside.shape[1]):
        able, was = inside[:, t], gone[:, t - 1] & inside[:, t]
        wanted = min(float(away[t]), float(able.sum()))
        stay = min(1 - float(returns[t]), wanted / max(float(was.sum()), 1.0))
        leave = (wanted - stay * float(was.sum())) / max(float((able & ~was).sum()), 1.0)
        gone[:, t] = able & (random.random(len(able)) < np.where(was, stay, leave))
    never = np.flatnonzero(~gone.any(axis=1))
    reached = np.cumsum(np.where(inside[never], away + max(1.0, float(away.sum())) * 1e-9, 0.0), axis=1)
    point = random.random((len(never), 1)) * reached[:, -1:]
    gone[never, np.argmax(reached > point, axis=1)] = True
    return gone


def give_futures(
    present: Bools,
    holds: Ints,
    units: Ints,
    past: Ints,
    eager: Floats,
    period: int,
    random: Generator,
) -> None:
    """Decide who of the units that are there leaves: of those with the same past, the most eager ones, by chance.

    `holds` is the line of `present` that each unit follows. Units with the same past exchange their lines, so that as many
    leave as before; `eager` is the logarithm of each one's odds of leaving.
    """
    # The largest of numbers with Gumbel's law added are a draw without replacement in proportion to the odds.
    key = eager + random.gumbel(size=len(units))
    lines = holds[units]
    leaving = ~present[lines, period + 1]
    by_eager = np.lexsort([-key, past[units]])
    by_leaving = np.lexsort([random.random(len(units)), ~leaving, past[units]])
    holds[units[by_eager]] = lines[by_leaving]
