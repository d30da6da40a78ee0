"""Watching the curator: every answer that noise was drawn for, with the true numbers behind it.

For the time of a ``with`` block, the places where private numbers meet noise — and no others exist, or the
watch says so — tell an `Observer` what went in and what came out, and hand on what the observer returns:

- `Counted`: a table of counts and its exact noise (`Curator.measure`, held whole or block by block);
- `Picked`: scores and the candidate that won (`Curator.choose`);
- `Shown`: an answer that is free because the relation declares it public;
- and randomness that reads no rows: the order of labelled rows, public coins, the number of runs of a private
  selection, the key by which rows beyond `max_rows` are left out. Drawing rows from a fitted model by a key is none of these: it
  is a function of the model and the key.

Random bytes drawn, or rows counted, outside all of these are `strays`: a noise call that the watch does not
cover, or a read that nobody paid for. An audit with strays proves nothing, so callers check that there are none.

Privacy
-------
An observer sees exact counts. Watching is for simulated tables and tests; nothing in a release uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dipsmith.audit.observed import Counted, Ints, NoiseLaw, Observer, Picked, Shown
from dipsmith.counting.encoded import EncodedRows
from dipsmith.counting.memory import Fixed, Memory, View
from dipsmith.counting.memory_rows import HeldRows
from dipsmith.privacy import curator as curating
from dipsmith.privacy import noisy_table, randomness
from dipsmith.privacy.budget import Budget, PureDP
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.measurement import Measurement
from dipsmith.privacy.noise import DiscreteGaussian, DiscreteLaplace
from dipsmith.privacy.randomness import Stream
from dipsmith.privacy.repetition import Repetitions
from dipsmith.privacy.score import Score
from dipsmith.privacy.selection import Law
from dipsmith.schema import Cells


@dataclass
class Watch:
    """What is open at the moment, and what happened where nothing was."""

    strays: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    laws: list[NoiseLaw] = field(default_factory=list)
    draws: list[Ints] = field(default_factory=list)
    sparse: tuple[Ints, Ints] | None = None
    chosen: tuple[Curator, Sequence[Any], Score[Any], Budget] | None = None
    drawing: list[Stream] = field(default_factory=list)

    def draws_rows(self, stream: Stream) -> bool:
        """Whether a stream is that of a key by which rows are drawn from a model."""
        return any(stream is each for each in self.drawing)

    @contextmanager
    def inside(self, what: str) -> Iterator[None]:
        """Mark that a mechanism is at work."""
        self.open.append(what)
        try:
            yield
        finally:
            self.open.pop()

    def noise(self) -> tuple[tuple[NoiseLaw, ...], Ints]:
        """The noise drawn since the last call."""
        laws, draws = tuple(self.laws), self.draws
        self.laws, self.draws = [], []
        return laws, np.concatenate(draws) if draws else np.empty(0, np.int64)


@contextmanager
def watching(observer: Observer) -> Iterator[Watch]:
    """Let an observer see, and decide, every answer of every curator."""
    watch = Watch()
    with ExitStack() as swapped:
        for owner, name, around in (
            (Curator, "__init__", _seeded),
            (Curator, "_noised", _noised),
            (Curator, "_measure_large", _measured_large),
            (Curator, "measure", _verb("measure")),
            (Curator, "choose", _choosing),
            (Curator, "public_counts", _showing("public counts")),
            (Curator, "public_rows", _showing("public rows")),
            (Curator, "best_of", _verb("best of")),
            (Curator, "_trial", _trial),
            (curating, "select", _selected),
            (noisy_table, "noisy_blocks", _in_blocks),
            (DiscreteLaplace, "sample", _sampled),
            (DiscreteGaussian, "sample", _sampled),
            (Stream, "_bytes", _bytes),
            (Stream, "permutation", _ordered),
            (Stream, "new_seed", _verb("key")),
            (randomness._Ciphered, "__init__", _drawing_rows),
            (Repetitions, "sample", _repeated),
            (EncodedRows, "__init__", _keyed),
            (EncodedRows, "passing", _passing),
            (EncodedRows, "total", _reading),
            (Memory, "find", _recalling),
            (HeldRows, "_lawful", _reading),
            (HeldRows, "_public", _reading),
            (HeldRows, "total", _reading),
            (Curator, "rows", _row_count),
        ):
            swapped.enter_context(_swapped(owner, name, around, watch, observer))
        yield watch


Around = Callable[[Any, Watch, Observer], Any]


@contextmanager
def _swapped(owner: Any, name: str, around: Around, watch: Watch, observer: Observer) -> Iterator[None]:
    original = vars(owner)[name]  # a KeyError here says that the code moved and the watch is blind
    setattr(owner, name, around(original, watch, observer))
    try:
        yield
    finally:
        setattr(owner, name, original)


def _verb(what: str) -> Around:
    def around(original: Any, watch: Watch, observer: Observer) -> Any:
        def verb(self: Curator, *args: Any, **named: Any) -> Any:
            with watch.inside(what):
                return original(self, *args, **named)

        return verb

    return around


def _seeded(original: Any, watch: Watch, observer: Observer) -> Any:
    def init(self: Curator, *args: Any, **named: Any) -> None:
        with watch.inside("coins"):
            original(self, *args, **named)
        if named.get("coin_seed") is None:
            self.coin_seed = observer.random("coins", self.coin_seed)

    return init


def _noised(original: Any, watch: Watch, observer: Observer) -> Any:
    def noised(self: Curator, cells: Cells, counts: Ints, budget: Budget, totals: Ints | None) -> Measurement:
        watch.noise()
        answer: Measurement = original(self, cells, counts, budget, totals)
        laws, draws = watch.noise()
        at = np.arange(cells.size) if answer.noisy is None else np.flatnonzero(answer.noisy)
        at = at[at % 2 == 1] if answer.single else at
        return observer.counted(Counted(self, cells, budget, counts[at], at, laws, draws, answer))

    return noised


def _measured_large(original: Any, watch: Watch, observer: Observer) -> Any:
    def large(self: Curator, cells: Cells, budget: Budget, keep_above: int) -> Measurement:
        watch.noise()
        answer: Measurement = original(self, cells, budget, keep_above)
        laws, draws = watch.noise()
        assert watch.sparse is not None
        (at, true), watch.sparse = watch.sparse, None
        return observer.counted(Counted(self, cells, budget, true, at, laws, draws, answer))

    return large


def _in_blocks(original: Any, watch: Watch, observer: Observer) -> Any:
    def blocks(noise: NoiseLaw, stream: Stream, indices: Ints, counts: Ints, size: int, above: int) -> Any:
        watch.sparse = (indices, counts)
        return original(noise, stream, indices, counts, size, above)

    return blocks


def _choosing(original: Any, watch: Watch, observer: Observer) -> Any:
    def choose(self: Curator, candidates: Sequence[Any], score: Score[Any], budget: Budget) -> Any:
        # A copy: methods go on with the list, and take the winner out of it.
        watch.chosen = (self, list(candidates), score, budget)
        with watch.inside("choose"):
            return original(self, candidates, score, budget)

    return choose


def _selected(original: Any, watch: Watch, observer: Observer) -> Any:
    def select(
        stream: Stream,
        scores: NDArray[np.float64],
        sensitivity: Fraction,
        epsilon: Fraction,
        *,
        monotone: bool,
        law: Law,
    ) -> int:
        winner = original(stream, scores, sensitivity, epsilon, monotone=monotone, law=law)
        assert watch.chosen is not None
        seen = Picked(*watch.chosen, scores, sensitivity, epsilon, monotone, law, winner)
        return observer.picked(seen)

    return select


def _showing(what: str) -> Around:
    def around(original: Any, watch: Watch, observer: Observer) -> Any:
        def show(self: Curator, asked: Any) -> Any:
            with watch.inside(what):
                answer = original(self, asked)
            observer.shown(Shown(self, what, answer))
            return answer

        return show

    return around


def _row_count(original: Any, watch: Watch, observer: Observer) -> Any:
    def rows(self: Curator) -> int | None:
        with watch.inside("rows"):
            answer: int | None = original.fget(self)
        observer.shown(Shown(self, "rows", answer))
        return answer

    return property(rows)


def _trial(original: Any, watch: Watch, observer: Observer) -> Any:
    def trial(self: Curator, budget: PureDP) -> Curator:
        observer.random("run", None)
        child: Curator = original(self, budget)
        return child

    return trial


def _repeated(original: Any, watch: Watch, observer: Observer) -> Any:
    def sample(self: Repetitions, stream: Stream) -> int:
        with watch.inside("runs"):
            return int(observer.random("runs", original(self, stream)))

    return sample


def _ordered(original: Any, watch: Watch, observer: Observer) -> Any:
    def permutation(self: Stream, n: int) -> Ints:
        with watch.inside("order"):
            drawn: Ints = original(self, n)
        return drawn if watch.draws_rows(self) else observer.random("order", drawn)

    return permutation


def _sampled(original: Any, watch: Watch, observer: Observer) -> Any:
    def sample(self: NoiseLaw, stream: Stream, n: int | tuple[int, ...]) -> Ints:
        drawn: Ints = original(self, stream, n)
        watch.laws.append(self)
        watch.draws.append(drawn.ravel().copy())
        return drawn

    return sample


def _bytes(original: Any, watch: Watch, observer: Observer) -> Any:
    def draw(self: Stream, n: int) -> NDArray[np.uint8]:
        if not watch.open and not watch.draws_rows(self):
            watch.strays.append(f"{n} random bytes were drawn outside every mechanism")
        drawn: NDArray[np.uint8] = original(self, n)
        return drawn

    return draw


def _drawing_rows(original: Any, watch: Watch, observer: Observer) -> Any:
    def init(self: Any, key: int) -> None:
        original(self, key)
        watch.drawing.append(self._stream)

    return init


def _keyed(original: Any, watch: Watch, observer: Observer) -> Any:
    def init(self: EncodedRows, *args: Any, **named: Any) -> None:
        original(self, *args, **named)
        self._key = observer.random("key", self._key)

    return init


def _passing(original: Any, watch: Watch, observer: Observer) -> Any:
    def passing(self: EncodedRows, names: Sequence[str], view: View) -> Any:
        if not watch.open:
            watch.strays.append(f"columns {', '.join(names) or '(none)'} were read outside every mechanism")
        return original(self, names, view)

    return passing


def _recalling(original: Any, watch: Watch, observer: Observer) -> Any:
    def find(self: Memory[Any], fixed: Fixed, view: View, wanted: Sequence[str]) -> Any:
        if not watch.open:
            watch.strays.append(
                f"counts of {', '.join(wanted) or '(none)'} were recalled outside every mechanism"
            )
        return original(self, fixed, view, wanted)

    return find


def _reading(original: Any, watch: Watch, observer: Observer) -> Any:
    """Reads through cached properties of `HeldRows`, and through `total`."""

    def noted() -> None:
        if not watch.open:
            watch.strays.append("rows were read outside every mechanism")

    if hasattr(original, "func"):

        def held(self: HeldRows) -> Any:
            noted()
            if original.attrname not in self.__dict__:
                self.__dict__[original.attrname] = original.func(self)
            return self.__dict__[original.attrname]

        return property(held)

    def total(self: HeldRows | EncodedRows) -> int:
        noted()
        return int(original(self))

    return total
