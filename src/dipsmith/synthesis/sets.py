"""Making the sets of a release from fitted models: post-processing of noisy numbers, and public columns.

Under `label` the public rows are first of all taken out of the file's order: they are sorted by what they say, then put
in an order drawn by the operating system's randomness, a fresh one for every set, and only then labelled.
Whatever is computed from them in order, by a seed or not, therefore knows nothing of the file's order. Rows of
another file, given with `onto`, keep that file's order, which the steward says is public; but if they are the private
table's own rows in another form, they are treated as such.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from dipsmith.privacy.curator import Progress
from dipsmith.privacy.randomness import Stream
from dipsmith.schema import Schema
from dipsmith.sources import Source
from dipsmith.sources.spark import SparkTable
from dipsmith.synthesis.canonical import PublicRows
from dipsmith.synthesis.cluster import ClusterSets
from dipsmith.synthesis.fitted import FittedModel, drawn_table, labelled_table


@dataclass(frozen=True, eq=False)
class SetMaker:
    """Draws the sets of a release.

    Attributes
    ----------
    models
        One model for all sets, or one for each.
    private
        The confidential table.
    target
        Under `label` the rows to label: the confidential table's, or those of another, public file, which keep their
        order. Elsewhere only asked whether workers shall draw.
    stream
        Draws the order of rows.
    seed
        Repeats the drawing from the models; None draws freshly.
    """

    schema: Schema
    models: tuple[FittedModel, ...]
    private: Source
    target: Source
    sets: int
    stream: Stream
    seed: int | None
    progress: Progress | None

    def draw(self, n: int | None) -> Sequence[pa.Table]:
        """Whole rows; in place of a cluster's table they are drawn by its workers."""
        if isinstance(self.target, SparkTable):
            rows = self.models[0].rows if n is None else n
            return ClusterSets(tuple(self._plan()), self.target, self.schema.names, rows)
        tables = []
        for i, (model, seed) in enumerate(self._plan()):
            self._say("drawing", i / self.sets)
            tables.append(drawn_table(model.inner.sample(n, seed), seed))
        self._say("drawing", 1.0)
        return tuple(tables)

    def label(self) -> Sequence[pa.Table]:
        """The target's public columns as they stand, beside drawn labels, in an order that tells nothing.

        Privacy
        -------
        Reads public columns only; see `PublicRows` for what is left of the file they came from.
        """
        columns = {*self.schema.public, *self.models[0].labeller().targets}
        wanted = tuple(n for n in self.schema.names if n in columns)
        if isinstance(self.target, SparkTable):
            key = self.stream.words64(4).tobytes() if self.target is self.private else None
            return ClusterSets(tuple(self._plan()), self.target, wanted, self.target.count(), key)
        self._say("labelling", 0.0)
        names = self.schema.public
        public = PublicRows.of(self.target.batches(names), self.schema, names)
        in_file_order = self._is_another_table(public)
        order = np.arange(public.rows) if in_file_order else public.order()
        tables = []
        for i, (model, seed) in enumerate(self._plan()):
            self._say("labelling", i / self.sets)
            rows = order if in_file_order else order[self.stream.permutation(public.rows)]
            tables.append(labelled_table(model.labeller(), public.table(rows), seed).select(wanted))
        self._say("labelling", 1.0)
        return tuple(tables)

    def _is_another_table(self, public: PublicRows) -> bool:
        """Whether the rows to label are others than the private table's: then their order is theirs to keep."""
        if self.target is self.private:
            return False
        names = self.schema.public
        return not public.has_the_rows_of(PublicRows.of(self.private.batches(names), self.schema, names))

    def _plan(self) -> Iterator[tuple[FittedModel, int | None]]:
        for i in range(self.sets):
            yield self.models[i % len(self.models)], None if self.seed is None else self.seed + i

    def _say(self, stage: str, share: float) -> None:
        if self.progress is not None:
            self.progress(stage, share)
