"""Households at ε = 1: who lives with whom, beside persons that are drawn independently; and a million members.

python -m benchmarks.households [--households 20000] [--seeds 3] [--unit household|person] [--million]

Simulated households (`dipsmith.examples.households`, seed 11) are released by AIM three times. Distances (total variation)
are means over all tables of one column of one person by one column of another of the same household, head and member or
neighbours in the list. They stand beside persons made by AIM from the table of persons alone, at the same budget and with
the same household (or person) protected, who are put into households of the authentic sizes at random; and beside the
authentic persons put into households at random, without any noise. Settings were chosen with seed 77.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import numpy as np

from dipsmith.codec.encode import Encoder
from dipsmith.counting.count import BatchRows
from dipsmith.counting.households import HouseholdRoster, HouseholdRows, arrange
from dipsmith.examples import households as example
from dipsmith.methods.graph.aim import AIM
from dipsmith.privacy.budget import ZCDP, Budget, PureDP
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.events import Rehearsal
from dipsmith.privacy.randomness import Stream
from dipsmith.schema import Codes
from dipsmith.schema.households import members_of
from dipsmith.schema.schema import Unit
from dipsmith.sources import source
from dipsmith.utility.households import HEAD, KINDS, NEXT, compare_households

SIMULATED = 11


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--households", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--unit", choices=["household", "person"], default="household", help="who is protected")
    parser.add_argument("--million", action="store_true", help="draw a million members and look for orphans")
    asked = parser.parse_args()
    homes, persons, _ = example.simulate(asked.households, SIMULATED)
    schema = example.schema(unit=asked.unit)
    people = members_of(schema).schema
    alone = (
        replace(people, unit=Unit()) if asked.unit == "person" else people
    )  # where a row is a person, none is left out
    # Listed by their codes, relation first: the same order, and nobody is left out of the tables that are compared.
    listed = replace(schema, members=replace(members_of(schema), order=None))
    codes, theirs = Encoder(schema).encode(homes)[0], Encoder(people).encode(persons)[0]
    true = arrange(codes, theirs, persons["hid"].to_numpy() - 100_001, listed)
    random = np.random.default_rng(5)

    def strangers(members: Codes) -> HouseholdRoster:
        chosen = members.take(random.permutation(len(members))[: len(true.members)])
        return arrange(codes, chosen, true.owners[: len(chosen)], listed)

    show("authentic persons at random", [compare_households(true, strangers(theirs))])
    for budget in (PureDP(1), ZCDP.from_approx(1, 1e-9)):
        made, apart = [], []
        for seed in range(asked.seeds):
            began = time.process_time()
            model = AIM().fit(curator(HouseholdRows(source(homes), source(persons), schema, bytes(32)), budget, seed))
            drawn = model.sample(asked.households, seed)
            took = time.process_time() - began
            assert drawn.members is not None
            made.append(compare_households(true, arrange(drawn, drawn.members, drawn.members.units - 1, listed)))
            flat = AIM().fit(curator(BatchRows(source(persons), alone, bytes(32)), budget, seed))
            apart.append(compare_households(true, strangers(flat.sample(len(theirs), seed))))
        show(f"households, unit {asked.unit}, {budget} ({took:.1f} s of CPU)", made)
        show(f"persons drawn independently, unit {asked.unit}, {budget}", apart)
    if asked.million:
        draw_a_million(model)


def curator(rows: BatchRows, budget: Budget, seed: int) -> Curator:
    """A curator over simulated rows."""
    return Curator(rows, budget, stream=Stream.for_testing(seed), journal=Rehearsal())


def show(what: str, found: list) -> None:
    """Print means over seeds."""
    means = {kind: np.mean([f.means(kind)[0] for f in found]) for kind in KINDS}
    same = [t.tvd for f in found for t in f.tables if t.kind in (HEAD, NEXT) and t.names[0] == t.names[1]]
    sizes = np.mean([f.size_tvd for f in found])
    told = ", ".join(f"{kind} {value:.4f}" for kind, value in means.items())
    print(f"{what}: sizes {sizes:.4f}, {told}; the same column of two people {np.mean(same):.4f}", flush=True)


def draw_a_million(model) -> None:
    """Draw households with a million members, and count orphans, crowds and second heads."""
    began = time.process_time()
    drawn = model.sample(480_000, 1)
    took, members = time.process_time() - began, drawn.members
    orphans = np.count_nonzero(~np.isin(members.units, drawn.units))
    heads = np.bincount(members.units[members["relation"] == 0], minlength=1).max()
    crowd = np.bincount(members.units).max()
    unlawful = np.count_nonzero(~members.lawful()) + np.count_nonzero(~drawn.lawful())
    print(
        f"{len(members):,} members of {len(drawn):,} households in {took:.0f} s of CPU: {orphans} orphans, at most {crowd} in a "
        f"household, at most {heads} head, {unlawful} rows that break a rule"
    )


if __name__ == "__main__":
    main()
