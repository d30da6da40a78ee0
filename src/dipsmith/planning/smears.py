"""What bins will do to values: values are drawn within bins, so that a wide one moves means, quantiles and spikes."""

from __future__ import annotations

import numpy as np

from dipsmith.schema import Bins, Schema

FROM = 1000
"""Ranges that reach less have no money in them."""
FEW = 200
"""With more bins than this none is wide."""
SEVERAL = 5
"""So many bins of one value each, and half of all, are a list of values."""


def bin_warnings(schema: Schema) -> tuple[str, ...]:
    """What bins will do to values, column by column: for a plan to say before anything is spent."""
    found = []
    for attribute in schema:
        domain = attribute.domain
        released = schema.neighbours != "label" or attribute.role == "private"
        if not released or not isinstance(domain, Bins) or domain.scale not in ("integer", "number"):
            continue
        widths = np.diff(domain.cuts)
        first = float(widths[0])
        grain = 1 if domain.scale == "integer" else domain.step or 0
        if domain.minimum == 0 and first > grain and domain.maximum >= FROM:
            # A bin holds one value only where it is as narrow as values are fine.
            fine = "" if grain else "precision 0.01, "
            found.append(
                f"column '{attribute.name}': zeros will be spread over 0 to {domain.cuts[1]:,.6g}, because values are drawn within "
                f"bins; if many rows have 0, give it a bin of its own ({fine}edges 0, {grain or 0.01:g}, …)"
            )
        # Where values have bins of their own, those between them are gaps, which hold next to nothing.
        alone = widths <= grain * (1 + 1e-9)
        by_values = alone.sum() >= SEVERAL and alone.mean() >= 0.5
        middle = float(np.median(np.abs(domain.cuts[1:] + domain.cuts[:-1]) / 2))
        if domain.law == "uniform" and len(widths) < FEW and float(widths.max()) > 2 * middle > 0 and not by_values:
            found.append(
                f"column '{attribute.name}': its widest bin, {widths.max():,.6g}, is wider than most of its values are large, so "
                "means and quantiles will move; cut it finer where values are, or draw them evenly in the logarithm (law: log)"
            )
    learned = [
        a.name
        for a in schema
        if schema.provenance.startswith("learned") and isinstance(a.domain, Bins) and a.domain.scale == "number"
    ]
    if learned:
        more = f" and {len(learned) - 3} more" if len(learned) > 3 else ""
        found.append(
            f"the bins of {', '.join(learned[:3])}{more} were learned without their single values: a value with decimals that many "
            "rows share (a price, a rate, a density) is smeared over its bin; give it one of its own (edges 7.25, 7.26, …)"
        )
    open_ended = [a.name for a in schema if isinstance(a.domain, Bins) and a.domain.open != "none"]
    if open_ended:
        more = f" and {len(open_ended) - 3} more" if len(open_ended) > 3 else ""
        found.append(
            f"the bounds of {', '.join(open_ended[:3])}{more} are open: regressions of their raw numbers are answered only where "
            "the release finds the end bins empty; state the bounds that you know, and that no rows lie beyond them"
        )
    return tuple(found)
