"""A fitted forest: ensembles that label rows one after another, in every stratum.

An ensemble is some trees with a label distribution in every leaf. A row's distribution is the average of the
distributions of its leaves, one from each tree. Drawing one tree at random and then a label from its leaf gives
exactly the same distribution to a single draw, so that labels are drawn through one tree per row. Labels that a rule
forbids for a row have probability 0; a row that the rules leave no label keeps its distribution.

Privacy: made of noisy numbers and public facts only; labelling, sampling and saving are post-processing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import prod
from typing import Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray

from dipsmith.arrays import Floats, Ints
from dipsmith.errors import UsageError
from dipsmith.estimation.lawful import label_codes, lawful_rows, meets
from dipsmith.estimation.sampling import sample_cells
from dipsmith.methods.forest.leaves import LeafView
from dipsmith.methods.forest.settings import ADVICE
from dipsmith.methods.forest.tree_shape import TreeShape
from dipsmith.methods.method import Arrays, arrays_of, join_states
from dipsmith.methods.model_tree import ModelTree, PathShares
from dipsmith.privacy.randomness import Generator, generator, named_seed
from dipsmith.schema import Codes, Marginal, Schema
from dipsmith.schema.rules import Rule

Narrow = NDArray[np.float32]

BLOCK: Final = 1 << 19
"""Probabilities held at once when labelling."""
MOST_LABELS: Final = 2000
"""Joint labels whose probabilities can be asked for."""


@dataclass(frozen=True, eq=False)
class LeafTable:
    """A tree with the label distribution of each leaf (leaves × labels), and the rows in each.

    `sizes` are public, or estimated from noisy counts; None in models of versions that did not keep them.
    """

    tree: TreeShape
    p: Narrow
    sizes: Narrow | None = None

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The tree as JSON-able facts and arrays."""
        facts = {"columns": list(self.tree.columns), "levels": [int(x) for x in self.tree.levels]}
        arrays: dict[str, NDArray[Any]] = {"asks": self.tree.asks, "p": self.p}
        return facts, arrays if self.sizes is None else arrays | {"sizes": self.sizes}


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Trees that label some targets jointly; joint labels vary fastest in the last target.

    There is at least one tree. A tree without questions has one leaf, the label marginal.
    """

    schema: Schema
    targets: tuple[str, ...]
    trees: tuple[LeafTable, ...]

    @cached_property
    def labels(self) -> Marginal:
        """The joint labels."""
        return Marginal.of(self.schema, self.targets)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The attributes that some tree asks."""
        asked = {name for t in self.trees for name in t.tree.attributes}
        return tuple(name for name in self.schema.names if name in asked)

    def probabilities(self, rows: Codes) -> Floats:
        """The probability of every joint label for every row (rows × labels)."""
        p = np.empty((len(rows), self.labels.size))
        for here, part in self._blocks(rows):
            p[here] = self._average(part)
        return p

    def draw(self, rows: Codes, generator: Generator) -> Codes:
        """The rows with the targets drawn; other columns are kept."""
        drawn = np.empty(len(rows), dtype=np.int64)
        if not self.columns and not self._barring_rules(rows):
            drawn = sample_cells(self.trees[0].p[0].astype(np.float64), len(rows), generator)
        else:
            for here, part in self._blocks(rows):
                drawn[here] = self._labels(part, generator)
        codes = dict(zip(self.targets, np.unravel_index(drawn, self.labels.shape), strict=True))
        return Codes.of(self.schema, {**rows.columns, **codes}, len(rows))

    def _blocks(self, rows: Codes) -> Iterator[tuple[slice, Codes]]:
        if absent := [name for name in self.columns if name not in rows.columns]:
            needed = ", ".join(self.columns)
            raise UsageError(f"rows to be labelled have no column '{absent[0]}'; the model needs: {needed}")
        step = max(256, BLOCK // self.labels.size)
        for start in range(0, len(rows), step):
            here = slice(start, min(start + step, len(rows)))
            yield here, rows.take(here) if rows.columns else Codes(self.schema, {}, here.stop - start)

    def _labels(self, part: Codes, generator: Generator) -> Ints:
        if len(self.trees) == 1 or self._barring_rules(part):
            return _pick(self._average(part), generator)
        which = generator.integers(0, len(self.trees), len(part))
        asked = part.project(self.columns)
        label = np.empty(len(part), dtype=np.int64)
        for i, table in enumerate(self.trees):
            mine = np.flatnonzero(which == i)
            label[mine] = _pick(table.p.take(table.tree.index(asked.take(mine)), axis=0), generator)
        return label

    def _average(self, part: Codes) -> Floats:
        p = np.zeros((len(part), self.labels.size))
        for table in self.trees:
            p += table.p.take(table.tree.index(part), axis=0)
        for rule in self._barring_rules(part):
            p = self._bar_impossible(p, part, rule)
        # A product with ones is several times as fast as a sum over so short an axis.
        p /= (p @ np.ones(p.shape[1]))[:, None]
        return p

    def _barring_rules(self, part: Codes) -> list[Rule]:
        """The rules that name a target, and nothing that these rows lack."""
        known, targets = {*part.columns, *self.targets}, {*self.targets}
        return [r for r in self.schema.rules if set(r.attributes) <= known and set(r.attributes) & targets]

    def _bar_impossible(self, p: Floats, part: Codes, rule: Rule) -> Floats:
        barred = meets(rule, label_codes(self.schema, self.targets), self.labels.size)
        others = {n: c for n, c in part.columns.items() if n not in self.targets}
        concerned = meets(rule, others, len(part))
        allowed = p.copy()
        allowed[np.ix_(concerned, barred)] = 0.0
        hopeless = allowed.sum(axis=1) <= 0
        allowed[hopeless] = p[hopeless]
        return allowed

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The ensemble as JSON-able facts and arrays."""
        trees, arrays = join_states(t.state() for t in self.trees)
        return {"targets": list(self.targets), "trees": trees}, arrays

    @classmethod
    def from_state(cls, schema: Schema, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The ensemble back from its state."""
        targets = tuple(facts["targets"])
        tables = []
        for i, fact in enumerate(facts["trees"]):
            tree = TreeShape.root(schema, fact["columns"])
            asks, levels = np.asarray(arrays[f"{i}/asks"]), fact["levels"]
            for start, stop in pairwise(levels[:-1]):
                tree = tree.split(asks[start:stop])
            p = np.asarray(arrays[f"{i}/p"], dtype=np.float32)
            held = arrays.get(f"{i}/sizes")
            sizes = None if held is None else np.asarray(held, dtype=np.float32)
            counted = sizes is None or (sizes.shape == (tree.size,) and bool(np.isfinite(sizes).all()))
            fits = counted and p.shape == (tree.size, schema.size(targets))
            if len(tree.asks) != len(asks) or not fits:
                raise ValueError("a tree and its leaves do not fit together")
            tables.append(LeafTable(tree, p, sizes))
        return cls(schema, targets, tuple(tables))


@dataclass(frozen=True, eq=False)
class StratumForest:
    """The ensembles of one stratum in the order in which they label, and its number of rows."""

    ensembles: tuple[Ensemble, ...]
    rows: float


@dataclass(frozen=True, eq=False)
class ForestModel:
    """Trees with label distributions, one forest for each label of the attribute `strata`, or one for all rows.

    Under the relation `label` it labels rows, otherwise it also makes them. `targets` is what it labels, in the
    schema's order.
    """

    schema: Schema
    relation: str
    targets: tuple[str, ...]
    strata: str | None
    blocks: tuple[StratumForest, ...]

    kind: ClassVar[str] = "forest"

    @property
    def rows(self) -> int:
        """The model's own estimate of the number of rows."""
        return round(sum(max(block.rows, 0.0) for block in self.blocks))

    def label(self, rows: Codes, seed: int | None = None) -> Codes:
        """Draw the targets of every row, beside the columns it has; the same seed draws the same labels."""
        rng = self._generator(seed)
        drawn = {t: np.zeros(len(rows), dtype=np.int64) for t in self.targets}
        for block, here, part in self._parts(rows):
            for ensemble in self._labelling_ensembles(block):
                part = ensemble.draw(part, rng)
            for name in self.targets:
                drawn[name][here] = part[name]
        return Codes.of(self.schema, {**rows.columns, **drawn}, len(rows))

    def probabilities(self, rows: Codes) -> Floats:
        """The probability of every (joint) label for every row: rows × labels, in the schema's order."""
        size = self.schema.size(self.targets)
        if size > MOST_LABELS:
            raise UsageError(
                f"{', '.join(self.targets)} have {size:,} joint labels, probabilities are given for at most "
                f"{MOST_LABELS:,}; draw labels instead"
            )
        p = np.zeros((len(rows), size))
        for block, here, part in self._parts(rows):
            p[here] = self._joint(block, part)
        return p

    def sample(self, n: int | None = None, seed: int | None = None) -> Codes:
        """Draw whole rows (`add-remove` and `replace`), as many as the model counted when `n` is omitted."""
        if self.relation == "label":
            raise UsageError(
                "a forest under neighbours 'label' draws labels for given public rows, not whole rows; "
                "use label(rows) instead"
            )
        rng = self._generator(seed)
        sizes = np.array([max(block.rows, 0.0) for block in self.blocks])

        def draw(wanted: int) -> Codes:
            stratum = sample_cells(sizes, wanted, rng)
            parts = []
            for code, block in enumerate(self.blocks):
                size = int((stratum == code).sum())
                columns = {} if self.strata is None else {self.strata: np.full(size, code)}
                part = Codes.of(self.schema, columns, size)
                for ensemble in block.ensembles:
                    part = ensemble.draw(part, rng)
                parts.append(part)
            made = Codes.concatenate(parts)
            return made if len(parts) == 1 else made.take(rng.permutation(len(made)))

        return lawful_rows(draw, self.rows if n is None else n, seed)

    def kept_tables(self) -> tuple[tuple[str, ...], ...]:
        """The targets that are drawn jointly, with the strata; what leaves keep of other columns is shrunk."""
        strata = () if self.strata is None else (self.strata,)
        return tuple((*strata, *e.targets) for e in self.blocks[0].ensembles)

    def trees(self) -> list[ModelTree]:
        """All trees, those that label the targets first."""
        found = []
        for code, block in enumerate(self.blocks):
            stratum = "" if self.strata is None else f"{self.strata} {self.schema[self.strata].labels[code]}, "
            asking = [e for e in block.ensembles if e.columns]
            for ensemble in sorted(asking, key=lambda e: not set(e.targets) & set(self.targets)):
                public = self.relation == "label" and all(self.schema[n].role == "public" for n in ensemble.columns)
                for i, table in enumerate(ensemble.trees, start=1):
                    which = f"{stratum}{' × '.join(ensemble.targets)}, tree {i} of {len(ensemble.trees)}"
                    found.append(LeafView(table.tree, table.p, table.sizes, ensemble.labels, public).tree(which))
        return found

    def path_shares(self) -> list[PathShares]:
        """How often paths ask each column, for the labels of the targets; nothing where sizes were not kept."""
        found: dict[tuple[str, ...], list[tuple[float, dict[str, float]]]] = {}
        for block in self.blocks:
            for ensemble in self._labelling_ensembles(block):
                for table in ensemble.trees:
                    if table.sizes is not None:
                        mine = table.tree.asked_shares(table.sizes)
                        found.setdefault(ensemble.targets, []).append((max(block.rows, 1.0), mine))
        names = self.schema.public if self.relation == "label" else ()
        shares = []
        for targets, each in found.items():
            whole = sum(rows for rows, _ in each)
            asked = dict.fromkeys(names, 0.0)
            for rows, mine in each:
                asked |= {n: asked.get(n, 0.0) + share * rows / whole for n, share in mine.items()}
            if self.strata is not None:
                asked[self.strata] = 1.0  # each of its labels has trees of its own
            shares.append(PathShares(targets, asked, advice=ADVICE))
        return shares

    # --- keeping ----------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """The model as JSON-able facts and arrays."""
        states = []
        for block in self.blocks:
            ensembles, held = join_states(e.state() for e in block.ensembles)
            states.append(({"rows": float(block.rows), "ensembles": ensembles}, held))
        blocks, arrays = join_states(states)
        public = {"relation": self.relation, "targets": list(self.targets), "strata": self.strata}
        return {**public, "blocks": blocks}, arrays

    @classmethod
    def from_state(cls, schema: Schema, facts: Mapping[str, Any], arrays: Arrays) -> Self:
        """The model back from its state."""
        blocks = []
        for i, block in enumerate(facts["blocks"]):
            each = ((fact, arrays_of(j, arrays_of(i, arrays))) for j, fact in enumerate(block["ensembles"]))
            ensembles = tuple(Ensemble.from_state(schema, fact, held) for fact, held in each)
            blocks.append(StratumForest(ensembles, float(block["rows"])))
        return cls(schema, facts["relation"], tuple(facts["targets"]), facts["strata"], tuple(blocks))

    # --- inside -----------------------------------------------------------------------------------

    def _generator(self, seed: int | None) -> Generator:
        """One that differs between models of different targets: equal draws would make them associated."""
        return generator(None if seed is None else named_seed(seed, self.targets))

    def _labelling_ensembles(self, block: StratumForest) -> tuple[Ensemble, ...]:
        """The ensembles that label the targets; others make the columns that these ask."""
        return tuple(e for e in block.ensembles if set(e.targets) <= set(self.targets))

    def _parts(self, rows: Codes) -> Iterator[tuple[StratumForest, Ints | slice, Codes]]:
        if not self.targets:
            raise UsageError("this forest was made without targets and draws whole rows; name targets to label")
        bare = rows.project([n for n in rows.names if n not in self.targets])
        if self.strata is None:
            yield self.blocks[0], slice(None), bare
            return
        if self.strata not in rows.columns:
            raise UsageError(f"rows to be labelled have no column '{self.strata}', by which the forests are divided")
        for code, block in enumerate(self.blocks):
            here = np.flatnonzero(rows[self.strata] == code)
            if len(here):
                yield block, here, bare.take(here)

    def _joint(self, block: StratumForest, rows: Codes) -> Floats:
        """The product of the ensembles' distributions, over all combinations of the labels before."""
        first, *others = self._labelling_ensembles(block)
        order, p = [*first.targets], first.probabilities(rows)
        for ensemble in others:
            shape = [self.schema[n].size for n in order]
            grid = np.unravel_index(np.arange(prod(shape)), shape)
            parts = []
            for combination in range(p.shape[1]):
                fixed = {n: np.full(len(rows), c[combination]) for n, c in zip(order, grid, strict=True)}
                given = Codes.of(self.schema, {**rows.columns, **fixed}, len(rows))
                parts.append(p[:, combination, None] * ensemble.probabilities(given))
            p = np.concatenate(parts, axis=1)
            order += ensemble.targets
        shape = [self.schema[n].size for n in order]
        axes = [1 + order.index(n) for n in self.targets]
        return p.reshape([len(rows), *shape]).transpose([0, *axes]).reshape(p.shape)


def _pick(p: NDArray[np.floating], generator: Generator) -> Ints:
    """One label for each row, with the given probabilities."""
    # Label by label, which is several times as fast as along so short an axis.
    reached = p.T.copy()
    for before, here in pairwise(reached):
        here += before
    at = generator.random(len(p)) * reached[-1]
    label = np.zeros(len(p), dtype=np.int64)
    for limit in reached:
        label += limit <= at
    # A label of probability 0 at the end must not be reached by rounding.
    if (beyond := np.flatnonzero(label == len(reached))).size:
        label[beyond] = len(reached) - 1 - (p[beyond, ::-1] > 0).argmax(axis=1)
    return label
