"""One noisy answer: how many rows meet some conditions, charged to the ledger and kept in a file.

The rows are those that a release would count: lawful, inside the domains, at most `max_rows` of a unit. Each condition is a
column of few labels beside the schema's own (`dipsmith.schema.where`); their table is measured once with the whole
budget, and the answer is one of its cells (``docs/proofs/tables.md``).
"""

from __future__ import annotations

import json
import uuid
from dataclasses import asdict, dataclass, replace
from functools import partial
from hashlib import sha256
from math import asinh, ceil, exp, log, sqrt
from pathlib import Path
from typing import Any

import numpy as np

from dipsmith.counting.pushed import rows_of
from dipsmith.counting.tally import check_size
from dipsmith.errors import UnsupportedError, UsageError
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.calibration import price_table
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.events import Rehearsal
from dipsmith.privacy.ledger import AlreadyReleased, Ledger
from dipsmith.privacy.measurement import Measurement
from dipsmith.privacy.noisy_table import is_single, public_groups
from dipsmith.privacy.protection import protection_of
from dipsmith.privacy.randomness import Stream
from dipsmith.privacy.reservation import Reservation, require_accountability
from dipsmith.schema import Marginal, Schema
from dipsmith.schema.attribute import Attribute
from dipsmith.schema.where import one_line, parse_where
from dipsmith.sources import source
from dipsmith.sources.fingerprint import fingerprint
from dipsmith.synthesis.column_map import map_columns
from dipsmith.synthesis.one_file import answer_once, read_answer, require_target
from dipsmith.synthesis.public import require_apart

METHOD = "count"
"""What the ledger calls a run that answers one question."""


@dataclass(frozen=True)
class NoisyCount:
    """How many rows meet some conditions, as the noise leaves it; `low` and `high` hold the true number with 95 %."""

    dataset: str
    where: str
    value: int
    standard_error: float
    low: int
    high: int
    mechanism: str
    guarantee: str
    request: str
    ledger_head: str | None
    testing: bool = False

    def __str__(self) -> str:
        stamp = "NOT PRIVATE (testing seed): " if self.testing else ""
        return (
            f"{stamp}{self.value:,} rows of '{self.dataset}' where {self.where}, ± {self.standard_error:.3g} by noise "
            f"(95 %: {self.low:,} to {self.high:,}); {self.guarantee}"
        )

    def to_json(self) -> str:
        """The answer as the file that is kept."""
        return json.dumps(asdict(self), ensure_ascii=False, indent=2, sort_keys=True) + "\n"


@dataclass(frozen=True, eq=False)
class _Question:
    """Columns that tell whether each condition holds, what they are read from, and the codes that say so."""

    schema: Schema
    columns: dict[str, str]
    codes: tuple[int, ...]

    @classmethod
    def of(cls, where: str, schema: Schema) -> _Question:
        asked, columns, codes = list[Attribute](), dict[str, str](), list[int]()
        for i, condition in enumerate(parse_where(where), start=1):
            if condition.column not in schema:
                raise UsageError(
                    f"--where names '{condition.column}', which is no column of the schema; it has: {', '.join(schema.names)}"
                )
            name = f"condition {i}: {condition.column}"
            attribute, code = condition.asked_of(schema[condition.column], name)
            asked.append(attribute)
            columns[name] = condition.column
            codes.append(code)
        if schema.neighbours == "label" and all(a.role == "public" for a in asked):
            raise UnsupportedError(
                "--where names public columns alone, which under 'label' nobody need ask: count them"
            )
        found = cls(replace(schema, attributes=(*schema.attributes, *asked)), columns, tuple(codes))
        check_size([found.table])  # here, while nothing is charged
        return found

    @property
    def table(self) -> Marginal:
        """What is measured: all conditions, crossed."""
        return Marginal(self.schema, tuple(self.columns))

    def require_payable(self, budget: Budget) -> None:
        """Refuse, while nothing is spent, a budget so small that no noise can be drawn for it."""
        relation, cells = str(self.schema.priced_as), self.table
        single = is_single(cells, public_groups(cells, relation))
        price_table(relation, self.schema.unit.max_rows, cells, budget, single, "")

    def answer(self, measured: Measurement) -> int:
        """The noisy count of the rows that meet all conditions."""
        shape = [self.schema[name].size for name in self.columns]
        return int(measured.values[np.ravel_multi_index(self.codes, shape)])


