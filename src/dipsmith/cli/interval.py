"""`dipsmith interval`: how precise the synthetic share of a label will be, before anything is spent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from dipsmith.cli.options import Json, examples, require_width
from dipsmith.cli.terminal import answer
from dipsmith.errors import UsageError

if TYPE_CHECKING:
    from dipsmith.planning.leaf_figures import LeafFigure
    from dipsmith.planning.leaf_interval import LeafInterval

EXAMPLES = examples(
    "dipsmith interval --p0 0.25 --lam 0.4 --n 1000",
    "dipsmith interval --p0 0.25 --lam 0.4 --width 0.05        (how many records?)",
    "dipsmith interval --p0 0.25 --n 1000 --width 0.05 --law discrete        (how much ε/Δ?)",
    "dipsmith interval --plot intervals.svg",
    "dipsmith interval --simulate 10000 --plot simulation.png",
)


def interval(
    p0: Annotated[float | None, Option("--p0", help="The authentic share of the label.")] = None,
    lam: Annotated[float | None, Option("--lam", help="λ = ε/Δ of the noise on its count.")] = None,
    n: Annotated[int | None, Option("--n", help="Authentic records in the leaf.")] = None,
    m: Annotated[int | None, Option("--m", help="Synthetic records drawn from it; n by default.")] = None,
    width: Annotated[
        float | None, Option("--width", help="Total width wanted: with --lam gives n, with --n gives λ.")
    ] = None,
    kind: Annotated[
        str | None, Option("--kind", help="sym (default), interp (default with --width), or equal (tails).")
    ] = None,
    law: Annotated[str, Option("--law", help="continuous or discrete Laplace noise.")] = "continuous",
    level: Annotated[float, Option("--level", help="Probability that it holds.")] = 0.9,
    simulate: Annotated[int | None, Option("--simulate", help="Also simulate so many leaves and compare.")] = None,
    seed: Annotated[int, Option("--seed", help="Seed of the simulation; nothing private is in it.")] = 2018,
    plot: Annotated[
        Path | None, Option("--plot", help="Draw intervals, or with --simulate histograms: .svg or .png.")
    ] = None,
    json: Json = False,
) -> None:
    """Say within which interval the synthetic share of a label will lie; any two of n, λ, width give the third."""
    if law not in ("continuous", "discrete"):
        raise UsageError(f"--law is '{law}', expected continuous or discrete")
    if seed < 0:
        raise UsageError(f"--seed is {seed}, expected 0 or more")
    require_width("--width", width)
    noise: dict[str, Any] = {"noise": law, "level": level, "m": m}
    facts: dict[str, Any] = {}
    lines: list[str] = []
    if plot is None or p0 is not None or width is not None:
        found = _interval(p0, lam, n, width, kind, noise)
        facts = found.to_dict()
        lines = _sentences(found, solved="n" if n is None else "lam" if lam is None else "")
        if simulate is not None:
            made = facts["simulated"] = _simulate(found, simulate, seed)
            ends = f"{made['lo']:.5g} to {made['hi']:.5g}"
            lines.append(f"Simulated {simulate:,} times: {ends}, mean {made['mean']:.5g}, sd {made['sd']:.3g}.")
    if plot is not None:
        figure = _figure(p0, lam, n, kind, noise, simulate, seed)
        numbers = figure.save(plot)
        facts |= {"plot": str(plot), "numbers": str(numbers), "alternative": figure.alternative}
        lines = [*(lines or [figure.alternative]), f"Drawn: {plot}; its numbers: {numbers}"]
    answer(json, facts, *lines)


def _interval(
    p0: float | None, lam: float | None, n: int | None, width: float | None, kind: str | None, noise: dict[str, Any]
) -> LeafInterval:
    from dipsmith.planning import leaf_interval as leaf

    if p0 is None:
        raise UsageError("give --p0, the authentic share of the label (or --plot alone for the whole picture)")
    if sum(value is not None for value in (lam, n, width)) != 2:
        raise UsageError("give two of --n, --lam and --width; they determine the third")
    if n is None and lam is not None and width is not None:
        n = leaf.rows_for_width(width, p0, lam, **noise)
    if lam is None and n is not None and width is not None:
        lam = leaf.lam_for_width(width, p0, n, **noise)
    assert n is not None
    assert lam is not None
    chosen: Any = kind or ("sym" if width is None else "interp")  # checked where it is used
    return leaf.interval(p0, lam, n, kind=chosen, **noise)


def _sentences(found: LeafInterval, solved: str) -> list[str]:
    noise = "discrete Laplace" if found.law == "discrete" else "Laplace"
    lines = []
    if solved == "n":
        lines.append(f"At least {found.n:,} records in the leaf.")
    if solved == "lam":
        lines.append(
            f"At least λ = {found.lam:.4g}: ε = {found.lam:.4g} for one count of two labels, {2 * found.lam:.4g} where a "
            "changed record moves two counts (label, replace)."
        )
    lines.append(
        f"{found.level:.0%} of synthetic shares lie in [{found.lo:.5g}, {found.hi:.5g}], width {found.width:.4g} ({found.kind}): "
        f"authentic share {found.p0:g} of {found.n:,} records, {noise} noise with λ = {found.lam:.4g}, {found.m:,} drawn."
    )
    return lines


def _simulate(found: LeafInterval, draws: int, seed: int) -> dict[str, float]:
    from dipsmith.planning.leaf_simulation import simulate_label

    made = simulate_label(found.p0, found.lam, found.n, m=found.m, noise=found.law, draws=draws, seed=seed)
    lo, hi = made.interval(level=found.level)
    return {"lo": lo, "hi": hi, "mean": float(made.mean[0]), "sd": float(made.sd[0]), "draws": draws}


def _figure(
    p0: float | None,
    lam: float | None,
    n: int | None,
    kind: str | None,
    noise: dict[str, Any],
    draws: int | None,
    seed: int,
) -> LeafFigure:
    from dipsmith.planning import leaf_figures as figures

    shares = figures.SHARES if p0 is None else (p0,)
    if draws is not None:
        leaf: dict[str, Any] = {"lam": 0.3 if lam is None else lam, "n": 1000 if n is None else n}
        return figures.simulation_figure(draws=draws, shares=shares, seed=seed, **leaf, **noise)
    sizes = figures.SIZES if n is None else tuple(sorted({*figures.SIZES, n}))
    lams = figures.LAMS if lam is None else tuple(sorted({*figures.LAMS, lam}))
    chosen: Any = kind or "sym"  # checked where it is used
    law = {name: noise[name] for name in ("noise", "level")}
    return figures.interval_figure(kind=chosen, shares=shares, lams=lams, sizes=sizes, **law)
