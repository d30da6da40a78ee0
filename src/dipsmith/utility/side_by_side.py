"""A release side by side with the authentic rows: what every metric is a function of.

Confidential by nature: whoever makes one has logged the look first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from dipsmith.schema import Codes, Schema
from dipsmith.synthesis.release import Release
from dipsmith.utility.crosstabs import Crosstabs
from dipsmith.utility.matching import Matched
from dipsmith.utility.pair import Pair, released_codes
from dipsmith.utility.propensity import Propensity, propensity


@dataclass(frozen=True, eq=False)
class SideBySide:
    """A release and the authentic rows, with what several metrics need of them, computed once.

    `fresh` rows are of the same population, and the release was not made from them. `classifiers` (names, or scikit-learn
    classifiers) try to tell the tables apart; `sensitive` columns are attacked, None for the synthesised ones; `matched` is a
    third file joined by an identifier. Every null distribution has so many `draws`.
    """

    authentic: Codes
    release: Release
    schema: Schema
    fresh: pa.Table | None = None
    classifiers: tuple[Any, ...] = ("logistic",)
    sensitive: tuple[str, ...] | None = None
    matched: Matched | None = None
    draws: int = 20
    seed: int = 0
    _scored: dict[tuple[str, int], Propensity] = field(default_factory=dict, repr=False)

    @cached_property
    def pairs(self) -> list[Pair]:
        """One pair of tables for each set of the release."""
        public = self.schema.public if self.schema.neighbours == "label" else ()
        sets = self.release.tables
        names = [n for n in self.authentic.names if all(n in t.column_names for t in sets)]
        authentic = self.authentic.project(names)
        return [Pair.of(authentic, released_codes(t, self.schema, names), public) for t in sets]

    @cached_property
    def tables(self) -> list[Crosstabs]:
        """The cross-tables of each set."""
        return [Crosstabs(pair, self.seed) for pair in self.pairs]

    def propensity(self, classifier: Any, i: int = 0) -> Propensity:
        """Propensity scores of a set; those of the first set come with a null distribution."""
        return propensity(self.pairs[i], classifier, draws=0 if i else self.draws, seed=self.seed)

    def cached_propensity(self, classifier: str, i: int = 0) -> Propensity:
        """The same, kept for the next metric that asks."""
        if (classifier, i) not in self._scored:
            self._scored[classifier, i] = self.propensity(classifier, i)
        return self._scored[classifier, i]
