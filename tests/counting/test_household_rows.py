"""Lines of households: one of each, made of its own rows alone, whatever the order of the files."""

from collections import Counter
from itertools import combinations_with_replacement, pairwise, product

import numpy as np
import pyarrow as pa
import pytest

from dipsmith.counting.households import HouseholdRows, choose_places
from dipsmith.privacy.budget import PureDP
from dipsmith.privacy.value_question import WeightQuestion
from dipsmith.schema import Marginal, Schema, WeightTotals
from dipsmith.schema.households import EARLIER, SIZE, of_earlier, of_head, of_member
from dipsmith.sources import source

KEY = bytes(range(32))
MOST = 3


def schema(relation="add-remove", most=MOST, unit="household"):
    rank = {"name": "relation", "type": "string", "enum": ["head", "kin", "guest"]}
    if relation == "replace":
        rank["other"] = "guest"
    return Schema.from_dict(
        {
            "name": "households",
            "unit": unit,
            "neighbours": relation,
            "members": {
                "name": "persons",
                "fields": [rank, {"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M"}],
                "rules": [{"never": {"relation": "guest", "sex": "F"}}],
            },
            "key": "hid",
            "max_members": most,
            "order": "relation",
            "fields": [{"name": "tenure", "type": "string", "enum": ["own", "rent", "squat", "void"], "other": "own"}],
            "rules": [{"never": {"tenure": "void"}}, {"never": {"tenure": "squat", "relation": "kin"}}],
        }
    )


def rows_of(homes, people, declared=None, key=KEY):
    first = pa.table({"hid": pa.array([h for h, _ in homes], pa.string()), "tenure": [t for _, t in homes]})
    second = pa.table(
        {
            "hid": pa.array([h for h, _, _ in people], pa.string()),
            "relation": pa.array([r for _, r, _ in people], pa.string()),
            "sex": pa.array([s for _, _, s in people], pa.string()),
        }
    )
    return HouseholdRows(source(first), source(second), declared or schema(), key)


def lines(homes, people, declared=None, key=KEY):
    """Every line as a tuple, and how often it occurs: a table of any of the columns is a sum over these."""
    held = rows_of(homes, people, declared, key).steps().codes
    return Counter(zip(*(held[n].tolist() for n in held.names), strict=True))


OTHERS = (
    [("a", "own"), ("b", "rent"), ("c", "void"), ("d", "squat"), (None, "own")],
    [("a", "head", "F"), ("a", "kin", "M"), ("b", "kin", "F"), ("c", "head", "M"), ("d", "kin", "F"), ("d", "head", "F"),
     ("orphan", "head", "M"), (None, "head", "M")],
)  # fmt: skip
KINDS = [("head", "F"), ("head", "M"), ("kin", "F"), ("guest", "M"), ("guest", "F"), ("stranger", "M")]


def every_household(most):
    """Rows of one household 'x': none, one or two rows of the household, and up to `most` members of every kind."""
    members = [m for size in range(most + 1) for m in combinations_with_replacement(KINDS, size)]
    for homes, people in product([(), ("own",), ("squat",), ("void",), ("own", "rent")], members):
        yield [("x", h) for h in homes], [("x", *kind) for kind in people]


