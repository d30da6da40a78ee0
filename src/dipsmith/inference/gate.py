"""What readers of an interval have to know beside what the release carries (`dipsmith.synthesis.answers`)."""

from __future__ import annotations

from dipsmith.synthesis.release import Release


def recurring(release: Release) -> tuple[str, ...]:
    """What readers have to know where one unit has several rows: the release does not tell which."""
    unit = release.model.schema.unit if release.models else release.schema.unit
    if unit.column is None or (unit.max_rows == 1 and unit.per is None):
        return ()
    if release.schema.linked is not None:
        return (
            f"Rows of one {unit.column} are taken as independent; where they are alike, intervals are too short: "
            f"cluster={unit.column} counts them together.",
        )
    return (
        f"Rows of one {unit.column} are taken as independent, because the release does not tell which belong together; where "
        "they are alike, intervals are too short.",
    )


def unweighted(release: Release | None, weights: str | None) -> tuple[str, ...]:
    """What readers have to know where a release has a survey weight and the rows were not weighted by it."""
    own = None if release is None else release.schema.weight
    if own is None or weights is not None:
        return ()
    return (f"Not weighted: every row counts once. weights='{own}' weighs rows as the survey does.",)
