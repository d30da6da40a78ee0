"""The section of Memo A's page that shows the report's figures, made from the summary of what they show."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

from studies.rdt_panels.settings import FIGURES, ROWS, YEAR, Compared, Setting

from assurance.markdown import wrap
from dipsmith.utility.panels import OTHERS, Points

PAGE = Path("docs/studies/rdt-memo-a.md")
TEXT = Path("studies/rdt_parameters/memo-a.md")
HEADING = "## The report's figures"


@dataclass(frozen=True)
class Summary:
    """One panel of one setting: correlation and slope of synthetic on authentic values, in all and by attribute."""

    figure: int
    setting: str
    trees: int
    epsilon: float
    n_b: int
    collapse: str
    weights: str
    total: float
    sex_agreement: float
    race_agreement: float
    panel: str
    points: int
    correlation: float
    slope: float
    agency_slope: float
    occupation_slope: float

    @classmethod
    def of(
        cls,
        compared: Compared,
        name: str,
        setting: Setting,
        agreement: tuple[float, float],
        panel: str,
        points: Points,
    ) -> Summary:
        """Sum up a panel."""
        slopes = {group: part.slope for group, part in points.by_group() if group != OTHERS}
        by = [slopes.get(group, float("nan")) for group in ("agency", "occupation")]
        parameters = setting.trees, setting.epsilon, setting.n_b, setting.collapse, setting.weighted, setting.total
        found = len(points), points.correlation, points.slope, *by
        return cls(compared.number, name, *parameters, *agreement, panel, *found)

    def row(self) -> list[str]:
        """A line of the file."""
        return [f"{v:.4g}" if isinstance(v, float) else str(v) for v in astuple(self)]

    @classmethod
    def read(cls, line: dict[str, str]) -> Summary:
        """Back from its line."""
        kinds = {"figure": int, "trees": int, "n_b": int, "points": int, "setting": str, "collapse": str}
        kinds |= {"weights": str, "panel": str}
        return cls(**{name: kinds.get(name, float)(text) for name, text in line.items()})  # type: ignore[arg-type]


def read(path: Path) -> list[Summary]:
    """The summary of all panels, as rounded in its file."""
    with path.open(newline="") as file:
        return [Summary.read(line) for line in csv.DictReader(file)]


SAYS = {
    3: "Collapsing labels (a, b): every category lies on the line in both. Joint proportions cannot tell good from bad.",
    4: "Collapsing labels (c, d): the slopes of agency and occupation are nearer to the line where labels are collapsed, as "
    "the report says.",
    5: "Five and ten trees: no difference, as the report says; ten cost twice as much.",
    6: "Weight on agency, labels collapsed: agency comes to the line, as the report says, and pay and education leave it.",
    7: "Weight on agency, only pay collapsed: the report saw no difference for agency; here there is one, and pay and "
    "education pay for it.",
    8: "ε = 0.1 and 0.4 a tree: hardly a difference at this n_B, as the report says.",
    9: "n_B = 1,000 and 2,000: hardly a difference, as the report says.",
    10: "P(female) on agency, ε = 0.1 a tree: with weight on agency its coefficients are kept, without they shrink.",
    11: "P(female) on agency, ε = 0.4 a tree: the same; ε makes little difference, as the report says.",
    12: "P(female) on agency and occupation, ε = 0.1 a tree: occupation is kept by its own weight; without weight agency "
    "shrinks, with three times that of occupation it is overstated.",
    13: "P(female) on agency and occupation, ε = 0.4 a tree: weight on occupation keeps its coefficients, as the report says.",
    14: "P(female) on occupation alone, ε = 0.4 a tree: on the line with weight, shrunk by two fifths without.",
}


def section(lines: Sequence[Summary]) -> str:
    """The section, with a table of what is drawn."""
    text = [
        f"{HEADING}\n",
        f"Figures 3 to 14 of the report on {ROWS:,} simulated employees of {YEAR}, one release a setting: `python -m "
        "studies.rdt_panels` draws them. Authentic values across, synthetic ones upwards; points on the line are kept. As in the "
        "report two ensembles of T trees at ε each, one for sex and one for race, cost 2Tε in all; *agreement* is its "
        "`pTrueClassified`, the share of rows whose label is the authentic one, a statistic of private rows that no "
        "release may carry. The report's values are 0.678 and 0.581 (T = 10, ε = 0.4), 0.639 and 0.577, 0.637 and 0.574 "
        "(T = 5, ε = 0.1).\n",
        "| figure | setting | T | ε | n_B | in all | agreement sex, race | panel | r | slope | agency | occupation |",
        "|---:|---|---:|---:|---:|---:|---|---|---:|---:|---:|---:|",
    ]
    for s in lines:
        slopes = [f"{v:.2f}" if v == v else "" for v in (s.slope, s.agency_slope, s.occupation_slope)]
        rates = f"{s.sex_agreement:.3f}, {s.race_agreement:.3f}"
        cells = [s.figure, s.setting, s.trees, f"{s.epsilon:g}", f"{s.n_b:,}", f"{s.total:g}", rates, s.panel]
        text.append("| " + " | ".join(map(str, [*cells, f"{s.correlation:.3f}", *slopes])) + " |")
    text.append("\nSlopes below 1 are attenuation; *agency* and *occupation* are the slopes of their own points.\n")
    for compared in FIGURES:
        left, right = compared.names
        image = f"{PAGE.stem}/{compared.file}.svg"
        text += [
            f"**Figure {compared.number}.** {SAYS[compared.number]}\n",
            f"![Figure {compared.number}, {compared.varied}: left {left}, right {right}.]({image})\n",
        ]
    return wrap("\n".join(text).rstrip() + "\n")


def insert(made: str) -> None:
    """Put the section into the study's text and into its page, in place of the one before."""
    for path in (TEXT, PAGE):
        text = path.read_text("utf-8")
        before, found, rest = text.partition(f"{HEADING}\n")
        after = "" if path == TEXT else "\n" + _claims(rest if found else text)
        if not found:
            before = text if path == TEXT else text[: text.index("## Claims\n")]
        path.write_text(f"{before.rstrip()}\n\n{made}{after}", "utf-8")


def _claims(text: str) -> str:
    """What follows on the page: its claims and tables."""
    return text[text.index("## Claims\n") :]
