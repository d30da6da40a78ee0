"""The leaf-interval explorer of the Plan page: how precise a label's share will be, before anything is spent.

Every number is that of `dipsmith interval`: the same functions of `dipsmith.planning.leaf_interval`, from public numbers alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from dipsmith.errors import DipsmithError, UsageError
from dipsmith.planning import leaf_interval as leaf
from dipsmith.report.leaves import ChosenLeaf, Curve, leaf_picture
from dipsmith.studio.views import Download, Visit

SIZES = (25, 40, 65, 100, 170, 280, 460, 770, 1300, 2500, 5000)
MOST_RECORDS = 20_000
OTHERS = (0.1, 1.0)
"""The λ that the explorer shows besides the chosen one."""


def answer(visit: Visit) -> Mapping[str, Any]:
    """The interval at the chosen leaf, the band around it, and (if asked) the fewest records for a width."""
    # Without the slower numbers the page answers a moving slider at once; it asks for them when the slider rests.
    sliders, more = Sliders(visit.query), bool(visit.query.get("rows"))
    least = sliders.least if more else None
    return {"interval": sliders.interval.to_dict(), "least": least, "svg": sliders.picture(more=more)}


def as_csv(visit: Visit) -> Download:
    """The numbers of the picture."""
    return Download("interval.csv", "text/csv; charset=utf-8", _curve(*Sliders(visit.query).law).to_csv())


def as_svg(visit: Visit) -> Download:
    """The picture."""
    return Download("interval.svg", "image/svg+xml", Sliders(visit.query).picture(alone=True))


class Sliders:
    """What the sliders of the explorer say."""

    def __init__(self, query: Mapping[str, str]) -> None:
        try:
            self.p0, self.lam = float(query.get("p0", "0.25")), float(query.get("lam", "0.4"))
            self.n, self.width = int(query.get("n", "1000")), float(query.get("width", "0.05"))
            self.level = float(query.get("level", "0.9"))
        except ValueError:
            raise UsageError("p0, lam, n, width and level must be numbers") from None
        self.kind, self.noise = query.get("kind", "sym"), query.get("law", "continuous")
        if not 1 <= self.n <= MOST_RECORDS or self.noise not in ("continuous", "discrete"):
            raise UsageError(f"n must be 1 to {MOST_RECORDS:,}, law continuous or discrete")
        if not 0 <= self.p0 <= 1 or not 1e-3 <= self.lam <= 100:
            raise UsageError("p0 must be 0 to 1, lam 0.001 to 100")

    @property
    def law(self) -> tuple[float, float, str, str, float]:
        """What the band depends on."""
        return self.p0, self.lam, self.kind, self.noise, self.level

    @property
    def interval(self) -> leaf.LeafInterval:
        """As `dipsmith interval --p0 --lam --n` says."""
        return leaf.interval(self.p0, self.lam, self.n, kind=self.kind, noise=self.noise, level=self.level)  # type: ignore[arg-type]

    def picture(self, *, more: bool = True, alone: bool = False) -> str:
        """The band and the chosen leaf; with `more` the same share under other λ, and the fewest records."""
        found, others = (
            self.interval,
            [_curve(self.p0, lam, *self.law[2:]) for lam in OTHERS if more and lam != self.lam],
        )
        chosen = ChosenLeaf(self.n, (found.lo, found.hi), self.width, self.least if more else None)
        return leaf_picture(_curve(*self.law), chosen, others, alone=alone)

    @property
    def least(self) -> int | None:
        """As `dipsmith interval --p0 --lam --width` says; None where no number of records is enough."""
        return _least(self.width, self.p0, self.lam, self.noise, self.level)


@lru_cache(maxsize=512)
def _least(width: float, p0: float, lam: float, noise: str, level: float) -> int | None:
    try:
        return leaf.rows_for_width(width, p0, lam, noise=noise, level=level)  # type: ignore[arg-type]
    except DipsmithError:
        return None


@lru_cache(maxsize=256)
def _curve(p0: float, lam: float, kind: str, noise: str, level: float) -> Curve:
    ends = [leaf.intervals(p0, [lam], n, kind=kind, noise=noise, level=level)[0] for n in SIZES]  # type: ignore[arg-type]
    return Curve(p0, lam, level, kind, noise, SIZES, tuple(float(e[0]) for e in ends), tuple(float(e[1]) for e in ends))
