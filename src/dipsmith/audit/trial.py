"""The statistical audit: many runs of a method on two worlds, attacked, and what that proves about its ε."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from inspect import signature
from statistics import mean
from typing import Any, Final

import numpy as np

from dipsmith.audit.attackers import (
    AnswerLaw,
    BudgetSpent,
    Price,
    Transcript,
    cell_counts,
    expected_ratios,
    linear_scores,
    optimal_ratios,
)
from dipsmith.audit.bound import CERTAINTY, CONFIDENCE, TRAINING, Guesses, choose_threshold, guess_held_out, guesses
from dipsmith.audit.observation import Observation
from dipsmith.audit.worlds import TARGETS, TwinRows, worst_worlds
from dipsmith.errors import UnsupportedError, UsageError
from dipsmith.methods.catalogue import METHODS
from dipsmith.methods.method import Labeller, Method, Model, require_relation
from dipsmith.privacy.budget import PureDP
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.events import Partitioned, Rehearsal, Repeated
from dipsmith.privacy.randomness import Stream
from dipsmith.schema import Codes

Prices = tuple[Price, ...]

LEAST_TRIALS: Final = 50

REHEARSED: Final = 0.1
"""The share of trials from which the white-box attacker learns what a run answers; at most `MOST_REHEARSED` of them."""

MOST_REHEARSED: Final = 200

SIMULATED: Final = 40_000
"""Runs of each world that it then simulates to choose its threshold, before a trial is counted."""

REPLICATES: Final = 40
"""How often the optimal attacker is simulated, to see what it reaches on average."""


@dataclass(frozen=True)
class Finding:
    """What attacks on a method showed.

    `lower_bound` (white box) and `black_box` are 95 % lower bounds on ε; `certain` and `black_box_certain` the same at
    1 − 10⁻⁶, with the threshold that is best there, which must not exceed the claim. `optimal` is what an optimal attacker
    reaches on average in as many trials: the likelihood ratio on the same list of answers, each of which tells all that its
    price allows; no attacker on any two worlds does better against these answers. `ceiling` is what could be reached
    against any mechanism at all of the claimed ε: the likelihood ratio on randomised response, of which every ε-DP answer
    is a blurred copy (Kairouz, Oh and Viswanath 2015); a method that divides its budget among several answers with noise of
    their own stays below it. `spent` is the share of the claimed budget that a run's answers were charged: below 1
    `optimal` would be too low. `measurements` and `choices` are the most that one run asked for.
    """

    method: str
    relation: str
    claimed: float
    trials: int
    seed: int
    lower_bound: float
    certain: float
    black_box: float
    black_box_certain: float
    optimal: float
    ceiling: float
    spent: float
    measurements: int
    choices: int
    white: Guesses
    black: Guesses | None

    @property
    def passed(self) -> bool:
        """Whether nothing certain contradicts the claim."""
        return max(self.certain, self.black_box_certain) <= self.claimed

    @property
    def tightness(self) -> float:
        """The white-box bound as a share of the optimal attacker's."""
        return self.lower_bound / self.optimal if self.optimal > 0 else float("nan")

    def to_dict(self) -> dict[str, Any]:
        """Plain values, with the verdict."""
        return asdict(self) | {
            "passed": self.passed,
            "tightness": self.tightness,
            "training_share": {"white": REHEARSED, "black": TRAINING},
            "certainty": CERTAINTY,
        }


