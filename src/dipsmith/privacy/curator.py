"""The curator: the one door between private rows and everything else.

Each verb draws its noise **and** records its charge in the same call, so that what is charged is
what was measured. A method is given a curator and nothing else; it cannot read a row, choose a
scale of noise, or spend more than its curator holds.

Privacy
-------
For a curator with budget B under relation R and unit U, the joint distribution of all answers it
ever gives satisfies B with respect to R and U (sequential composition of its events; see
``docs/proofs/curator.md``). Answers that cost nothing — `public_counts`, `public_rows`, `coins`,
`rows` — are functions of what R declares public.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from fractions import Fraction
from math import isqrt
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dipsmith.counting.contingency import check_size
from dipsmith.counting.count import Rows
from dipsmith.counting.memory import ROOM
from dipsmith.counting.memory_rows import HeldRows
from dipsmith.errors import BudgetError, UnsupportedError, UsageError
from dipsmith.privacy import neighbours
from dipsmith.privacy.accountant import Accountant
from dipsmith.privacy.budget import Budget, PureDP
from dipsmith.privacy.events import (
    Chosen,
    Event,
    Measured,
    Partitioned,
    Repeated,
    Supplied,
    block_of,
    inside,
)
from dipsmith.privacy.measurement import Measurement
from dipsmith.privacy.noise import DiscreteGaussian, DiscreteLaplace, noisy_blocks
from dipsmith.privacy.observer import Counted, Observer, Question, Shown, observed_rows, plain_rows
from dipsmith.privacy.randomness import Stream, coins
from dipsmith.privacy.repetition import Repetitions
from dipsmith.privacy.selection import select
from dipsmith.schema import Cells, Codes, Marginal, Schema

C = TypeVar("C")
O = TypeVar("O")
C_contra = TypeVar("C_contra", contravariant=True)

Progress = Callable[[str, float], None]


class Score(Protocol[C_contra]):
    """How good a candidate is, as a function of counts, with a proven sensitivity.

    What a score needs besides counts (a model's estimate, the public n) is a constructor argument.
    """

    @property
    def name(self) -> str:
        """The name that the ledger shows."""

    def tables(self, candidate: C_contra) -> Sequence[Marginal]:
        """The marginals whose counts decide the candidate's score."""

    def value(self, candidate: C_contra, counts: Sequence[NDArray[np.int64]]) -> float:
        """The score; larger is better."""

    def sensitivity(self, relation: str, max_rows: int) -> Fraction:
        """By how much one unit can change a score."""

    def monotone(self, relation: str) -> bool:
        """Whether one unit moves all scores the same way (halves the noise needed)."""


class Journal(Protocol):
    """Where a curator records its events durably: a ledger's reservation."""

    def record(self, *events: Event) -> None:
        """Append the events; they must be durable when this returns."""


class Rehearsal:
    """A journal kept in memory, for rows that need no protection."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def record(self, *events: Event) -> None:
        """Remember the events."""
        self.events.extend(events)


class Curator:
    """Answers noisy questions about private rows, within a budget.

    Parameters
    ----------
    rows
        The counted rows: already encoded, truncated per unit, lawful.
    budget
        All that this curator may spend.
    stream
        Where noise comes from.
    journal
        Where events are recorded before an answer is given.
    given_rows
        A row count that the steward states as public (needed under `add-remove` to avoid paying).
    coin_seed
        Public seed of the structure's randomness; drawn from the OS when omitted.
    progress
        Called with (stage, share done) for people who wait.
    relation, block, moving
        For the children that `nested` and `partition` make: the relation within the block, its path,
        and whether a unit may leave or enter it.
    """

    def __init__(
        self,
        rows: Rows,
        budget: Budget,
        *,
        stream: Stream,
        journal: Journal,
        given_rows: int | None = None,
        coin_seed: bytes | None = None,
        progress: Progress | None = None,
        relation: str | None = None,
        block: str = "",
        moving: bool = False,
    ) -> None:
        self.schema: Schema = rows.schema
        self.relation: str = relation or rows.schema.neighbours
        self.max_rows: int = rows.schema.unit.max_rows
        self.budget = budget
        self.block = block
        self.moving = moving
        if coin_seed is None:
            with stream.answering(Question("coins", self)):
                coin_seed = stream.observed("coins", stream.words8(32).tobytes())
        self.coin_seed = coin_seed
        self._rows = observed_rows(rows, stream.observer)
        self._spent = 0
        self._stream = stream
        self._journal = journal
        self._given_rows = given_rows
        self._progress = progress
        self._prefetched: list[Marginal] = []

    @classmethod
    def rehearse(
        cls,
        codes: Codes,
        budget: Budget,
        *,
        given_rows: int | None = None,
        seed: int | None = None,
        observer: Observer | None = None,
    ) -> Curator:
        """A curator over rows that need no protection (simulated or public ones), without a ledger.

        For tuning on a public stand-in, for studies and tests. `seed` makes the noise repeatable; only then may an observer
        watch.
        """
        if observer is not None and seed is None:
            raise UsageError(
                "an observer sees exact counts, so it watches replayable noise only: give a seed"
            )
        stream = Stream() if seed is None else Stream.for_testing(seed, observer)
        return cls(HeldRows(codes), budget, stream=stream, journal=Rehearsal(), given_rows=given_rows)

    # --- what is left, and who is waiting ---------------------------------------------------------

    @property
    def pure(self) -> bool:
        """Whether the currency is pure ε (discrete Laplace) rather than ρ (discrete Gaussian)."""
        return isinstance(self.budget, PureDP)

    @property
    def remaining(self) -> Budget | None:
        """What is left to spend, None when nothing is."""
        left = self.budget.units - self._spent
        return type(self.budget).of_units(left) if left > 0 else None

    def report(self, stage: str, share: float) -> None:
        """Tell whoever waits how far the work is; never anything about rows."""
        if self._progress is not None:
            self._progress(stage, share)

    def coins(self, name: str) -> np.random.Generator:
        """Public, replayable randomness for structure: a function of the public seed and the name."""
        return coins(self.coin_seed, f"{self.block}/{name}")

    # --- free answers: what the relation declares public ------------------------------------------

    @property
    def rows(self) -> int | None:
        """The public or given number of rows, None when it is private and was not given.

        Where the relation makes the number public it is the true one, whatever was given: sensitivities that
        depend on it, such as that of mutual information, hold for no other.
        """
        with self._answering("rows"):
            return self._shown("rows", self._public_total())

    def _public_total(self) -> int | None:
        if self.relation == "label" or (self.relation == "replace" and self.max_rows == 1):
            return self._rows.total()
        return self._given_rows

    def _require_public(self, attributes: Sequence[str], verb: str) -> None:
        if self.relation != "label":
            raise UnsupportedError(
                f"{verb} is free only under neighbours 'label', where public columns are declared; "
                f"this schema has '{self.relation}': measure them instead"
            )
        private = [n for n in attributes if self.schema[n].role != "public"]
        if private:
            raise UnsupportedError(f"{verb}: column '{private[0]}' is private; measure it instead")

    def public_counts(self, cells: Sequence[Cells]) -> list[NDArray[np.int64]]:
        """Exact counts of cells over public columns, free under `label`."""
        for partition in cells:
            self._require_public(partition.attributes, "public_counts")
        with self._answering("public counts"):
            return self._shown("public counts", self._rows.count_public(cells))

    def public_rows(self, attributes: Sequence[str]) -> tuple[Codes, NDArray[np.int64]]:
        """The distinct combinations of public columns and how often each occurs, free under `label`."""
        self._require_public(attributes, "public_rows")
        with self._answering("public rows"):
            return self._shown("public rows", self._rows.distinct_public(attributes))

    def public(self, what: str, cost: Budget | None = None) -> None:
        """Note a public table used beside the private one, and charge what it cost if it was made from it."""
        if cost is not None:
            self._take(cost)
        self._journal.record(Supplied(block=self.block, what=what, budget=cost))

    # --- paid answers -----------------------------------------------------------------------------

    def measure(
        self,
        cells: Sequence[Cells],
        budgets: Sequence[Budget],
        *,
        keep_above: int | None = None,
    ) -> list[Measurement]:
        """Count all partitions in one pass and add exact noise to every cell that needs it.

        Privacy
        -------
        One unit moves at most k rows between cells: Δ₁ = k (add-remove) or 2k (replace, label), Δ₂² =
        k² or 2k². Under `label`, for public groups × two labels only one count per group is drawn:
        Δ₁ = k, Δ₂² = k². Cells that a rule forbids and groups that are publicly empty are 0 for every
        neighbour and carry no noise. Each partition is charged its budget.

        Parameters
        ----------
        cells, budgets
            The partitions and what each may cost.
        keep_above
            For tables too large to hold: keep only cells whose noisy count exceeds this public
            threshold, by the same rule for occupied and empty cells.
        """
        if len(cells) != len(budgets):
            raise UsageError(f"{len(cells)} partitions but {len(budgets)} budgets")
        if keep_above is None:
            check_size(list(cells))
        else:
            return [self._measure_large(c, b, keep_above) for c, b in zip(cells, budgets, strict=True)]
        self._charge([self._event(c, b, self._is_single(c)) for c, b in zip(cells, budgets, strict=True)])
        publics = [self._public_part(c) for c in cells]
        with self._answering("measure"):
            counts = self._count(cells)
            return [
                self._noised(c, n, b, sizes)
                for c, n, b, sizes in zip(cells, counts, budgets, self._sizes(publics, counts), strict=True)
            ]

    def total(self, budget: Budget) -> Measurement:
        """The noisy number of rows (add-remove, or units with several rows)."""
        return self.measure([Marginal(self.schema, ())], [budget])[0]

    def choose(self, candidates: Sequence[C], score: Score[C], budget: Budget) -> C:
        """Choose a candidate with a high score: permute-and-flip under pure DP, else exponential.

        Privacy
        -------
        Pure: ε-DP by permute-and-flip (McKenna and Sheldon 2020) at the score's sensitivity. zCDP:
        the exponential mechanism at ε = √(8ρ), which is ρ-zCDP (Cesar and Rogers 2021).
        """
        if not candidates:
            raise UsageError("choose was given no candidates")
        # In a block that a unit may leave and enter, a choice under ρ is two steps of group privacy.
        charged = budget.split(2)[0] if self.moving and not self.pure else budget
        epsilon = charged.exact if self.pure else _exponential_epsilon(charged)
        sensitivity = score.sensitivity(self.relation, self.max_rows)
        self._take(budget)
        self._journal.record(
            Chosen(
                block=self.block,
                candidates=len(candidates),
                score=score.name,
                mechanism="permute-and-flip" if self.pure else "exponential mechanism",
                sensitivity=sensitivity,
                budget=charged,
            )
        )
        with self._answering("choose", candidates, score, budget):
            scores = self._scores(candidates, score)
            winner = select(
                self._stream,
                scores,
                sensitivity,
                epsilon,
                monotone=score.monotone(self.relation),
                law="permute-and-flip" if self.pure else "exponential",
            )
        return candidates[winner]

    def prefetch(self, tables: Iterable[Marginal]) -> None:
        """Count these in the next pass, so that later choices need none.

        Privacy
        -------
        No row is read here, nothing is answered and nothing is charged. The rows remember the exact counts, and each
        answer is drawn, charged and given as if it had counted by itself.
        """
        self._prefetched = list(tables)

    def best_of(
        self,
        run: Callable[[Curator], tuple[O, float]],
        law: Repetitions,
        budget: PureDP,
        *,
        candidates: int,
        score: str,
        conceal: float = 0.0,
    ) -> O:
        """Run a mechanism a secret random number of times and keep the outcome with the highest score.

        Privacy
        -------
        Each run is given a curator of its own that holds ε₀ = `law.each(budget)`, so that outcome and score
        together are ε₀-DP; the best outcome is (2 + η)·ε₀-DP (``docs/proofs/private-selection.md``). One
        event is recorded, before the first run. The runs write to no ledger and report no progress.

        Parameters
        ----------
        run
            The mechanism: asks the curator it is given, and returns an outcome with its score, which
            must be a function of the curator's answers alone.
        law
            The law of the number of runs.
        budget
            What the best outcome costs; pure ε only.
        candidates, score
            For the record: among how many settings a run draws, and by which score runs are compared.
        conceal
            The share of all numbers of runs that one duration stands for: the call returns no sooner than
            that many runs would have taken, since its end is written down with the time.
        """
        if not (self.pure and isinstance(budget, PureDP)):
            raise UnsupportedError(
                "the best of several runs has a price in pure ε only: run with PureDP, or choose settings on a "
                "public stand-in, which is free"
            )
        each = law.each(budget)
        self._take(budget)
        self._journal.record(
            Repeated(
                block=self.block,
                candidates=candidates,
                score=score,
                eta=law.eta,
                gamma=law.gamma,
                budget=budget,
            )
        )
        self.report("selecting", 0.0)
        with self._answering("best of"):
            best = law.best(self._stream, lambda: run(self._trial(each)), conceal)
        self.report("selecting", 1.0)
        return best

    def _trial(self, budget: PureDP) -> Curator:
        """A curator for one run of several: fresh coins, an accountant of its own, nobody who waits."""
        self._stream.observed("run", None)
        return Curator(
            self._rows,
            budget,
            stream=self._stream,
            journal=Accountant(budget, self.relation),
            given_rows=self._given_rows,
            relation=self.relation,
            block=self.block,
            moving=self.moving,
        )

    # --- children ---------------------------------------------------------------------------------

    def nested(self, budget: Budget, name: str = "") -> Curator:
        """A child that holds part of this curator's budget."""
        self._take(budget)
        return self._child(
            self._rows, budget, inside(self.block, name), relation=self.relation, moving=self.moving
        )

    def partition(self, attribute: str, budget: Budget) -> list[Curator]:
        """One child per code of `attribute`, each seeing only that block; together they cost `budget`.

        Privacy
        -------
        Blocks are disjoint. Under add-remove, or under `label` with a public attribute, a unit lies
        in one block and each child gets the whole budget. Under `replace`, or `label` with a private
        attribute, a unit may leave one block and enter another: each child answers at its add-remove
        sensitivity with half the budget. A unit that may recur in several blocks (people over years)
        is charged the sum: the budget is divided among the blocks.
        """
        column = self.schema[attribute]
        public = column.role == "public"
        recurs = neighbours.unit_recurs(self.max_rows, self.schema.unit.per, attribute)
        rule = neighbours.blocks_rule(self.relation, public, recurs)
        if rule == "maximum":
            shares = [budget] * column.size
        elif rule == "two-dearest":
            shares = [budget.split(2)[0]] * column.size
        else:
            shares = list(budget.split(column.size))
        self._take(budget)
        self._journal.record(Partitioned(block=self.block, attribute=attribute, rule=rule, budget=budget))
        return [
            self._child(
                self._rows.within(attribute, code),
                share,
                block_of(self.block, attribute, column.labels[code]),
                relation=neighbours.blocks_relation(self.relation, public, recurs),
                moving=self.moving or rule == "two-dearest",
            )
            for code, share in enumerate(shares)
        ]

    def _child(self, rows: Rows, budget: Budget, block: str, *, relation: str, moving: bool) -> Curator:
        return Curator(
            rows,
            budget,
            stream=self._stream,
            journal=self._journal,
            given_rows=self._given_rows if rows is self._rows else None,
            coin_seed=self.coin_seed,
            progress=self._progress,
            relation=relation,
            block=block,
            moving=moving,
        )

    # --- inside -----------------------------------------------------------------------------------

    def _answering(
        self,
        verb: str,
        candidates: Sequence[C] = (),
        score: Score[C] | None = None,
        budget: Budget | None = None,
    ) -> AbstractContextManager[object]:
        """The time of an answer, for the observer of a testing stream; nothing where nobody watches."""
        if self._stream.observer is None:
            return nullcontext()
        rows = plain_rows(self._rows)
        return self._stream.answering(Question(verb, self, rows, list(candidates), score, budget))

    def _shown(self, what: str, answer: O) -> O:
        if self._stream.observer is not None:
            self._stream.observer.shown(Shown(self, what, answer))
        return answer

    def _observed(
        self,
        answer: Measurement,
        true: NDArray[np.int64],
        occupied: NDArray[np.int64] | None = None,
    ) -> Measurement:
        """The answer, as an observer of a testing stream leaves it."""
        observer = self._stream.observer
        if observer is None:
            return answer
        rows = plain_rows(self._rows)
        return observer.counted(Counted(self, rows, answer.cells, answer.budget, true, occupied, answer))

    def _take(self, budget: Budget) -> None:
        if type(budget) is not type(self.budget):
            raise BudgetError(
                f"asked for {budget} from a curator that holds {self.budget}: one currency per run"
            )
        if self._spent + budget.units > self.budget.units:
            raise BudgetError(
                f"asked for {budget}, but only {self.remaining or 'nothing'} of {self.budget} is left"
            )
        self._spent += budget.units

    def _charge(self, events: Sequence[Measured]) -> None:
        for event in events:
            self._take(event.budget)
        self._journal.record(*events)

    def _public_part(self, cells: Cells) -> Cells | None:
        if self.relation != "label":
            return None
        public, private = cells.by_role()
        if private is None or (public is None and _mixed(private)):
            return None
        return Marginal(self.schema, ()) if public is None else public

    def _sizes(
        self, publics: Sequence[Cells | None], counts: Sequence[NDArray[np.int64]]
    ) -> list[NDArray[np.int64] | None]:
        """The public group sizes of each table; without rules no row is left out, and its own sums are they."""
        if not self.schema.rules:
            return [
                None if p is None else np.asarray(n.reshape(p.size, -1).sum(axis=1))
                for p, n in zip(publics, counts, strict=True)
            ]
        found = iter(self._rows.count_public([p for p in publics if p is not None]))
        return [None if p is None else next(found) for p in publics]

    def _is_single(self, cells: Cells) -> bool:
        public = self._public_part(cells)
        return public is not None and cells.size == 2 * public.size

    def _noise(self, budget: Budget, single: bool) -> DiscreteLaplace | DiscreteGaussian:
        return noise_for(self.relation, self.max_rows, budget, single=single)

    def _event(self, cells: Cells, budget: Budget, single: bool) -> Measured:
        noise = self._noise(budget, single)
        laplace = isinstance(noise, DiscreteLaplace)
        sensitivity = neighbours.l1 if laplace else neighbours.l2_squared
        return Measured(
            block=self.block,
            cells=cells.key,
            size=cells.size,
            mechanism=_law(noise),
            sensitivity=Fraction(sensitivity(self.relation, self.max_rows, single)),
            scale=noise.scale if isinstance(noise, DiscreteLaplace) else noise.sigma2,
            budget=budget,
        )

    def _noised(
        self, cells: Cells, counts: NDArray[np.int64], budget: Budget, totals: NDArray[np.int64] | None
    ) -> Measurement:
        single = totals is not None and cells.size == 2 * len(totals)
        noise = self._noise(budget, single)
        possible = cells.possible()
        noisy = np.ones(cells.size, dtype=bool) if possible is None else possible
        if totals is not None:
            noisy = (noisy.reshape(len(totals), -1) & (totals > 0)[:, None]).ravel()
        values = np.zeros(cells.size, dtype=np.int64)
        if single:
            assert totals is not None
            pair = noisy.reshape(-1, 2)
            both: NDArray[np.bool_] = pair[:, 0] & pair[:, 1]
            table = values.reshape(-1, 2)
            table[:, 1][both] = counts.reshape(-1, 2)[both, 1] + noise.sample(self._stream, int(both.sum()))
            table[:, 0][both] = totals[both] - table[:, 1][both]
            # Where a rule leaves one label, its count is the group's public size for every neighbour.
            only = pair.sum(axis=1) == 1
            table[only] = pair[only] * totals[only, None]
            noisy = (pair & both[:, None]).ravel()
        else:
            values[noisy] = counts[noisy] + noise.sample(self._stream, int(noisy.sum()))
        answer = Measurement(
            cells=cells,
            values=values,
            variance=noise.variance,
            budget=budget,
            mechanism=_law(noise),
            noisy=None if bool(noisy.all()) else noisy,
            totals=totals,
            single=single,
        )
        return self._observed(answer, counts)

    def _measure_large(self, cells: Cells, budget: Budget, keep_above: int) -> Measurement:
        self._charge([self._event(cells, budget, single=False)])
        noise = self._noise(budget, single=False)
        with self._answering("measure"):
            indices, counts = self._rows.count_sparse(cells)
            kept, values = noisy_blocks(noise, self._stream, indices, counts, cells.size, keep_above)
            answer = Measurement(
                cells=cells,
                values=values,
                variance=noise.variance,
                budget=budget,
                mechanism=_law(noise),
                kept=kept,
                threshold=keep_above,
            )
            return self._observed(answer, counts, indices)

    def _count(self, cells: Sequence[Cells]) -> list[NDArray[np.int64]]:
        """Count partitions, in one pass with what was prefetched; the rows remember marginals."""
        ahead, self._prefetched = self._prefetched, []
        asked = {c.key for c in cells}
        more = {table.key: table for table in ahead if table.key not in asked}
        room = ROOM - sum(c.size for c in cells) if more else 0
        fitting = [table for table in more.values() if (room := room - table.size) >= 0]
        return self._rows.count([*cells, *fitting])[: len(cells)]

    def _scores(self, candidates: Sequence[C], score: Score[C]) -> NDArray[np.float64]:
        """The exact score of every candidate, counted in as few passes as memory allows."""
        tables = [list(score.tables(candidate)) for candidate in candidates]
        scores: list[float] = []
        while len(scores) < len(candidates):
            start = stop = len(scores)
            asked: dict[tuple[str, ...], Marginal] = {}
            cells = 0
            while stop < len(candidates) and cells <= ROOM:
                fresh = {t.attributes: t for t in tables[stop] if t.attributes not in asked}
                asked |= fresh
                cells += sum(table.size for table in fresh.values())
                stop += 1
            counts = dict(zip(asked, self._count(list(asked.values())), strict=True))
            scores += [
                score.value(candidate, [counts[table.attributes] for table in needed])
                for candidate, needed in zip(candidates[start:stop], tables[start:stop], strict=True)
            ]
        return np.array(scores)


def _mixed(cells: Cells) -> bool:
    """Whether the partition reads a public attribute."""
    return any(cells.schema[n].role == "public" for n in cells.attributes)


def _law(noise: DiscreteLaplace | DiscreteGaussian) -> str:
    return "discrete Laplace" if isinstance(noise, DiscreteLaplace) else "discrete Gaussian"


def _exponential_epsilon(budget: Budget) -> Fraction:
    """The largest ε, to nine decimals, at which the exponential mechanism costs at most ρ = ε²/8."""
    return Fraction(isqrt(int(8 * budget.exact * 10**18)), 10**9)


def noise_for(
    relation: str, max_rows: int, budget: Budget, *, single: bool = False
) -> DiscreteLaplace | DiscreteGaussian:
    """The noise that makes one table of counts cost `budget`: scale Δ₁/ε, or variance Δ₂²/(2ρ)."""
    if isinstance(budget, PureDP):
        return DiscreteLaplace(Fraction(neighbours.l1(relation, max_rows, single)) / budget.exact)
    return DiscreteGaussian(Fraction(neighbours.l2_squared(relation, max_rows, single)) / (2 * budget.exact))