def count_where(
    data: Any,
    schema: Schema,
    where: str,
    *,
    budget: Budget,
    ledger: Ledger | str | Path | None = None,
    out: str | Path | None = None,
    request: str | None = None,
    another_grant: bool = False,
    testing: bool = False,
    noise_seed: int | None = None,
) -> tuple[NoisyCount, Path | None]:
    """Count the rows that meet some conditions, with noise; the answer, and the file that keeps it.

    Parameters
    ----------
    data, schema
        The confidential rows, any source, and what is public of them.
    where
        Conditions such as ``"age in [30, 71) and sex = F"``.
    budget, ledger
        What the answer costs, and where it is charged; a ledger is required unless `testing`.
    out
        The file to write; by default one beside the ledger, named by the request.
    request
        An id for this question: the same id never draws noise twice, and finds the answer again.

    Privacy
    -------
    Reads `data` only after the whole budget is reserved. One table is measured, whose cells are decided by `where` and the
    schema alone: the answer satisfies `budget` for the schema's unit and neighbours.
    """
    question = _Question.of(where, schema)
    question.require_payable(budget)
    require_accountability(ledger, noise_seed, testing=testing)
    rows, stream = map_columns(data, question.columns), Stream.of(noise_seed)
    rows.check((*schema.columns, *question.columns))
    book = Ledger(ledger) if isinstance(ledger, str | Path) else ledger
    require_apart(schema, [rows], book)
    counted = rows_of(rows, question.schema, key=stream.child("key").new_seed("key"))
    request = str(uuid.uuid4()) if request is None else request
    if book is None:
        curator = Curator(counted, budget, stream=stream, journal=Rehearsal())
        return _answer(curator, question, schema, where, request, None, testing), None
    target = Path(f"count-{sha256(request.encode()).hexdigest()[:12]}.json" if out is None else out)
    require_target(book, request, target)

    def answer(reservation: Reservation) -> tuple[NoisyCount, Path]:
        curator = Curator(counted, budget, stream=stream, journal=reservation)
        return _answer(curator, question, schema, where, request, reservation.head, testing), target

    found, _ = answer_once(
        lambda: book.reserve(
            schema.name,
            budget,
            protects=protection_of(schema),
            source=fingerprint(source(data)),
            request_id=request,
            method=METHOD,
            another_grant=another_grant,
        ),
        answer,
        lambda found: found[0].to_json(),
        partial(_answered_before, where=where),
        target,
    )
    return found


def _answer(
    curator: Curator, question: _Question, schema: Schema, where: str, request: str, head: str | None, testing: bool
) -> NoisyCount:
    (measured,) = curator.measure([question.table], [curator.budget])
    value, reach = question.answer(measured), _reach(measured)
    return NoisyCount(
        dataset=schema.name,
        where=one_line(where),
        value=value,
        standard_error=round(sqrt(measured.variance), 6),
        low=max(0, value - reach),
        high=max(0, value + reach),
        mechanism=measured.mechanism,
        guarantee=f"{curator.budget}, unit {schema.unit}, neighbours {schema.neighbours}",
        request=request,
        ledger_head=head,
        testing=testing,
    )


def _reach(measured: Measurement) -> int:
    """How far the noise of one cell reaches, but with 5 %."""
    variance = measured.variance
    if variance == 0:
        return 0
    if measured.mechanism != "discrete Laplace":
        return ceil(1.959964 * sqrt(variance))
    # P(|X| > k) = 2q^(k+1)/(1+q) with q = exp(-x), cosh x − 1 = 2 sinh²(x/2) = 1/variance.
    x = 2 * asinh(sqrt(1 / (2 * variance)))
    return max(0, ceil(log(2 / (0.05 * (1 + exp(-x)))) / x - 1))


def _answered_before(earlier: AlreadyReleased, where: str) -> tuple[NoisyCount, Path]:
    gone = "this request was answered before, in '{path}', which is gone; ask under a new --request, for a new charge"
    text = read_answer(earlier, gone, "'{path}' is not the answer that the ledger noted")
    found = NoisyCount(**json.loads(text))
    if found.where != one_line(where):
        raise UsageError(
            f"request '{found.request}' asked where {found.where}: use a new --request for another question"
        )
    return found, Path(earlier.path)