def audit(
    method: Method,
    relation: str,
    *,
    epsilon: float | str = 4,
    trials: int = 1000,
    seed: int = 0,
    black_box: bool = True,
    progress: Callable[[float], None] | None = None,
) -> Finding:
    """Attack a method on the worst three-column tables under a relation.

    The columns are a, b (public under `label`) and c; `epsilon` is the claim. Of the `trials` in each of the two worlds a
    tenth (200 at most) shows the white-box attacker what a run is told, the others are counted; the black-box attacker,
    tried unless `black_box` is off, learns from four tenths. With the same `seed` of the simulated noise an audit repeats
    itself; `progress` is told the share that is done.

    >>> from dipsmith.methods.hierarchy.flat import Flat
    >>> found = audit(Flat(), "add-remove", epsilon=1, trials=200, seed=1)
    >>> found.passed, found.measurements, 0.2 < found.lower_bound < 1.2
    (True, 1, True)
    """
    if trials < LEAST_TRIALS:
        raise UsageError(f"{trials} trials prove nothing; give at least {LEAST_TRIALS}")
    require_relation(method, relation)
    worlds = worst_worlds(relation, attacked_labels(method, relation))
    twins = TwinRows.of(worlds)
    budget = PureDP(epsilon)
    public = worlds[0].project(worlds[0].schema.public)
    ratios: list[list[float]] = [[], []]
    counts: list[list[Any]] = [[], []]
    laws: list[list[AnswerLaw]] = []
    prices: list[Prices] = []
    same_prices: dict[Prices, Prices] = {}
    spent: list[int] = []
    rehearsed = min(round(REHEARSED * trials), MOST_REHEARSED)
    for i in range(trials):
        for world in (0, 1):
            transcript, model = _run(method, twins.seen_as(world), budget, f"{seed}/{i}/{world}", whole=black_box)
            ratios[world].append(transcript.ratio)
            spent.append(transcript.spent)
            paid = tuple(transcript.prices)
            prices.append(same_prices.setdefault(paid, paid))
            if i < rehearsed:
                laws.append(transcript.laws)
            if black_box:
                assert model is not None
                made = _rows(model, relation, len(worlds[world]), public, (seed, i, world))
                counts[world].append(cell_counts(made))
        if progress is not None:
            progress((i + 1) / trials)
    first, second = (np.array(values) for values in ratios)
    stream = Stream.for_testing(f"{seed}/expected")
    each = -(-SIMULATED // len(laws))
    expected = [expected_ratios(laws, each, world, stream) for world in (0, 1)]
    usual, strict = (
        choose_threshold(expected[0], expected[1], trials - rehearsed, confidence)
        for confidence in (CONFIDENCE, CERTAINTY)
    )
    white = guesses(usual, first[rehearsed:], second[rehearsed:])
    optimal = _optimal(prices[: 2 * rehearsed], prices[2 * rehearsed :], Stream.for_testing(f"{seed}/optimal"))
    black = strict_black = None
    if black_box:
        training = round(TRAINING * trials)
        scores = linear_scores(np.array(counts[0]), np.array(counts[1]), (training, training))
        black, strict_black = guess_held_out(*scores), guess_held_out(*scores, CERTAINTY)
    return Finding(
        method=method.name,
        relation=relation,
        claimed=float(budget.exact),
        trials=trials,
        seed=seed,
        lower_bound=white.epsilon(),
        certain=guesses(strict, first[rehearsed:], second[rehearsed:]).epsilon(CERTAINTY),
        black_box=0.0 if black is None else black.epsilon(),
        black_box_certain=0.0 if strict_black is None else strict_black.epsilon(CERTAINTY),
        optimal=optimal,
        ceiling=_ceiling(float(budget.exact), trials - rehearsed, Stream.for_testing(f"{seed}/ceiling")),
        spent=min(spent) / budget.units,
        measurements=max(sum(kind == "counts" for kind, _, _ in run) for run in prices),
        choices=max(sum(kind == "choice" for kind, _, _ in run) for run in prices),
        white=white,
        black=black,
    )


def supported_relations(name: str) -> tuple[str, ...]:
    """The neighbouring relations under which a registered method can be attacked."""
    if name not in METHODS:
        raise UsageError(f"method '{name}' is unknown; choose one of: {', '.join(METHODS)}")
    return tuple(getattr(METHODS[name], "relations", ()))


def default_method(name: str, relation: str, targets: Sequence[str]) -> Method:
    """A registered method with its default settings; it is given the `targets` if it needs them under this relation."""
    supported = supported_relations(name)
    if relation not in supported:
        raise UsageError(f"{name} does not support neighbours '{relation}'; choose one of: {', '.join(supported)}")
    made: Any = METHODS[name]
    setting = signature(made).parameters.get("targets")
    needed = setting is not None and (relation == "label" or setting.default is setting.empty)
    method: Method = made(targets=tuple(targets)) if needed else made()
    return method


def attacked_labels(method: Method, relation: str) -> tuple[str, ...]:
    """The labels that the worlds differ in: those that the method makes, where it names some."""
    named: Sequence[str] | None = getattr(method, "targets", None)
    return tuple(named) if relation == "label" and named else TARGETS


def _run(method: Method, rows: TwinRows, budget: PureDP, seed: str, *, whole: bool) -> tuple[Transcript, Model | None]:
    """One run; without its model it ends with its last answer, after which nothing more is released."""
    transcript = Transcript(until=None if whole else budget.units)
    journal = Rehearsal()
    stream = Stream.for_testing(seed, Observation(transcript))
    try:
        return transcript, method.fit(Curator(rows, budget, stream=stream, journal=journal))
    except BudgetSpent:
        if any(isinstance(event, Partitioned | Repeated) for event in journal.events):
            raise UnsupportedError("runs with blocks or repetitions must be heard to their end") from None
        return transcript, None


def _optimal(rehearsed: Sequence[Prices], counted: Sequence[Prices], stream: Stream) -> float:
    """What an optimal attacker, with the threshold that suits it best, reaches on average on the counted runs."""
    expected = [rehearsed[i % len(rehearsed)] for i in range(SIMULATED)]
    simulated = [optimal_ratios(expected, world, stream) for world in (0, 1)]
    threshold = choose_threshold(simulated[0], simulated[1], len(counted) // 2)
    return mean(
        guesses(threshold, *(optimal_ratios(counted[world::2], world, stream) for world in (0, 1))).epsilon()
        for _ in range(REPLICATES)
    )


def _ceiling(epsilon: float, counted: int, stream: Stream) -> float:
    """What the likelihood ratio reaches on average against randomised response at ε, the most telling mechanism."""
    answer: Prices = (("choice", epsilon, 1),)
    return _optimal([answer], [answer] * (2 * counted), stream)


def _rows(model: Model, relation: str, rows: int, public: Codes, seed: tuple[int, int, int]) -> Codes:
    """The synthetic rows of a run, as many as a release would have."""
    drawn = (seed[0] << 40) + 2 * seed[1] + seed[2]
    if relation == "label":
        assert isinstance(model, Labeller)
        return model.label(public, drawn)
    return model.sample(rows if relation == "replace" else None, drawn)
