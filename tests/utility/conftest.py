"""Small tables with known properties, and snapshots."""

import pytest

from dipsmith.schema import Attribute, Categories, Codes, Schema, Unit
from dipsmith.schema.bins import singles


def lists(sizes, ordered=(), neighbours="replace", public=()):
    """A schema of columns x0, x1, … with so many levels each."""
    attributes = []
    for i, size in enumerate(sizes):
        role = "public" if i in public else "private"
        if i in ordered:
            attributes.append(Attribute(f"x{i}", "integer", singles("integer", 0, size - 1), role))
        else:
            labels = [f"l{j}" for j in range(size)]
            attributes.append(Attribute(f"x{i}", "string", Categories.of(labels, other=labels[0]), role))
    return Schema("t", tuple(attributes), Unit(), neighbours)


def uniform(schema, n, rng):
    return Codes.of(schema, {a.name: rng.integers(0, a.size, n) for a in schema}, n)


@pytest.fixture
def small():
    """The helpers above, for tests."""

    class Small:
        pass

    Small.lists, Small.uniform = staticmethod(lists), staticmethod(uniform)
    return Small
