"""Lines of households: one of each, made of its own rows alone, whatever the order of the files."""

from collections import Counter
from itertools import combinations_with_replacement, product

import numpy as np
import pyarrow as pa
import pytest

from dipsmith.counting.households import HouseholdRows, choose_places
from dipsmith.schema import Marginal, Schema
from dipsmith.schema.households import EARLIER, SIZE, of_earlier, of_head, of_member
from dipsmith.sources import source

KEY = bytes(range(32))
MOST = 3


def schema(relation="add-remove", most=MOST):
    rank = {"name": "relation", "type": "string", "enum": ["head", "kin", "guest"]}
    if relation == "replace":
        rank["other"] = "guest"
    return Schema.from_dict(
        {
            "name": "households",
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
    held = rows_of(homes, people, declared, key).steps().held
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
        return HouseholdRows(source(homes), source(persons), schema(), KEY).steps().held[SIZE].tolist()

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
