"""Penalised conditional log-linear models fitted to noisy tables (multinomial logistic regression).

Given the public rows, the true statistics S of the model of `dipsmith.methods.loglinear.public_design` have mean
E_θ S and covariance H(θ), the information matrix; a noisy table adds independent noise of known
variance: S̃ ~ (E_θ S, H + V). With a normal prior of precision P on the effects φ
(`dipsmith.methods.loglinear.penalty`) the estimate solves

    H (H + V)⁻¹ (S̃ − E_θ S) = P φ.

Read from the left: the equation of every cell counts by its information against sampling and noise.
It is the fixed point of the EM algorithm that treats the true tables as missing: fill in
S* = E_θ S + H(H + V)⁻¹(S̃ − E_θ S), then fit S* by penalised maximum likelihood. Without noise (V = 0)
it *is* penalised maximum likelihood, and without penalty multinomial logistic regression. It is
solved by Gauss–Newton steps, which need G = H(H + V)⁻¹H and its right-hand side only, and each step
chooses the penalties anew. A step that would raise the weighted residual plus penalty is shortened, so
noise of any size gives finite effects.

Few effects are solved together with their full multinomial information matrix, more of them one label contrast at a
time: the weights H(H + V)⁻¹ then leave out what contrasts say of each other (`dipsmith.methods.loglinear.weighing`). A
term with very many cells is solved by itself, cell by cell (its own information matrix is block-diagonal), in turn
with the others. What is reported, with standard errors, always comes from the full matrix, and is only computed when
it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

import numpy as np

from dipsmith.arrays import Floats
from dipsmith.methods.loglinear.memory import Memory
from dipsmith.methods.loglinear.penalty import EXACT, Penalty, slices_of
from dipsmith.methods.loglinear.public_design import PublicDesign
from dipsmith.methods.loglinear.weighing import ContrastWeighing, Weighing

Form = Literal["together", "by contrast", "cell by cell"]

TOGETHER: Final = 3000
"""Effects that are solved together at most: the matrix takes 72 MB, its inverse about a second."""
FREE: Final = 1e-6
"""Precision of effects that are not to be shrunk; above 0 because tables overlap in their sums."""
LEAST_VARIANCE: Final = 1e-3
"""Tables overlap in their sums, so exact ones would have a singular covariance."""
NEGLIGIBLE: Final = 1e-6
"""A step whose mean square, in posterior standard deviations, is below this is the last one."""
ALMOST: Final = 1e-4
"""The same for one of many fits that are looked at together: a hundredth of a standard deviation."""
SHORT: Final = 1e-2
"""After a step with a mean square below this the information matrix is used again."""
NEARLY: Final = 1e-5
"""`NEGLIGIBLE` for accelerated steps, of which the last one goes far beyond its length."""
FAR: Final = 0.25
"""The same where contrasts are taken one by one: weights need not be those of the very last effects."""
THINNED: Final = 250_000
"""Distinct rows that the steps go through at most; all rows are used to correct them."""
ITERATIONS: Final = 40
HALVINGS: Final = 6
TURNS: Final = 6
SWEEPS: Final = 30
STEPS_KEPT: Final = 6
"""Earlier steps that are remembered for acceleration."""


@dataclass(frozen=True, eq=False)
class Reading:
    """Effects for reading rather than labelling, in label contrasts.

    `unshrunk` are the effects without the pull of the penalties on terms that are reported so, `covariances` those
    of every term's own unshrunk effects: (cells·k)² for a term that is read together with others, cells × k × k
    for one that is read cell by cell.
    """

    unshrunk: Floats
    covariances: tuple[Floats, ...]


@dataclass(frozen=True, eq=False)
class EffectEstimate:
    """Flat effects in label contrasts, in the order of the design, with log λ of every term.

    `read` finds the effects without shrinkage and their covariances; it is called once, when they are asked for.
    """

    effects: Floats
    log_strengths: tuple[Floats, ...]
    read: Callable[[], Reading]

    @cached_property
    def reading(self) -> Reading:
        """The effects for reading."""
        return self.read()


@dataclass(frozen=True, eq=False)
class EffectEquations:
    """Noisy statistics in label contrasts (`PublicDesign.statistics`), with noise variance and prior of every term.

    `reported_free` says which terms are reported as they are without shrinkage. Terms nested in others cannot be:
    they are told from each other by their penalties alone.
    """

    design: PublicDesign
    statistics: Floats
    variances: tuple[float, ...]
    penalties: tuple[Penalty, ...]
    reported_free: tuple[bool, ...]

    def noise(self, term: int) -> float:
        """The noise variance that is used, at least `LEAST_VARIANCE`."""
        return max(self.variances[term], LEAST_VARIANCE)


def estimate_effects(
    equations: EffectEquations,
    start: Floats | None = None,
    log_strengths: Sequence[Floats] | None = None,
    report: Callable[[float], None] | None = None,
    *,
    enough: float = NEGLIGIBLE,
    memory: Memory | None = None,
) -> EffectEstimate:
    """Estimate the effects from noisy statistics.

    `start` and `log_strengths` say where to start, for example at an earlier fit. `report` is called with the share
    done. A step whose mean square, in posterior standard deviations, is below `enough` is the last one: `SHORT` where the
    estimate only serves to choose the next term. `memory` is shared by estimates that start from the same effects.

    Privacy
    -------
    Reads public rows and noisy tables only: post-processing.
    """
    design = equations.design
    strengths = [p.start() for p in equations.penalties] if log_strengths is None else [*log_strengths]
    phi = np.zeros(design.size) if start is None else start.copy()
    thin = design.thin(THINNED)
    groups = [_Group(equations, thin, *group, memory) for group in _groups_to_solve(design)]
    rough = enough >= SHORT
    held = np.zeros(design.size)
    for turn in range(1 if rough or thin is design else TURNS):
        if thin is not design:
            held = design.moments(phi).expected - thin.moments(phi).expected
        phi, strengths, moved = _solve_in_turn(groups, phi, strengths, held, enough)
        if report is not None:
            report(min(0.95, (turn + 1) / 3))
        if moved < enough:
            break
    chosen = tuple(strengths)
    return EffectEstimate(phi, chosen, lambda: _read(equations, thin, phi, chosen, held))


def _read(
    equations: EffectEquations, design: PublicDesign, phi: Floats, strengths: Sequence[Floats], held: Floats
) -> Reading:
    """One step from the solution with the full matrices and without the pull of the penalties."""
    unshrunk = phi.copy()
    covariances: dict[int, Floats] = {}
    for terms, form in _groups_by_size(equations.design):
        group = _Group(equations, design, terms, form)
        unshrunk[group.at], found = group.report_effects(phi, strengths, held)
        covariances |= found
    return Reading(unshrunk, tuple(covariances[c] for c in range(len(design.terms))))


def _solve_in_turn(
    groups: Sequence[_Group], phi: Floats, strengths: list[Floats], held: Floats, enough: float
) -> tuple[Floats, list[Floats], float]:
    """Solve the groups in turn until none moves; also how far the first steps went."""
    first = 0.0
    for sweep in range(SWEEPS):
        moved = 0.0
        for group in groups:
            phi, strengths, length = group.solve(phi, strengths, held, enough, ITERATIONS if len(groups) == 1 else 3)
            moved = max(moved, length)
        first = moved if sweep == 0 else first
        if len(groups) == 1 or moved < max(enough, 1e-4):
            break
    return phi, strengths, first


def _groups_to_solve(design: PublicDesign) -> list[tuple[tuple[int, ...], Form]]:
    """Which terms are solved at once, and in which form."""
    cells, k = sum(t.cells for t in design.terms), max((t.contrasts for t in design.terms), default=0)
    if design.size > EXACT and design.same_targets and k * cells**2 <= TOGETHER**2:
        return [(tuple(range(len(design.terms))), "by contrast")]
    return _groups_by_size(design)


def _groups_by_size(design: PublicDesign) -> list[tuple[tuple[int, ...], Form]]:
    """Terms with one matrix over all their effects, and the others by themselves."""
    together, apart = divide([t.size for t in design.terms])
    first: list[tuple[tuple[int, ...], Form]] = [(tuple(together), "together")] if together else []
    return first + [((c,), "cell by cell") for c in apart]


def divide(sizes: Sequence[int]) -> tuple[list[int], list[int]]:
    """Terms with so many effects each: those that fit in one matrix together, smallest first, and the others.

    >>> divide([2500, 40, 400])
    ([0, 1, 2], [])
    >>> divide([2600, 40, 400])
    ([1, 2], [0])
    """
    order = sorted(range(len(sizes)), key=lambda c: sizes[c])
    reached = dict(zip(order, np.cumsum([sizes[c] for c in order]), strict=True))
    together = [c for c in range(len(sizes)) if reached[c] <= TOGETHER]
    return together, [c for c in range(len(sizes)) if reached[c] > TOGETHER]


class _Group:
    """Terms that are solved at once, the others held.

    Steps go through a (thinned) design; `held` is what all rows expect beyond it at the same effects.
    The information matrix is kept for as long as steps are short.
    """

    def __init__(
        self,
        equations: EffectEquations,
        design: PublicDesign,
        terms: tuple[int, ...],
        form: Form,
        memory: Memory | None = None,
    ) -> None:
        self.design, self.terms, self.form, self.memory = design, terms, form, memory
        self.statistics = equations.statistics
        self.at = np.concatenate([np.arange(s.start, s.stop) for s in (design.slices[c] for c in terms)])
        self.weighing: Weighing | ContrastWeighing | None = None
        self.penalties = [equations.penalties[c] for c in terms]
        if form == "cell by cell":
            self.penalties = [Penalty(p.cells, p.contrasts, given_strength=p.given_strength) for p in self.penalties]
        self.noise = [equations.noise(c) for c in terms]
        self.free = [equations.reported_free[c] for c in terms]

    def solve(
        self, phi: Floats, strengths: list[Floats], held: Floats, enough: float, steps: int
    ) -> tuple[Floats, list[Floats], float]:
        """Gauss–Newton steps; also the length of the first."""
        chosen: Sequence[Floats] = [
            strengths[c][: len(p.structures)] for c, p in zip(self.terms, self.penalties, strict=True)
        ]
        first, length, limit, halved = 0.0, 0.0, np.inf, 0
        before, phi = phi, phi.copy()
        kept, secants = None, Secants()
        for step in range(steps):
            residual = self._residual(phi, held)
            if length >= SHORT and halved < HALVINGS and self._merit(residual, chosen, phi[self.at]) > limit:
                phi, halved = (phi + before) / 2, halved + 1
                continue
            halved = 0
            if self.weighing is None or length >= (FAR if self.form == "by contrast" else SHORT):
                self.weighing, kept, secants = self._first_weighed(phi), None, Secants()
            if isinstance(self.weighing, ContrastWeighing) and kept is not None:
                choice = self.weighing.follow(residual, phi[self.at], kept)
            else:
                choice = self.weighing.choose(residual, phi[self.at], self.penalties, chosen)
            chosen = choice.log_strengths
            limit = self._merit(residual, chosen, phi[self.at]) * (1 + 1e-9) + 1e-9
            before, phi = phi, phi.copy()
            phi[self.at] = choice.effects
            delta = phi[self.at] - before[self.at]
            length = self._length(delta, chosen)
            first = length if step == 0 else first
            if length < (max(enough, NEARLY) if kept is not None else enough):
                break
            if self.form == "by contrast" and length < SHORT and choice.settled:
                # From here on the penalties stay, and steps only make up for what H̃ leaves out.
                kept = choice
                phi[self.at] = secants.accelerate(before[self.at], delta)
        by_term = dict(zip(self.terms, chosen, strict=True))
        return phi, [by_term.get(c, s) for c, s in enumerate(strengths)], first

    def report_effects(
        self, phi: Floats, strengths: Sequence[Floats], held: Floats
    ) -> tuple[Floats, dict[int, Floats]]:
        """Effects without the pull of the penalties, and each term's own block of their covariance.

        One Gauss–Newton step from the solution with P taken off gives (G + P₀)⁻¹(Gφ + HW(S̃ − E_θ S)), which is
        unbiased where P₀ is 0, with covariance (G + P₀)⁻¹.
        """
        weighing, residual = self._weigh(phi), self._residual(phi, held)
        assert isinstance(weighing, Weighing)
        unshrunk = [
            Penalty(p.cells, p.contrasts, given_strength=FREE) if f else p
            for p, f in zip(self.penalties, self.free, strict=True)
        ]
        shrunk = [strengths[c][: len(p.structures)] for c, p in zip(self.terms, self.penalties, strict=True)]
        off = [p.start() if f else s for p, s, f in zip(unshrunk, shrunk, self.free, strict=True)]
        effects, blocks = weighing.report_effects(phi[self.at], residual, self.terms, unshrunk, off)
        return (effects if self.form == "together" or self.free[0] else phi[self.at]), blocks

    def _residual(self, phi: Floats, held: Floats) -> Floats:
        return np.asarray((self.statistics - self.design.moments(phi).expected - held)[self.at])

    def _first_weighed(self, phi: Floats) -> Weighing | ContrastWeighing:
        """`_weigh`, which other estimates from the same public rows, effects and noise may have found before."""
        if self.memory is None or self.weighing is not None:
            return self._weigh(phi)
        rows = [a for t in self.design.terms for a in (t.cell, t.of_label)]
        barred = [a for b in self.design.barred_labels for a in (b.rows, b.labels)]
        about = [phi, np.array(self.noise), self.design.multiplicities, *rows, *barred]
        return self.memory.recall(f"weights of {self.terms}", about, lambda: self._weigh(phi))

    def _weigh(self, phi: Floats) -> Weighing | ContrastWeighing:
        if self.form == "cell by cell":
            blocks = self.design.moments(phi, blocks=self.terms).blocks
            return Weighing.cellwise(blocks[self.terms[0]], self.noise[0])
        if self.form == "by contrast":
            cells = [self.design.terms[c].cells for c in self.terms]
            information = self.design.contrast_information(phi)
            return ContrastWeighing.of(information, np.repeat(self.noise, cells))
        whole = self.design.moments(phi, dense=self.terms).information
        assert whole is not None
        sizes = [self.design.terms[c].size for c in self.terms]
        return Weighing.dense(whole, np.repeat(self.noise, sizes))

    def _length(self, delta: Floats, strengths: Sequence[Floats]) -> float:
        """Mean square of a step, in posterior standard deviations."""
        assert self.weighing is not None
        return (self.weighing.length(delta) + _cost(self.penalties, strengths, delta)) / len(delta)

    def _merit(self, residual: Floats, strengths: Sequence[Floats], phi: Floats) -> float:
        assert self.weighing is not None
        return self.weighing.square(residual) + _cost(self.penalties, strengths, phi)


def _cost(penalties: Sequence[Penalty], strengths: Sequence[Floats], phi: Floats) -> float:
    each = zip(penalties, strengths, slices_of(penalties), strict=True)
    return sum(p.cost(s, phi[here]) for p, s, here in each)


class Secants:
    """The last steps of one fixed-point iteration, by which slow steps are made longer.

    A step x → x + f(x) whose f has an inexact slope shrinks its error by a constant factor. Differences of earlier steps
    tell the slope along the directions already walked: Anderson's acceleration (1965), on linear equations GMRES (Walker
    and Ni 2011).
    """

    def __init__(self) -> None:
        self.places: list[Floats] = []
        self.steps: list[Floats] = []

    def accelerate(self, place: Floats, step: Floats) -> Floats:
        """Where to go from `place`, from which the plain iteration would take `step`.

        >>> slow, place = Secants(), np.array([1.0, 1.0])
        >>> for _ in range(4):  # towards zero, by a tenth and by half of the way
        ...     place = slow.accelerate(place, -place * [0.1, 0.5])
        >>> bool(np.abs(place).max() < 1e-9)
        True
        """
        self.places, self.steps = [*self.places, place][-STEPS_KEPT:], [*self.steps, step][-STEPS_KEPT:]
        if len(self.steps) == 1:
            return place + step
        walked, changed = np.diff(self.places, axis=0).T, np.diff(self.steps, axis=0).T
        share, *_ = np.linalg.lstsq(changed, step, rcond=1e-10)
        return np.asarray(place + step - (walked + changed) @ share)
