"""The curator: the one door between private rows and everything else.

Each verb draws its noise **and** records its charge in the same call, so that what is charged is what was measured. A
method is given a curator and nothing else; it cannot read a row, choose a scale of noise, or spend more than it holds.

Privacy
-------
For a curator with budget B under relation R and unit U, the joint distribution of all answers it ever gives satisfies B
with respect to R and U (sequential composition of its events; see ``docs/proofs/curator.md``). Answers that cost nothing
(`public_counts`, `public_rows`, `count_kinds`, `coins`, `rows`) are functions of what R declares public.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from dipsmith.arrays import Ints
from dipsmith.counting.count import Codings, MemoryRows, Rows
from dipsmith.counting.tally import check_size
from dipsmith.errors import UsageError
from dipsmith.privacy import neighbours
from dipsmith.privacy.accountant import Accountant, Purse, block_shares
from dipsmith.privacy.budget import Budget, PureDP
from dipsmith.privacy.calibration import choice_epsilon, price_choice, price_table
from dipsmith.privacy.discovery import Discovery, FrequentValues
from dipsmith.privacy.events import Event, Journal, Partitioned, Rehearsal, Repeated, Supplied, block_of, path_inside
from dipsmith.privacy.measurement import Measurement, NoisyAnswer
from dipsmith.privacy.neighbours import refuse_private
from dipsmith.privacy.noise import NoiseLaw, noisy_blocks
from dipsmith.privacy.noisy_table import group_sizes, is_single, noisy_sums, noisy_table, public_groups, public_weights
from dipsmith.privacy.observer import Observer, Witness, observed_rows
from dipsmith.privacy.randomness import Stream, coins
from dipsmith.privacy.repetition import Repetitions
from dipsmith.privacy.score import ExactCounts, Score
from dipsmith.privacy.selection import Law, select
from dipsmith.privacy.value_question import ValueQuestion
from dipsmith.schema import Attribute, Cells, Codes, Marginal, WeightedSums

C = TypeVar("C")
O = TypeVar("O")
Progress = Callable[[str, float], None]


class Curator:
    """Answers noisy questions about private rows, within a budget.

    `rows` are encoded, truncated per unit and lawful already. Noise comes from `stream` (a testing stream may bring an
    observer, `dipsmith.privacy.observer`); events are recorded in `journal` before an answer is given. `given_rows` is a row
    count that the steward states as public: under `add-remove` it then need not be bought. `coin_seed` is the public seed of
    `coins`, drawn when omitted; `progress` is called with (stage, share done). `relation`, `block` and `moving` are for
    children: the relation within a block of rows, its path, and whether a unit may leave or enter it.
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
        self.schema, self.budget = rows.schema, budget
        self.relation, self.max_rows = relation or str(rows.schema.priced_as), rows.schema.unit.max_rows
        self.block, self.moving = block, moving
        self.coin_seed = stream.new_seed("coins") if coin_seed is None else coin_seed
        self._rows = observed_rows(rows, stream.observer)
        self._witness = Witness(stream, rows)
        self._purse = Purse(budget)
        self._stream, self._journal = stream, journal
        self._given_rows, self._progress = given_rows, progress
        self._exact = ExactCounts(self._rows)
        self.answers: list[NoisyAnswer] = []  # all that this curator and its children gave; no longer private

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

        For tuning on a public stand-in, for studies and tests. With a `seed` the noise can be repeated, and observed.
        """
        return cls(
            MemoryRows(codes), budget, stream=Stream.of(seed, observer), journal=Rehearsal(), given_rows=given_rows
        )

    # --- its own state: no answer about rows ---------------------------------------------------------
    @property
    def pure(self) -> bool:
        """Whether the currency is pure ε (discrete Laplace) rather than ρ (discrete Gaussian)."""
        return isinstance(self.budget, PureDP)

    @property
    def remaining(self) -> Budget | None:
        """What is left to spend, None when nothing is."""
        return self._purse.remaining

    def report(self, stage: str, share: float) -> None:
        """Report progress to the caller; never anything about rows."""
        if self._progress is not None:
            self._progress(stage, share)

    def coins(self, name: str) -> np.random.Generator:
        """Public, replayable randomness for structure: a function of the public seed and the name."""
        return coins(self.coin_seed, f"{self.block}/{name}")

    def public(self, what: str, cost: Budget | None = None) -> None:
        """Record that a public table is used; if it was made from the private rows, charge what it cost (a Gaussian ρ)."""
        if cost is not None:
            self._purse.take(cost)
        self._journal.record(Supplied(block=self.block, what=what, budget=cost))

    def prefetch(self, tables: Iterable[Marginal]) -> None:
        """Count these in the next pass, so that later choices need none; reads, answers and charges nothing."""
        self._exact.prefetch(tables)

    # --- free answers: what the relation makes public --------------------------------------------------
    @property
    def rows(self) -> int | None:
        """The true number of rows where it is public, else the number that the steward stated, else None."""
        fixed = self.relation == self.schema.neighbours == "replace" and self.max_rows == 1
        with self._witness.answering(self, "rows"):
            number = self._rows.total() if fixed or self.relation == "label" else self._given_rows
            return self._witness.on_public_answer(self, "rows", number)

    def public_counts(self, cells: Sequence[Cells]) -> list[Ints]:
        """Exact counts of cells over public columns, free under `label`."""
        refuse_private(self.schema, self.relation, [name for c in cells for name in c.attributes], "public_counts")
        with self._witness.answering(self, "public counts"):
            return self._witness.on_public_answer(self, "public counts", self._rows.count_public(cells))

    def public_rows(self, attributes: Sequence[str]) -> tuple[Codes, Ints]:
        """The distinct combinations of public columns and how often each occurs, free under `label`."""
        refuse_private(self.schema, self.relation, attributes, "public_rows")
        with self._witness.answering(self, "public rows"):
            return self._witness.on_public_answer(self, "public rows", self._rows.distinct_public(attributes))

    def count_kinds(self, kinds: Ints, size: int) -> Ints:
        """Count rows by kind, where `kinds` numbers each row by its public columns; free under `label`."""
        refuse_private(self.schema, self.relation, (), "count_kinds")
        with self._witness.answering(self, "public rows"):
            # Of a unit's rows of one kind, labels may decide which count, never how many.
            kinds = kinds[self._rows.public_mask(kinds)]
            return self._witness.on_public_answer(self, "public rows", np.bincount(kinds, minlength=size))

    # --- paid answers -----------------------------------------------------------------------------
    def measure(
        self, cells: Sequence[Cells], budgets: Sequence[Budget], *, keep_above: int | None = None
    ) -> list[Measurement]:
        """Count all partitions in one pass and add exact noise to every cell that needs it.

        Of tables too large to hold, only cells are kept (empty ones too) whose noisy count exceeds `keep_above`, which is public.

        Privacy
        -------
        One unit moves at most k rows between cells: Δ₁ = k (add-remove) or 2k (replace, label), Δ₂² = k² or 2k². Under
        `label`, for public groups × two labels only one count per group is drawn: Δ₁ = k, Δ₂² = k². Cells that a rule forbids
        and publicly empty groups are 0 for every neighbour and carry no noise. Each partition is charged its budget.
        """
        if len(cells) != len(budgets):
            raise UsageError(f"{len(cells)} partitions but {len(budgets)} budgets")
        if keep_above is not None:
            return [self._measure_large(c, b, keep_above) for c, b in zip(cells, budgets, strict=True)]
        check_size(list(cells))
        groups = [public_groups(c, self.relation) for c in cells]
        laws = self._charge(cells, budgets, [is_single(c, g) for c, g in zip(cells, groups, strict=True)])
        with self._witness.answering(self, "measure"):
            counts = self._exact.count(cells)
            asked = zip(cells, counts, group_sizes(groups, counts, self._rows), laws, budgets, strict=True)
            return [self._remember(noisy_table(*one, self._stream), n) for one, n in zip(asked, counts, strict=True)]

    def add_up(self, sums: Sequence[WeightedSums], budgets: Sequence[Budget]) -> list[Measurement]:
        """Add up public weights by public group and private label, in one pass, with exact noise on every sum.

        Privacy
        -------
        `label` only: groups and weights are public, so that one unit moves at most k rows, each from one label's sum to
        another's in its own group, by its weight of at most W: Δ₁ = 2kW, Δ₂² = 2k²W². Of two labels one sum is drawn and the
        other is the group's public weight minus it: Δ₁ = kW, Δ₂² = k²W² (``docs/proofs/weighted-sums.md``).
        """
        refuse_private(self.schema, self.relation, [name for one in sums for name in one.public.attributes], "add_up")
        laws = self._charge(sums, budgets, [one.shape[1] == 2 for one in sums])
        with self._witness.answering(self, "measure"):
            counts = self._exact.count([one.table for one in sums])
            exact = [one.fold(n, one.shape[1]) for one, n in zip(sums, counts, strict=True)]
            asked = zip(sums, exact, public_weights(sums, counts, self._rows), laws, budgets, strict=True)
            return [self._remember(noisy_sums(*one, self._stream), n) for one, n in zip(asked, exact, strict=True)]

    def total(self, budget: Budget) -> Measurement:
        """The noisy number of rows (add-remove, or units with several rows)."""
        return self.measure([Marginal(self.schema, ())], [budget])[0]

    def choose(self, candidates: Sequence[C], score: Score[C], budget: Budget) -> C:
        """Choose a candidate with a high score: permute-and-flip under pure DP, else exponential.

        Privacy
        -------
        Pure: ε-DP by permute-and-flip (McKenna and Sheldon 2020) at the score's sensitivity. Under ρ: the exponential
        mechanism at ε = √(16ρ/π), which is Gaussian with ρ (``docs/proofs/accounting.md``).
        """
        if not candidates:
            raise UsageError("choose was given no candidates")
        # In a block that a unit may leave and enter, a choice under ρ is two steps of group privacy.
        charged = budget.split(2)[0] if self.moving and not self.pure else budget
        sensitivity = score.sensitivity(self.relation, self.max_rows)
        law: Law = "permute-and-flip" if self.pure else "exponential"
        self._pay([budget], price_choice(len(candidates), score.name, law, sensitivity, charged, self.block))
        with self._witness.answering(self, "choose", candidates, score, budget):
            scores, monotone = self._exact.scores(candidates, score), score.monotone(self.relation)
            winner = select(self._stream, scores, sensitivity, choice_epsilon(charged), monotone=monotone, law=law)
        return candidates[winner]

    def ask(self, question: ValueQuestion, budget: Budget) -> Measurement:
        """Answer a question about the values of all rows, such as the votes of a poll, with exact noise.

        Privacy
        -------
        The question states how far one unit moves its counts under the relation, and proves it (``docs/proofs/confirm.md``).
        """
        law, event = question.price(self.relation, self.max_rows, budget, self.block)
        self._pay([budget], event)
        with self._witness.answering(self, "measure"):
            counts = question.count(self._rows, self._stream)
            noisy = counts + law.sample(self._stream, len(counts))
            return self._remember(Measurement(question.cells, noisy, law.variance, budget, law.name), counts)

    def discover(self, question: FrequentValues, budget: Budget) -> Discovery:
        """Find the values of columns that occur often, and how often: noisy counts that reach a threshold.

        Privacy
        -------
        The budget holds except with probability δ, which sets the question's threshold (``docs/proofs/learn.md``).
        """
        law, event = question.price(self.relation, self.max_rows, budget, self.block)
        self._pay([budget], event)
        with self._witness.answering(self, "discover"):
            return self._witness.on_values(question.find(self._rows, law, event.threshold, self._stream))

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
        Each run is given a curator of its own that holds ε₀ = `law.each(budget)`, so that outcome and score together are ε₀-DP;
        the best outcome is (2 + η)·ε₀-DP (``docs/proofs/private-selection.md``). One event is recorded, before the first run.

        `run` returns an outcome with its score, a function of the answers alone. `candidates` (among how many a run draws) and
        `score` (by which runs are compared) are for the record. The time at which it ends is recorded and would reveal the
        number of runs: it waits until the share `conceal` of all possible numbers of runs would have ended.
        """
        each = law.each(budget if self.pure else self.budget)
        event = Repeated(
            block=self.block, candidates=candidates, score=score, eta=law.eta, gamma=law.gamma, budget=budget
        )
        self._pay([budget], event)
        self.report("selecting", 0.0)

        def trial() -> tuple[tuple[O, list[NoisyAnswer]], float]:
            self._stream.show_observer("run", None)
            accountant = Accountant(each, self.relation)
            curator = self._child(self._rows, each, self.relation, self.block, self.moving, accountant)
            outcome, score = run(curator)
            return (outcome, curator.answers), score

        with self._witness.answering(self, "best of"):
            best, answers = law.best(self._stream, trial, conceal)
        self.answers += answers  # of the run that won; those of the other runs are dropped
        self.report("selecting", 1.0)
        return best

    def _measure_large(self, cells: Cells, budget: Budget, keep_above: int) -> Measurement:
        """Measure a table of which only large counts are kept: noise on empty cells is drawn by how many exceed it."""
        (noise,) = self._charge([cells], [budget], [False])
        with self._witness.answering(self, "measure"):
            occupied, counts = self._rows.count_sparse(cells)
            kept, values = noisy_blocks(noise, self._stream, occupied, counts, cells.size, keep_above)
            answer = Measurement(cells, values, noise.variance, budget, noise.name, kept=kept, threshold=keep_above)
            return self._remember(answer, counts, occupied)

    def _charge(self, cells: Sequence[Cells], budgets: Sequence[Budget], singles: Sequence[bool]) -> list[NoiseLaw]:
        """Pay for tables before anything is counted, and return their noise; a `single` one draws one of two labels."""
        asked = zip(cells, budgets, singles, strict=True)
        priced = [price_table(self.relation, self.max_rows, *one, self.block) for one in asked]
        self._pay(budgets, *(event for _, event in priced))
        return [law for law, _ in priced]

    def _pay(self, budgets: Sequence[Budget], *events: Event) -> None:
        """Take budgets from the purse, then record durably what for: before any answer."""
        for budget in budgets:
            self._purse.take(budget)
        self._journal.record(*events)

    def _remember(self, answer: Measurement, true: Ints, occupied: Ints | None = None) -> Measurement:
        """Remember an answer, as the observer returns it."""
        answer = self._witness.on_table(self, answer, true, occupied)
        self.answers.append(NoisyAnswer(answer, self.block))
        return answer

    # --- children: the same rows in part, or seen otherwise, within a part of the budget ----------------
    def nested(self, budget: Budget, name: str = "") -> Curator:
        """A child that holds part of this curator's budget."""
        return self._paid_child(self._rows, budget, path_inside(self.block, name))

    def with_public_columns(self, budget: Budget, name: str, added: Sequence[Attribute], columns: Codings) -> Curator:
        """A child that sees more public columns, computed from the public ones (`label` only); `columns` has their codes."""
        refuse_private(self.schema, self.relation, (), "with_public_columns")
        schema = replace(self.schema, attributes=(*self.schema.attributes, *(a.with_role("public") for a in added)))
        with self._witness.answering(self, "public rows"):
            wider = self._rows.with_public_columns(schema, columns)
        return self._paid_child(wider, budget, path_inside(self.block, name))

    def with_panel_steps(self, budget: Budget) -> Curator:
        """A child that sees the steps of a panel (of steps: the entries; of households: their lines), ``docs/proofs/panel.md``."""
        return self._paid_child(self._rows.steps(), budget, self.block)

    def with_fewer_steps(self, budget: Budget, most: int) -> Curator:
        """A child that sees at most `most` steps of each unit, and answers at that sensitivity (``docs/proofs/panel.md``)."""
        some = block_of(self.block, "steps of a unit", f"at most {most}")
        return self._paid_child(self._rows.with_fewer_steps(most), budget, some if most < self.max_rows else self.block)

    def with_presence(self, budget: Budget, most: int) -> Curator:
        """A child that sees whether units are there, in at most `most` periods of each (``docs/proofs/panel.md``)."""
        return self._paid_child(self._rows.with_fewer_steps(most, away=True), budget, self.block)

    def with_larger_places(self, budget: Budget, level: int) -> Curator:
        """A child that sees larger places, a public function of each row's own: sensitivities are those of rows."""
        return self._paid_child(self._rows.with_larger_places(level), budget, self.block)

    def partition(self, attribute: str, budget: Budget) -> list[Curator]:
        """One child per code of `attribute`, each seeing only that block; together they cost `budget`.

        Privacy
        -------
        Blocks are disjoint. Under add-remove, or `label` with a public attribute, a unit lies in one block: each child gets the
        whole budget. Under `replace`, or `label` with a private attribute, a unit may leave one block and enter another: each
        child answers at its add-remove sensitivity with half the budget. Where a unit may lie in several blocks (people over
        years) the budget is divided among the blocks.
        """
        column = self.schema[attribute]
        public = column.role == "public"
        recurs = neighbours.unit_recurs(self.max_rows, self.schema.unit.per, attribute)
        rule = neighbours.blocks_rule(self.relation, public, recurs)
        shares = block_shares(rule, budget, column.size)
        self._pay([budget], Partitioned(block=self.block, attribute=attribute, rule=rule, budget=budget))
        blocks = [block_of(self.block, attribute, label) for label in column.labels]
        relation = neighbours.blocks_relation(self.relation, public, recurs)
        moving = self.moving or rule == "two-dearest"
        return [
            self._child(self._rows.within(attribute, code), share, relation, blocks[code], moving)
            for code, share in enumerate(shares)
        ]

    def _paid_child(self, rows: Rows, budget: Budget, block: str) -> Curator:
        self._purse.take(budget)
        return self._child(rows, budget, self.relation, block, self.moving)

    def _child(
        self, rows: Rows, budget: Budget, relation: str, block: str, moving: bool, own: Accountant | None = None
    ) -> Curator:
        """A child over these rows. With an accountant of its `own` it has its own answers and coins, and reports no progress."""
        # A stated number of rows is that of all rows, or of all lines of households; no block has it.
        is_whole = rows is self._rows or rows.schema.members != self.schema.members
        child = Curator(
            rows,
            budget,
            stream=self._stream,
            journal=own or self._journal,
            given_rows=self._given_rows if is_whole else None,
            coin_seed=None if own else self.coin_seed,
            progress=None if own else self._progress,
            relation=relation,
            block=block,
            moving=moving,
        )
        child.answers = self.answers if own is None else []
        return child