@pytest.mark.slow
@pytest.mark.parametrize(("relation", "members"), [("add-remove", 3), ("replace", 2)])
def test_brute_force_a_household_has_one_line(relation, members):
    """All rows of one household, with more members than the cap: it adds one line at most, and takes none away.

    So under add-remove Δ = 1 for every table of lines, and under replace, one line for another, Δ = 2.
    """
    declared = schema(relation, most=2)  # so that three are too many
    before = lines(*OTHERS, declared)
    most = 0
    for homes, people in every_household(members):
        after = lines([*OTHERS[0], *homes], [*OTHERS[1], *people], declared)
        assert not before - after
        added = sum((after - before).values())
        most = max(most, added)
        lawful = bool(homes) and (homes[0][1] != "void" or len(homes) > 1)
        assert added == lawful  # in particular: a member without a household adds nothing
    assert most == 1


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_brute_force_a_person_moves_one_line(relation):
    """Everybody who can join, leave or change in a household of up to two, with every row of the household before and after.

    One line is gone at most, and one has come: Δ₁ = 2 and Δ₂² = 2 for every table of lines, and both are reached.
    """
    declared = schema(relation, most=2, unit="person")
    kinds = [("head", "F"), ("head", "M"), ("kin", "F"), ("guest", "F")]  # the last one breaks a rule
    rests = [m for size in range(3) for m in combinations_with_replacement(kinds, size)]
    houses = [(), ("own",), ("squat",)]
    made = {}

    def found(house, people):
        state = house, tuple(sorted(people))
        if state not in made:
            mine = [("x", h) for h in house], [("x", *kind) for kind in state[1]]
            made[state] = lines([*OTHERS[0], *mine[0]], [*OTHERS[1], *mine[1]], declared)
        return made[state]

    moved = set()
    for people in rests:
        for house, other in product(houses, houses):
            for kind in kinds:
                if relation == "add-remove":
                    before, after = found(house, people), found(other, (*people, kind))
                elif people and bool(house) == bool(other):
                    before, after = found(house, people), found(other, (*people[1:], kind))
                else:
                    continue
                gone, come = sum((before - after).values()), sum((after - before).values())
                assert max(gone, come) <= 1
                moved.add(gone + come)
    assert max(moved) == 2
    told = rows_of([], [], declared)
    assert (told.schema.priced_as, told.steps().schema.priced_as, told.steps().schema.priced_rows) == (
        "replace",
        "replace",
        1,
    )


@pytest.mark.slow
@pytest.mark.parametrize(("unit", "relation", "rows"), [
    ("household", "add-remove", 2), ("household", "replace", 4), ("person", "add-remove", 2), ("person", "replace", 2),
])  # fmt: skip
def test_brute_force_weights_of_members(unit, relation, rows):
    """Members' weights between 0 and 9, at most two of a household: no neighbour moves their totals by more than is priced.

    A household moves two weights (four under replace), a person one that is gone and one that has come.
    """
    plain = schema(relation, most=2, unit=unit).to_dict()
    weight = {"name": "w", "type": "integer", "minimum": 0, "maximum": 9, "bins": {"width": 5}, "role": "weight"}
    plain["members"]["fields"].append(weight)
    declared = Schema.from_dict(plain)
    question = WeightQuestion(WeightTotals(declared.members.schema, ("sex",)))
    _, event = question.price(declared.priced_as, declared.priced_rows, PureDP(1), "")
    assert event.sensitivity * question.cells.step == rows * 9
    kinds = [("head", "F", 9), ("head", "M", 9), ("kin", "M", 5), ("guest", "F", 9)]

    def totals(homes, people):
        first = pa.table({"hid": pa.array(homes, pa.string()), "tenure": ["own"] * len(homes)})
        columns = list(zip(*[("b", "kin", "F", 3), *(("x", *kind) for kind in people)], strict=True))
        second = pa.table(dict(zip(("hid", "relation", "sex", "w"), map(pa.array, columns), strict=True)))
        found = question.count(HouseholdRows(source(first), source(second), declared, KEY), None)
        return found * question.cells.step

    states = [m for size in range(4) for m in combinations_with_replacement(kinds, size)]
    found = {(house, people): totals(["b"] * house, people) for house in (0, 1) for people in states}

    def are_neighbours(people, rest):
        gone, come = (sum((a - b).values()) for a, b in pairwise(map(Counter, (people, rest, people))))
        if unit == "household":
            return relation == "replace" or not people
        return (gone, come) == ((0, 1) if relation == "add-remove" else (1, 1))

    moved = [
        float(np.abs(found[house, people] - found[other, rest]).sum())
        for (house, people), (other, rest) in product(found, found)
        if are_neighbours(people, rest)
    ]
    most = max(moved)
    assert most <= rows * 9 + 1e-9
    assert most >= {("household", "replace"): 36, ("household", "add-remove"): 18}.get((unit, relation), 9)


