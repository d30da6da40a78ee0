"""Draw the pay gap before and after: `python paper/figure.py DEMO.json DEMO/release/results.json docs/images/pay-gap.svg`.

DEMO.json is what `dipsmith demo --json` prints. Standard library only; colours follow the reader's light or dark mode.
"""

import json
import sys
from pathlib import Path

WIDTH, LEFT, RIGHT, ROW, TOP = 720, 190, 30, 34, 76
NAMES = {"sex[T.F]": "women against men", **{f"race[T.{r}]": f"race {r} against E" for r in "ABCD"}}
STYLE = """
text { font: 14px system-ui, sans-serif; fill: #1a1a1a } .soft { fill: #555; font-size: 12px } .title { font-weight: 600; font-size: 16px }
.axis { stroke: #bbb } .zero { stroke: #777; stroke-dasharray: 3 3 } .true { fill: #1a1a1a } .made { fill: none; stroke: #0072b2; stroke-width: 2.2 }
@media (prefers-color-scheme: dark) { text { fill: #eee } .soft { fill: #aaa } .axis { stroke: #555 } .true { fill: #eee } .made { stroke: #56b4e9 } }
"""


def draw(demo: dict, results: dict) -> str:
    """The figure as SVG text."""
    found = {c["name"]: c for c in results["results"][0]["coefficients"]}
    lines = [(name, demo["coefficients"][name]["confidential"], found[name]) for name in NAMES]
    low, high = min(c["low"] for *_, c in lines), max(0.02, *(c["high"] for *_, c in lines))
    height = TOP + ROW * len(lines) + 46

    def x(value: float) -> float:
        return LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        'aria-label="Differences in log pay: confidential values lie within the intervals of the release">',
        f"<style>{STYLE}</style>",
        '<text class="title" x="12" y="26">The pay gap is kept, and the release says how surely</text>',
        '<text class="soft" x="12" y="48">Difference in log pay, other things equal. Filled: confidential. '
        "Open, with 95 % interval: the release, ε = 0.75.</text>",
        f'<line class="zero" x1="{x(0):.1f}" x2="{x(0):.1f}" y1="{TOP - 10}" y2="{height - 40}"/>',
    ]
    for i, (name, true, c) in enumerate(lines):
        y = TOP + ROW * i + 12
        parts += [
            f'<text x="12" y="{y + 5}">{NAMES[name]}</text>',
            f'<line class="made" x1="{x(c["low"]):.1f}" x2="{x(c["high"]):.1f}" y1="{y}" y2="{y}"/>',
            f'<circle class="made" cx="{x(c["estimate"]):.1f}" cy="{y}" r="6"/>',
            f'<circle class="true" cx="{x(true):.1f}" cy="{y}" r="3.6"/>',
        ]
    axis = height - 38
    parts.append(f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{axis}" y2="{axis}"/>')
    ticks = [t / 20 for t in range(-4, 5) if low <= t / 20 <= high]
    parts += [f'<text class="soft" x="{x(t):.1f}" y="{axis + 18}" text-anchor="middle">{t:+.2f}</text>' for t in ticks]
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    demo, results, target = map(Path, sys.argv[1:])
    target.write_text(draw(json.loads(demo.read_text("utf-8")), json.loads(results.read_text("utf-8"))), "utf-8")
