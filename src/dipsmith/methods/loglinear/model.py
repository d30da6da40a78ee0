"""What a log-linear labeller has learned: effects of public attributes on private labels, with standard errors.

An effect is the log-odds of a label against the reference label (the first of the schema) in one cell
of a term, relative to the average row: effects of a term, weighted by the public number of rows in
each cell, sum to zero. Labels are drawn with *shrunk* effects, which are better on the whole but drawn
towards zero one by one. What is reported for reading is the estimate without that pull, whose standard
error covers sampling and noise: ± 1.96 of them hold the truth 95 times in 100. (Interactions overlap with
the effects that they refine and are told from them by shrinkage alone; they are reported shrunk, with
their posterior standard deviation.)
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray

from dipsmith.arrays import Floats, Ints
from dipsmith.errors import UsageError
from dipsmith.methods.loglinear.clique import Clique, barred_labels, needed_columns
from dipsmith.methods.loglinear.memory import Memory
from dipsmith.methods.loglinear.public_design import LabelTerm, contrasts
from dipsmith.methods.loglinear.softmax import barred_softmax
from dipsmith.methods.method import Arrays, arrays_of, join_states
from dipsmith.privacy.randomness import generator, named_seed
from dipsmith.schema import Codes, Schema

BLOCK: Final = 1 << 21
"""Probabilities held at once when labelling."""
KINDS: Final = ("tables", "unshrunk", "errors", "sizes", "strengths")
EFFECTS_SHOWN: Final = 40
"""Effects that are printed."""


@dataclass(frozen=True)
class Effect:
    """One effect: the log-odds of `label` against `reference` in one cell, relative to the average row.

    The cell is `level` of the public attributes (names joined by ×) in a stratum (empty for all rows), with so many
    public rows; without any the standard error is infinite. `shrunk` is the effect as it is used for drawing labels.
    """

    stratum: str
    attributes: str
    level: str
    targets: str
    label: str
    reference: str
    effect: float
    std_error: float
    shrunk: float
    rows: int


@dataclass(frozen=True)
class Effects:
    """All effects of a model; iterate, or take `to_arrow()` for a table."""

    effects: tuple[Effect, ...]

    def __len__(self) -> int:
        return len(self.effects)

    def __iter__(self) -> Iterator[Effect]:
        return iter(self.effects)

    def of(self, *attributes: str) -> Effects:
        """The effects of one term."""
        name = " × ".join(attributes)
        return Effects(tuple(e for e in self.effects if e.attributes == name))

    def to_arrow(self) -> Any:
        """The effects as a `pyarrow.Table`."""
        import pyarrow as pa

        names = list(Effect.__annotations__)
        return pa.table({name: [getattr(e, name) for e in self.effects] for name in names})

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __str__(self) -> str:
        lines = [
            f"{e.stratum + ' ' if e.stratum else ''}{e.attributes} = {e.level}: {e.targets} {e.label} against {e.reference} {e.effect:+.3f} ± {e.std_error:.3f}"
            for e in self.effects[:EFFECTS_SHOWN]
        ]
        return "\n".join([*lines, *([f"… {len(self) - EFFECTS_SHOWN} more"] if len(self) > EFFECTS_SHOWN else [])])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        columns = ("attribute", "level", "target", "label", "against", "effect", "s.e.", "shrunk", "rows")
        lines = ["".join(f"<th>{c}</th>" for c in columns)]
        for e in self.effects[:EFFECTS_SHOWN]:
            names = (html.escape(v) for v in (e.attributes, e.level, e.targets, e.label, e.reference))
            values = (*names, f"{e.effect:+.3f}", f"{e.std_error:.3f}", f"{e.shrunk:+.3f}", f"{e.rows:,}")
            lines.append("<tr>" + "".join(f"<td>{v}</td>" for v in values) + "</tr>")
        more = f"<p>… {len(self) - EFFECTS_SHOWN} more: to_arrow()</p>" if len(self) > EFFECTS_SHOWN else ""
        return f"<table><thead><tr>{lines[0]}</tr></thead><tbody>{''.join(lines[1:])}</tbody></table>{more}"


def centre_effects(table: Floats, sizes: NDArray[np.integer]) -> Floats:
    """Log-odds against the first label, cells × labels − 1, relative to the average row."""
    odds = table[:, 1:] - table[:, :1]
    return np.asarray(odds - _shares(sizes) @ odds)


def standard_errors(term: LabelTerm, covariance: Floats, sizes: NDArray[np.integer]) -> Floats:
    """Standard errors of effects that are centred (`centre_effects`) of a term, from the covariance of its contrasts."""
    basis = contrasts(term.labels)
    w = _shares(sizes)
    errors = np.empty((term.cells, term.contrasts))
    for label in range(1, term.labels):
        q = basis[label] - basis[0]
        if covariance.ndim == 3:
            own = np.einsum("a,cab,b->c", q, covariance, q)
            variance = own * (1 - 2 * w) + float(w**2 @ own)
        else:
            split = covariance.reshape(term.cells, term.contrasts, term.cells, term.contrasts)
            whole = np.einsum("a,cadb,b->cd", q, split, q)
            variance = np.diag(whole) - 2 * whole @ w + float(w @ whole @ w)
        errors[:, label - 1] = np.sqrt(np.maximum(variance, 0.0))
    return errors


def _shares(sizes: NDArray[np.integer]) -> Floats:
    total = sizes.sum()
    return np.asarray(sizes / total if total else np.full(len(sizes), 1 / max(len(sizes), 1)))


@dataclass(frozen=True)
class ReadEffects:
    """Effects for reading rather than labelling, `unshrunk` by the penalties.

    Standard errors are against the first label, relative to the average row.
    """

    unshrunk: tuple[Floats, ...]
    errors: tuple[Floats, ...]


@dataclass(frozen=True, eq=False)
class StratumEffects:
    """The effects in one stratum, or in all rows.

    For every clique (the label marginal first): `tables` are the effects θ, public cells × labels; `sizes` the public
    number of rows in each cell; `strengths` log λ. `read` finds the effects for reading; it is called once, when they
    are asked for: whoever only draws labels does not wait for standard errors. `memory` is for fits that start here.
    """

    cliques: tuple[Clique, ...]
    tables: tuple[Floats, ...]
    sizes: tuple[Ints, ...]
    strengths: tuple[Floats, ...]
    read: Callable[[], ReadEffects]
    memory: Memory = field(default_factory=Memory)

    @cached_property
    def reading(self) -> ReadEffects:
        """The effects for reading."""
        return self.read()

    @property
    def unshrunk(self) -> tuple[Floats, ...]:
        """`tables` without the pull of the penalties."""
        return self.reading.unshrunk

    @property
    def errors(self) -> tuple[Floats, ...]:
        """Standard errors of the unshrunk effects."""
        return self.reading.errors

    def effects(self, schema: Schema, stratum: str) -> Iterator[Effect]:
        """One line per public cell and label."""
        for i, clique in enumerate(self.cliques):
            if not clique.predictors:
                continue
            cells, labels = _names(schema, clique.predictors), _names(schema, clique.targets)
            sizes, about, targets = self.sizes[i], " × ".join(clique.predictors), " × ".join(clique.targets)
            shrunk, occupied = centre_effects(self.tables[i], sizes), sizes[:, None] > 0
            errors = np.where(occupied, self.errors[i], np.inf)
            effects = np.where(occupied, centre_effects(self.unshrunk[i], sizes), shrunk)
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
        read = ReadEffects(kinds["unshrunk"], kinds["errors"])
        return cls(cliques, kinds["tables"], kinds["sizes"], kinds["strengths"], lambda: read)


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

    def probabilities(self, rows: Codes) -> Floats:
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

    def kept_tables(self) -> tuple[tuple[str, ...], ...]:
        """The tables whose effects are in every stratum."""
        strata = () if self.strata is None else (self.strata,)
        shared = set[tuple[str, ...]].intersection(*({c.attributes for c in b.cliques} for b in self.blocks))
        return tuple((*strata, *names) for names in sorted(shared))

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Effects, standard errors and public sizes."""
        cliques, arrays = join_states(block.state() for block in self.blocks)
        return {"targets": list(self.targets), "strata": self.strata, "cliques": cliques}, arrays

    @classmethod
    def from_state(cls, schema: Schema, facts: Mapping[str, Any], arrays: Arrays) -> Self:
        """The model back from its state."""
        each = enumerate(facts["cliques"])
        blocks = [StratumEffects.from_state(cliques, arrays_of(i, arrays)) for i, cliques in each]
        return cls(schema, tuple(facts["targets"]), facts["strata"], tuple(blocks))

    def _parts(self, rows: Codes) -> Iterator[tuple[Ints | slice, Floats]]:
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
                yield slice(start, stop), self._block_probabilities(self.blocks[0], spreads[0], part)
                continue
            for code, (block, spread) in enumerate(zip(self.blocks, spreads, strict=True)):
                here = np.flatnonzero(part[self.strata] == code)
                if len(here):
                    yield start + here, self._block_probabilities(block, spread, part.take(here))

    def _spread(self, block: StratumEffects) -> list[Floats]:
        """Every term's effects over the joint labels."""
        terms = zip(block.cliques, block.tables, strict=True)
        return [table[:, clique.of_label(self.schema, self.targets)] for clique, table in terms]

    def _block_probabilities(self, block: StratumEffects, spread: list[Floats], part: Codes) -> Floats:
        eta = np.zeros((len(part), self.schema.size(self.targets)))
        for clique, table in zip(block.cliques, spread, strict=True):
            eta += table.take(clique.groups(self.schema).index(part), axis=0)
        return barred_softmax(eta, barred_labels(part, self.targets), slice(None))[0]


def _names(schema: Schema, attributes: Sequence[str]) -> list[str]:
    """The names of all combinations of values."""
    return [" × ".join(labels) for labels in product(*(schema[n].labels for n in attributes))]
