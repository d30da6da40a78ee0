"""How long an attack must last before a broken method is caught."""

from __future__ import annotations

import numpy as np

from dipsmith.audit.attackers import expected_ratios
from dipsmith.audit.bound import CERTAINTY, Guesses, choose_threshold, guesses, pessimistic_rates
from dipsmith.audit.trial import LEAST_TRIALS, MOST_REHEARSED, REHEARSED, _run, attacked_labels
from dipsmith.audit.worlds import TwinRows, worst_worlds
from dipsmith.methods.method import Method
from dipsmith.privacy.budget import PureDP
from dipsmith.privacy.randomness import Stream


def trials_needed(method: Method, relation: str, *, epsilon: float | str, most: int, seed: int) -> int:
    """How many runs in each world a white-box attacker needs to exceed the claim for certain, even with some bad luck.

    From a hundred runs in each world, with another seed than the audit's; `most` where it cannot be told sooner.
    """
    twins = TwinRows.of(worst_worlds(relation, attacked_labels(method, relation)))
    budget = PureDP(epsilon)
    laws = []
    for i in range(LEAST_TRIALS * 2):
        for world in (0, 1):
            name = f"{seed}/needed/{i}/{world}"
            laws.append(_run(method, twins.seen_as(world), budget, name, whole=False)[0].laws)
    stream = Stream.for_testing(f"{seed}/needed")
    first, second = (expected_ratios(laws, 1000, world, stream) for world in (0, 1))
    trials = 1000
    while trials < most:
        counted = trials - min(round(REHEARSED * trials), MOST_REHEARSED)
        found = guesses(choose_threshold(first, second, counted, CERTAINTY), first, second)
        hits, alarms = (np.array([n * counted / len(first)]) for n in (found.hits, found.alarms))
        fewer, more = pessimistic_rates(hits, alarms, counted, 1.5)
        if Guesses(int(fewer[0]), int(np.ceil(more[0])), (counted, counted)).epsilon(CERTAINTY) > float(budget.exact):
            return trials
        trials += trials // 2
    return most
