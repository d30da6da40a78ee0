"""The mechanism of a release, ready to be run again on rows that are public.

A release names its method, its parameters and its budget on the card, and its synthetic rows may be read
by anyone. So anyone can do to the synthetic rows what the steward did to the authentic ones: same method,
same budget, fresh noise. What the mechanism does to a table whose truth is known (the synthetic one) shows
what it has done to the table whose truth is not: the parametric bootstrap (Efron and Tibshirani 1993,
chapter 6), with every step of the mechanism in it: noise, private choices, shrinkage, clipping, binning and
drawing. It works for every method, because it asks a model for nothing but rows.

Privacy
-------
Reads the release and nothing else: post-processing, free, any number of times.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace

import numpy as np
import pyarrow as pa

from dipsmith.codec.decode import decode
from dipsmith.codec.encode import Encoder
from dipsmith.errors import RegistryError, UnsupportedError, UsageError
from dipsmith.estimation.measured_table import MeasuredTable
from dipsmith.estimation.weights import NoisyTotals
from dipsmith.methods.catalogue import METHODS
from dipsmith.methods.method import FitsAgain, Labeller, Method, Model
from dipsmith.privacy.budget import Budget, of_units
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.randomness import Generator, Stream, generator
from dipsmith.privacy.value_question import WeightQuestion
from dipsmith.schema import Codes, Schema, WeightTotals
from dipsmith.sources import source
from dipsmith.synthesis.card import Card
from dipsmith.synthesis.careers import label_source
from dipsmith.synthesis.fitted import label_batch
from dipsmith.synthesis.release import Release
from dipsmith.synthesis.weights import noisy_totals, weigh


@dataclass(frozen=True, eq=False)
class Mechanism:
    """A method with its budget, for the schema that private rows had.

    `budget` is what one sanitisation cost; `schema` encodes private rows (unit and neighbours decide the noise),
    `released` reads synthetic ones; `given_rows` is the count that is publicly known, if any, `rows` how many to draw
    (None: the model's own estimate).
    """

    method: Method
    budget: Budget
    schema: Schema
    released: Schema
    given_rows: int | None
    rows: int | None
    totals: tuple[MeasuredTable, ...] = ()
    """Noisy totals of a survey weight, which are measured again and with which weights are made to agree."""
    known: Model | None = None
    """The model of the release, where this method made it: the search of a further run begins there."""

    @classmethod
    def of(cls, release: Release, method: Method | None = None) -> Mechanism:
        """The mechanism that made a release; `method` where the card cannot tell it."""
        card = release.card
        if not release.models:
            raise UnsupportedError("this release has no model, so its mechanism is not known; get it with model-1.json")
        if release.model.missing and method is None:
            raise RegistryError(release.model.missing)
        return cls(
            method=_method(card) if method is None else method,
            budget=_budget_of_one(release),
            schema=release.model.schema,
            released=release.schema,
            given_rows=card.known_rows,
            rows=None if card.rows_known == "noisy estimate" else card.rows,
            totals=tuple(t for t in release.measurements if t.kind == "weighted totals"),
            known=None if release.model.missing else release.model.inner,
        )

    def codes(self, table: pa.Table) -> Codes:
        """Synthetic rows as the codes that they were drawn as."""
        names = [n for n in self.released.names if n in table.column_names]
        codes, _ = Encoder(self.released, names).encode(table)
        linked = self.schema.unit.order is not None and self.released.linked is not None
        units = table.column(str(self.released.linked)).to_numpy() if linked else None
        return replace(Codes.of(self.schema, codes.columns, len(codes)), units=units)

    def again(self, codes: Codes, table: pa.Table, draws: int, random: Generator) -> list[pa.Table]:
        """Sanitise synthetic rows (as codes, and as they were released) as the private ones were; draw sets from the result."""
        curator = Curator.rehearse(codes, self.budget, given_rows=self.given_rows, seed=_seed(random))
        if self.known is not None and isinstance(self.method, FitsAgain):
            model = self.method.fit_near(curator, self.known)
        else:
            model = self.method.fit(curator)
        if self.schema.neighbours == "label":
            if not isinstance(model, Labeller):
                raise UnsupportedError(f"{self.method.name} labelled these rows, but its model cannot; give method=…")
            public = table.drop_columns(list(model.targets)).combine_chunks()
            if self.schema.linked is not None:
                return [label_source(model, source(public), _seed(random)) for _ in range(draws)]
            whole = public.to_batches(max_chunksize=table.num_rows or 1)
            return [pa.concat_tables([label_batch(model, b, _seed(random)) for b in whole]) for _ in range(draws)]
        made = [decode(model.sample(self.rows, _seed(random)), generator(_seed(random))) for _ in range(draws)]
        return (
            [weigh(drawn, noisy, self.released) for drawn in made] if (noisy := self._totals(table, random)) else made
        )

    def _totals(self, table: pa.Table, random: Generator) -> list[NoisyTotals]:
        """Totals of the released weights with noise like that of the private ones'."""
        found, stream = [], Stream.of(_seed(random)) if self.totals else None
        for measured in self.totals:
            cells = WeightTotals(self.schema, measured.attributes)
            codes, _ = Encoder(self.released, measured.attributes).encode(table)
            question = WeightQuestion(cells)
            law, _ = question.price(str(self.schema.priced_as), self.schema.unit.max_rows, measured.budget, "")
            exact = cells.add_up(cells.index(codes), table.column(cells.weight).to_numpy().astype(np.float64))
            assert stream is not None
            found.append(noisy_totals(cells, exact + law.sample(stream, cells.size), law.variance))
        return found


def _budget_of_one(release: Release) -> Budget:
    """What one sanitisation cost: planned sums were bought beside it, and sets share the rest."""
    card = release.card
    planned = sum(t.budget.units for t in release.measurements if t.kind in ("weighted sums", "weighted totals"))
    rest = card.budget if not planned else of_units(card.budget.currency, max(1, card.budget.units - planned))
    return rest.split(card.sets)[0] if card.each == "split" else rest


def _method(card: Card) -> Method:
    """The method as the card describes it; refused where the card does not tell all of it."""
    found = METHODS.get(card.method)
    if found is None:
        raise UnsupportedError(
            f"'{card.method}' is not one of the methods that dipsmith knows; give it as method=…, "
            "with the parameters on the card"
        )
    assert is_dataclass(found)
    untold = [f.name for f in fields(found) if f.init and f.name not in card.parameters]
    if untold:
        raise UnsupportedError(
            f"the card does not tell {card.method}'s parameter '{untold[0]}', so that its noise cannot be drawn again; "
            "ask the steward for it, and give method=…"
        )
    names = {f.name for f in fields(found)}
    try:
        return found(**{k: v for k, v in card.parameters.items() if k in names})
    except (TypeError, UsageError) as error:
        raise UnsupportedError(
            f"the parameters on the card do not make a {card.method} of this version ({error}); give method=…"
        ) from None


def _seed(random: Generator) -> int:
    return int(random.integers(1 << 62))
