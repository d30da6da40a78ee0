"""What a log-linear labeller has learned: effects of public attributes on private labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray

from dipsmith.errors import UsageError
from dipsmith.methods.loglinear.clique import Clique, barred_labels, needed_columns
from dipsmith.methods.loglinear.effects import Effect, Effects, centred
from dipsmith.methods.loglinear.public_design import barred_softmax
from dipsmith.methods.method import Arrays
from dipsmith.privacy.randomness import generator, named_seed
from dipsmith.schema import Codes, Schema

Float = NDArray[np.float64]

BLOCK: Final = 1 << 21
"""Probabilities held at once when labelling."""
KINDS: Final = ("tables", "unshrunk", "errors", "sizes", "strengths")


@dataclass(frozen=True, eq=False)
class StratumEffects:
    """The effects in one stratum, or in all rows.

    For every clique (the label marginal first): `tables` are the effects θ, public cells × labels; `unshrunk` the
    same without the pull of the penalties, for reading rather than labelling, with standard errors against the
    first label, relative to the average row; `sizes` the public number of rows in each cell; `strengths` log λ.
    """

    cliques: tuple[Clique, ...]
    tables: tuple[Float, ...]
    unshrunk: tuple[Float, ...]
    errors: tuple[Float, ...]
    sizes: tuple[NDArray[np.int64], ...]
    strengths: tuple[Float, ...]

    def effects(self, schema: Schema, stratum: str) -> Iterator[Effect]:
        """One line per public cell and label."""
        for i, clique in enumerate(self.cliques):
            if not clique.predictors:
                continue
            cells, labels = _names(schema, clique.predictors), _names(schema, clique.targets)
            sizes, about, targets = self.sizes[i], " × ".join(clique.predictors), " × ".join(clique.targets)
            shrunk, occupied = centred(self.tables[i], sizes), sizes[:, None] > 0
            errors = np.where(occupied, self.errors[i], np.inf)
            effects = np.where(occupied, centred(self.unshrunk[i], sizes), shrunk)
            for cell, k in np.ndindex(effects.shape):
                names = stratum, about, cells[cell], targets, labels[k + 1], labels[0]
                effect, error, used = (float(x[cell, k]) for x in (effects, errors, shrunk))
                yield Effect(*names, effect, error, used, int(sizes[cell]))

    def state(self) -> tuple[list[dict[str, Any]], dict[str, NDArray[Any]]]:
        """Names of the terms, and their arrays."""
        facts = [{"predictors": list(c.predictors), "targets": list(c.targets)} for c in self.cliques]
        held = {f"{kind}/{i}": array for kind in KINDS for i, array in enumerate(getattr(self, kind))}
        return facts, held

    @classmethod
    def from_state(cls, facts: list[dict[str, Any]], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The block back from its state."""
        cliques = tuple(Clique(tuple(c["predictors"]), tuple(c["targets"])) for c in facts)
        kinds = {kind: tuple(arrays[f"{kind}/{i}"] for i in range(len(cliques))) for kind in KINDS}
        return cls(cliques, **kinds)


