"""A small table with every kind of column, for plans to be held against what runs then do."""

import numpy as np

from dipsmith.methods.catalogue import METHODS
from dipsmith.methods.method import PublicFacts
from dipsmith.privacy.budget import PureDP
from dipsmith.privacy.curator import Curator
from dipsmith.schema import Attribute, Categories, Codes, Marginal, Schema, Unit

SIZES = {"place": 6, "grade": 4, "team": 3, "sex": 2, "race": 3}


def schema(relation, unit=None):
    attributes = tuple(
        Attribute(
            name,
            "string",
            Categories.of([f"{name[0]}{i}" for i in range(size)], other=f"{name[0]}0"),
            "private" if name in ("sex", "race") else "public",
        )
        for name, size in SIZES.items()
    )
    return Schema("people", attributes, unit or Unit(), relation)


def rows(relation, n=4000, seed=0):
    rng = np.random.default_rng(seed)
    columns = {name: rng.integers(0, size, n) for name, size in SIZES.items()}
    columns["sex"] = (rng.random(n) < 0.2 + 0.2 * columns["grade"]).astype(int)
    return Codes.of(schema(relation), columns, n)


def facts(codes):
    relation = codes.schema.neighbours
    public = None
    if relation == "label":
        public = Curator.rehearse(codes, PureDP(1), seed=1).public_rows(codes.schema.public)
    return PublicFacts(rows=len(codes), public_rows=public)


def method(name, relation, **settings):
    made = METHODS[name]
    if relation == "label":
        settings.setdefault("targets", ("sex", "race"))
    return made(**settings)


def released_shares(model, codes, wanted, seed):
    """The shares that a model releases on average: expected ones for labels, a large sample otherwise."""
    s = codes.schema
    marginals = [Marginal.of(s, attributes) for attributes in wanted]
    if s.neighbours != "label":
        drawn = model.sample(200_000, seed)
        return [np.bincount(m.index(drawn), minlength=m.size) / len(drawn) for m in marginals]
    p = model.probabilities(codes.project(s.public))
    grid = np.unravel_index(np.arange(p.shape[1]), [s[t].size for t in model.targets])
    tables = [np.zeros(m.size) for m in marginals]
    for j in range(p.shape[1]):
        fixed = {t: np.full(len(codes), c[j]) for t, c in zip(model.targets, grid, strict=True)}
        labelled = Codes.of(s, {**codes.columns, **fixed}, len(codes))
        for table, m in zip(tables, marginals, strict=True):
            table += np.bincount(m.index(labelled), weights=p[:, j], minlength=m.size) / len(codes)
    return tables


def authentic_shares(codes, attributes):
    marginal = Marginal.of(codes.schema, attributes)
    return np.bincount(marginal.index(codes), minlength=marginal.size) / len(codes)