def test_the_order_of_the_files_does_not_matter():
    random = np.random.default_rng(4)
    homes = [(f"h{i}", str(random.choice(["own", "rent", "squat"]))) for i in range(60)]
    homes += [("h3", "rent"), ("h3", "squat")]
    people = [(f"h{random.integers(0, 70)}", *KINDS[random.integers(0, 6)]) for _ in range(400)]
    mixed = [homes[i] for i in random.permutation(len(homes))], [people[i] for i in random.permutation(len(people))]
    assert lines(homes, people) == lines(*mixed)


def test_a_line_tells_size_head_a_member_and_the_one_before():
    (line,) = lines([("a", "own")], [("a", "guest", "M"), ("a", "kin", "F"), ("a", "head", "M"), ("b", "head", "F")])
    names = rows_of([], []).steps().schema.names
    told = dict(zip(names, line, strict=True))
    assert (told["tenure"], told[SIZE]) == (0, 3)
    assert (told[of_head("relation")], told[of_head("sex")]) == (0, 1)
    member = told[of_member("relation")]
    assert member in (1, 2)  # kin or guest, by the key
    assert told[EARLIER] == (member == 2)
    assert told[of_earlier("relation")] == (1 if member == 2 else 3)  # 3: absent


def test_caps_are_exact_and_a_second_head_counts_nowhere():
    crowd = [("a", "kin", "F")] * 5
    (line,) = lines([("a", "own")], crowd)
    assert line[1] == MOST
    (line,) = lines([("a", "own")], [("a", "head", "F"), ("a", "head", "M")])
    assert line[1] == 1
    (line,) = lines([("a", "squat")], [("a", "kin", "F"), ("a", "head", "M")])  # a rule over both tables
    assert line[1] == 1
    (line,) = lines([("a", "own")], [])
    assert line[1] == 0


def test_keys_that_are_no_text_are_keys_like_any_other():
    """Bytes that are not UTF-8 neither raise nor are left out: whether they do would tell that they are there."""

    def held(given):
        homes = pa.table({"hid": pa.array([given, b"b"]), "tenure": ["own", "rent"]})
        people = [(given, "head"), (given, "kin"), (given, "kin"), (b"b", "head")]
        persons = pa.table({"hid": [h for h, _ in people], "relation": [r for _, r in people], "sex": ["M"] * 4})
        return HouseholdRows(source(homes), source(persons), schema(), KEY).steps().codes[SIZE].tolist()

    assert held(b"\xff\xfe") == held(b"a") == [3, 1]


def test_every_member_beside_the_head_has_the_same_chance():
    """4,000 households of four: each of three places 1,333 ± 30; six standard deviations are passed once in 5e8."""
    places = choose_places([b"h%d" % i for i in range(4_000)], np.full(4_000, 4), KEY)
    assert set(places.tolist()) == {1, 2, 3}
    assert (np.abs(np.bincount(places)[1:] - 4_000 / 3) < 6 * np.sqrt(4_000 * 2 / 9)).all()
    other = choose_places([b"h%d" % i for i in range(4_000)], np.full(4_000, 4), bytes(32))
    assert (places != other).any()


def test_the_number_of_households_is_that_of_their_rows_lawful_or_not():
    rows = rows_of(*OTHERS, schema("replace"))
    assert rows.total() == rows.steps().total() == 4  # 'c' breaks a rule; the row without a key is nobody's
    assert rows.steps().count([Marginal.of(rows.steps().schema, ())])[0].tolist() == [3]


def test_no_row_is_read_before_a_table_is_counted():
    class Unread:
        def batches(self, *_):
            raise AssertionError("read")

        def describe(self):
            return "unread"

    HouseholdRows(Unread(), Unread(), schema(), KEY).steps()
