"""A fitted forest: ensembles that label rows one after another, in every stratum.

Made of noisy numbers and public facts only; labelling, sampling and saving it are post-processing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray

from dipsmith.errors import UsageError
from dipsmith.estimation.lawful import lawful_rows
from dipsmith.estimation.sampling import sample_cells
from dipsmith.methods.forest.ensemble import Ensemble
from dipsmith.methods.method import Arrays
from dipsmith.privacy.randomness import Generator, generator, named_seed
from dipsmith.schema import Codes, Schema

MOST_LABELS: Final = 2000
"""Joint labels whose probabilities can be asked for."""


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
            for ensemble in self._labelling(block):
                part = ensemble.draw(part, rng)
            for name in self.targets:
                drawn[name][here] = part[name]
        return Codes.of(self.schema, {**rows.columns, **drawn}, len(rows))

    def probabilities(self, rows: Codes) -> NDArray[np.float64]:
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

    # --- keeping ----------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """The model as JSON-able facts and arrays."""
        arrays: dict[str, NDArray[Any]] = {}
        blocks = []
        for i, block in enumerate(self.blocks):
            ensembles = []
            for j, ensemble in enumerate(block.ensembles):
                facts, held = ensemble.state()
                ensembles.append(facts)
                arrays |= {f"{i}/{j}/{key}": value for key, value in held.items()}
            blocks.append({"rows": float(block.rows), "ensembles": ensembles})
        public = {"relation": self.relation, "targets": list(self.targets), "strata": self.strata}
        return {**public, "blocks": blocks}, arrays

    @classmethod
    def from_state(cls, schema: Schema, facts: Mapping[str, Any], arrays: Arrays) -> Self:
        """The model back from its state."""
        blocks = []
        for i, block in enumerate(facts["blocks"]):
            ensembles = []
            for j, fact in enumerate(block["ensembles"]):
                start = f"{i}/{j}/"
                held = {k.removeprefix(start): v for k, v in arrays.items() if k.startswith(start)}
                ensembles.append(Ensemble.from_state(schema, fact, held))
            blocks.append(StratumForest(tuple(ensembles), float(block["rows"])))
        return cls(schema, facts["relation"], tuple(facts["targets"]), facts["strata"], tuple(blocks))

    # --- inside -----------------------------------------------------------------------------------

    def _generator(self, seed: int | None) -> Generator:
        """One that differs between models of different targets: equal draws would make them associated."""
        return generator(None if seed is None else named_seed(seed, self.targets))

    def _labelling(self, block: StratumForest) -> tuple[Ensemble, ...]:
        """The ensembles that label the targets; others make the columns that these ask."""
        return tuple(e for e in block.ensembles if set(e.targets) <= set(self.targets))

    def _parts(self, rows: Codes) -> Iterator[tuple[StratumForest, NDArray[np.int64] | slice, Codes]]:
        if not self.targets:
            raise UsageError(
                "this forest was made without targets and draws whole rows; name targets to label"
            )
        bare = rows.project([n for n in rows.names if n not in self.targets])
        if self.strata is None:
            yield self.blocks[0], slice(None), bare
            return
        if self.strata not in rows.columns:
            raise UsageError(
                f"rows to be labelled have no column '{self.strata}', by which the forests are divided"
            )
        for code, block in enumerate(self.blocks):
            here = np.flatnonzero(rows[self.strata] == code)
            if len(here):
                yield block, here, bare.take(here)

    def _joint(self, block: StratumForest, rows: Codes) -> NDArray[np.float64]:
        """The product of the ensembles' distributions, over all combinations of the labels before."""
        order: list[str] = []
        p = np.ones((len(rows), 1))
        for ensemble in self._labelling(block):
            shape = [self.schema[n].size for n in order]
            grid = np.unravel_index(np.arange(prod(shape)), shape) if order else ()
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
