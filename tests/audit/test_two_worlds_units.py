"""Two worlds that differ in a whole career, in a whole household, or in a person of one: what is answered about it tells no more than ε.

The questions are those that careers and households are made of, with the shares of the budget that they get. 400 runs in
either world. The likelihood ratio of all answers together is computed from exact counts that are made here, beside the
curator. By the noise that is claimed it may never exceed ε (no false positive at all); and the event that it favours the
second world must be no more than e^ε times as frequent there, by the noise that is drawn (false-positive rate 2e-6).
"""

import math
from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pytest
from scipy.stats import beta

from assurance.unit_pairs import career_pair, household_pair, person_pair
from dipsmith.counting.count import BatchRows
from dipsmith.counting.households import HouseholdRows
from dipsmith.methods.graph.careers import entry_tables, most_steps, presence_table, split_career, transitions
from dipsmith.methods.graph.households import compositions
from dipsmith.privacy.budget import PureDP
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.events import Rehearsal
from dipsmith.privacy.noise import DiscreteLaplace
from dipsmith.privacy.randomness import Stream
from dipsmith.schema import Marginal
from dipsmith.sources import source

EPSILON, TRIALS, KEY = PureDP(2), 400, bytes(32)


def tables(rows, sets):
    return [Marginal.of(rows.schema, tuple(n for n in rows.schema.names if n in names)) for names in sets]


def career_views(relation):
    """Entries, presence and some steps, of both tables: rows, tables, how many rows of a unit count, and the budget."""
    pair = career_pair(relation, 2)  # more rows than count
    worlds = [BatchRows(source(t), pair.schema, KEY).steps() for t in (pair.before, pair.after)]
    most, shares = most_steps(pair.schema, EPSILON), split_career(pair.schema, EPSILON)
    entries, some = [w.steps() for w in worlds], [w.with_fewer_steps(most) for w in worlds]
    there = [w.with_fewer_steps(most, away=True) for w in worlds]
    return [
        (entries, tables(entries[0], entry_tables(pair.schema)), 1, shares[0]),
        (there, [presence_table(pair.schema, most)], most, shares[1]),
        (some, tables(some[0], transitions(pair.schema)), most, shares[2]),
    ]


def household_views(relation):
    """The lines of households of both tables."""
    pair = household_pair(relation, 3)  # more members than count
    sides = [tuple(map(source, t)) for t in (pair.before, pair.after)]
    worlds = [HouseholdRows(*side, pair.schema, KEY).steps() for side in sides]
    return [(worlds, tables(worlds[0], compositions(pair.schema)), 1, EPSILON)]


def person_views(relation):
    """The lines of households of which one has lost its head, or has another one."""
    pair = person_pair(relation, 2)
    sides = [tuple(map(source, t)) for t in (pair.before, pair.after)]
    worlds = [HouseholdRows(*side, pair.schema, KEY).steps() for side in sides]
    return [(worlds, tables(worlds[0], compositions(pair.schema)), 1, EPSILON)]


def ratios(views, relation, world, seed):
    """The log of how many times as likely all answers are in the second world as in the first."""
    told, stream = 0.0, Stream.for_testing(seed)
    for worlds, asked, _, budget in views:
        curator = Curator(worlds[world], budget, stream=stream, journal=Rehearsal())
        shares = list(budget.split(len(asked)))
        answers = curator.measure(asked, shares)
        for found, share, one, two in zip(answers, shares, *(w.count(asked) for w in worlds), strict=True):
            twice = relation == "replace" or worlds[0].schema.unit.protects == "person"
            scale = Fraction(curator.max_rows * (2 if twice else 1)) / share.exact
            told += float(np.abs(found.values - one).sum() - np.abs(found.values - two).sum()) / float(scale)
    return float(told)


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("made", [career_views, household_views, person_views])
def test_a_whole_career_household_or_person_is_told_no_better_than_claimed(made, relation):
    views = made(relation)
    assert [rows[0].schema.unit.max_rows for rows, *_ in views] == [most for _, _, most, _ in views]
    found = [[ratios(views, relation, w, 2 * trial + w) for trial in range(TRIALS)] for w in (0, 1)]
    assert max(map(abs, found[0] + found[1])) <= float(EPSILON.exact) * (1 + 1e-9)
    hits = [sum(r > 0 for r in world) for world in found]
    low, high = beta.ppf(1e-6, hits[1], TRIALS - hits[1] + 1), beta.ppf(1 - 1e-6, hits[0] + 1, TRIALS - hits[0])
    assert math.log(low / high) <= float(EPSILON.exact)
    assert hits[1] > hits[0]  # the worlds do differ: the attack sees something


def test_too_little_noise_is_found():
    """An eighth of what is claimed."""
    views, sample = household_views("add-remove"), DiscreteLaplace.sample
    with patch.object(
        DiscreteLaplace, "sample", lambda law, stream, n: sample(DiscreteLaplace(law.scale / 8), stream, n)
    ):
        found = [[ratios(views, "add-remove", w, 2 * trial + w) for trial in range(TRIALS)] for w in (0, 1)]
    hits = [sum(r > 0 for r in world) for world in found]
    low, high = beta.ppf(1e-6, hits[1], TRIALS - hits[1] + 1), beta.ppf(1 - 1e-6, hits[0] + 1, TRIALS - hits[0])
    assert math.log(low / high) > float(EPSILON.exact)
