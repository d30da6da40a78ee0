"""Make docs/studies/confirm.md: `python -m studies.confirm`, two minutes of processor time."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from textwrap import fill

from studies.confirm.memo_claims import PRICE, AskedClaim, ask_all
from studies.confirm.simulated_questions import QUESTIONS, Cell, simulate_all

PAGE = Path(__file__).parents[2] / "docs" / "studies" / "confirm.md"

INTRODUCTION = (
    "`dipsmith confirm` says confirmed, contradicted or cannot tell. Here its verdicts are counted where the truth is known. "
    "`python -m studies.confirm` makes this page; all rows are simulated, and no privacy was spent."
)
SIMULATED = (
    f"{QUESTIONS:,} simulated questions in every cell: the estimates of M parts are drawn about a truth that lies z standard "
    "errors of the whole table on the claimed side of the threshold, voted on, noised at ε and judged. At z = 0 the claim "
    "is on its threshold, and *confirmed* should come up in .05 of questions at most. *Expected* is what `dipsmith ask "
    "--power` computes by exact sums; counts are within ± .01 of it by chance."
)
CLAIMS = (
    "The claims of the pay-disparity memos, asked on the simulated personnel records (100,000 rows, four years) by someone "
    "who has only a release of ε = 0.75, at "
    f"{PRICE} each; `studies/confirm/memo_claims.py` is the whole script. All are true there: women earn .080 less in 1988 "
    "and .050 less in 2011, the races A to D .012 to .050 less, and each gap narrows. *Chance* is that of a clear answer, "
    "from the release alone. A trend is asked of the coefficients of each year in each part, and small gaps need a higher price."
)


def page(cells: list[Cell], claims: list[AskedClaim]) -> str:
    """The text of the page."""
    worst = max(c.confirmed for c in cells if c.z == 0)
    off = max(abs(c.confirmed - c.expected) for c in cells)
    lines = [
        "# How often verdicts are right",
        "",
        fill(INTRODUCTION, 118),
        "",
        "## Size and power",
        "",
        fill(SIMULATED, 118),
        "",
    ]
    lines += ["| M | ε | z | confirmed | expected | contradicted |", "|--:|--:|--:|--:|--:|--:|"]
    lines += [
        f"| {c.parts} | {c.epsilon} | {c.z:g} | {c.confirmed:.3f} | {c.expected:.3f} | {c.contradicted:.3f} |"
        for c in cells
    ]
    told = f"The largest size is {worst:.3f}; no count is farther than {off:.3f} from what was expected."
    lines += ["", fill(told, 118), "", "## The memos' claims", "", fill(CLAIMS, 118), ""]
    lines += [
        "| claim | by | release says | chance | verdict | posterior | estimate and interval |",
        "|---|---|--:|--:|---|--:|---|",
    ]
    for c in claims:
        estimate = "" if c.estimate is None else f"{c.estimate:.4f}"
        clear = "" if c.clear is None else f"{c.clear:.2f}"
        answer, interval = c.answer, ""
        if answer.estimate is not None and answer.interval is not None:
            interval = f"{answer.estimate:.3f} ({answer.interval[0]:.3f} to {answer.interval[1]:.3f})"
        sure = "" if answer.probability is None else f"{answer.probability:.3f}"
        lines.append(f"| `{c.claim}` | {c.measure} | {estimate} | {clear} | {answer.verdict} | {sure} | {interval} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Simulate, ask, write."""
    argparse.ArgumentParser(prog="python -m studies.confirm", description=__doc__).parse_args()
    cells = list(simulate_all())
    with tempfile.TemporaryDirectory() as folder:
        claims = []
        for claim in ask_all(Path(folder)):
            sys.stderr.write(f"{claim.claim} ({claim.measure}): {claim.answer.verdict}\n")
            claims.append(claim)
    PAGE.write_text(page(cells, claims), "utf-8")


if __name__ == "__main__":
    main()