@dataclass(frozen=True, eq=False)
class LogLinearModel:
    """Labels any rows that have the public attributes; targets are in the schema's order.

    With strata there is one block of effects for every label of that attribute.
    """

    schema: Schema
    targets: tuple[str, ...]
    strata: str | None
    blocks: tuple[StratumEffects, ...]

    kind: ClassVar[str] = "loglinear"

    @property
    def rows(self) -> None:
        """Nothing: the number of rows is that of the rows to be labelled."""
        return None

    @property
    def predictors(self) -> tuple[str, ...]:
        """The public attributes that decide a label, those that rules name included."""
        asked = {p for b in self.blocks for c in b.cliques for p in c.predictors}
        return needed_columns(self.schema, self.targets, asked | ({self.strata} if self.strata else set()))

    def probabilities(self, rows: Codes) -> Float:
        """The probability of every (joint) label for every row: rows × labels, in the schema's order."""
        found = np.empty((len(rows), self.schema.size(self.targets)))
        for here, p in self._parts(rows):
            found[here] = p
        return found

    def label(self, rows: Codes, seed: int | None = None) -> Codes:
        """Draw the targets of every row, beside the columns it has; the same seed draws the same labels."""
        rng = generator(None if seed is None else named_seed(seed, self.targets))
        drawn = np.empty(len(rows), dtype=np.int64)
        for here, p in self._parts(rows):
            reached = np.cumsum(p, axis=1)
            at = rng.random(len(p)) * reached[:, -1]
            drawn[here] = (reached <= at[:, None]).sum(axis=1)
        shape = tuple(self.schema[t].size for t in self.targets)
        columns = dict(zip(self.targets, np.unravel_index(drawn, shape), strict=True))
        return Codes.of(self.schema, {**rows.columns, **columns}, len(rows))

    def sample(self, n: int | None = None, seed: int | None = None) -> Codes:
        """Refuse: this model knows labels given rows, not rows."""
        raise UsageError(
            "a loglinear model draws labels for given public rows, not whole rows; use label(rows) instead"
        )

    def effects(self) -> Effects:
        """The estimated effects with noise-aware standard errors."""
        strata = self.schema[self.strata].labels if self.strata else ("",)
        blocks = zip(strata, self.blocks, strict=True)
        return Effects(tuple(e for stratum, block in blocks for e in block.effects(self.schema, stratum)))

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Effects, standard errors and public sizes."""
        arrays: dict[str, NDArray[Any]] = {}
        cliques = []
        for i, block in enumerate(self.blocks):
            facts, held = block.state()
            cliques.append(facts)
            arrays |= {f"{i}/{name}": array for name, array in held.items()}
        return {"targets": list(self.targets), "strata": self.strata, "cliques": cliques}, arrays

    @classmethod
    def from_state(cls, schema: Schema, facts: Mapping[str, Any], arrays: Arrays) -> Self:
        """The model back from its state."""
        blocks = []
        for i, cliques in enumerate(facts["cliques"]):
            held = {n.removeprefix(f"{i}/"): a for n, a in arrays.items() if n.startswith(f"{i}/")}
            blocks.append(StratumEffects.from_state(cliques, held))
        return cls(schema, tuple(facts["targets"]), facts["strata"], tuple(blocks))

    def _parts(self, rows: Codes) -> Iterator[tuple[NDArray[np.int64] | slice, Float]]:
        """Rows and their probabilities, a part at a time."""
        if absent := [p for p in self.predictors if p not in rows.columns]:
            needed = ", ".join(self.predictors)
            raise UsageError(f"rows to be labelled have no column '{absent[0]}'; the model needs: {needed}")
        step = max(256, BLOCK // self.schema.size(self.targets))
        spreads = [self._spread(b) for b in self.blocks]
        for start in range(0, len(rows), step):
            stop = min(start + step, len(rows))
            part = rows.take(slice(start, stop))
            if self.strata is None:
                yield slice(start, stop), self._given(self.blocks[0], spreads[0], part)
                continue
            for code, (block, spread) in enumerate(zip(self.blocks, spreads, strict=True)):
                here = np.flatnonzero(part[self.strata] == code)
                if len(here):
                    yield start + here, self._given(block, spread, part.take(here))

    def _spread(self, block: StratumEffects) -> list[Float]:
        """Every term's effects over the joint labels."""
        terms = zip(block.cliques, block.tables, strict=True)
        return [table[:, clique.of_label(self.schema, self.targets)] for clique, table in terms]

    def _given(self, block: StratumEffects, spread: list[Float], part: Codes) -> Float:
        eta = np.zeros((len(part), self.schema.size(self.targets)))
        for clique, table in zip(block.cliques, spread, strict=True):
            eta += table.take(clique.groups(self.schema).index(part), axis=0)
        return barred_softmax(eta, barred_labels(part, self.targets), slice(None))[0]


def _names(schema: Schema, attributes: Sequence[str]) -> list[str]:
    """The names of all combinations of values."""
    return [" × ".join(labels) for labels in product(*(schema[n].labels for n in attributes))]
