"""Trees to look at: how a model divides rows, branch by branch.

A model that is made of trees may offer them (`WithTrees`), so that people see which branch got which column: in the
report of a release and by `dipsmith show`. Whoever draws them asks for the branches of a node only where they are
shown, so that a tree of a million nodes costs no more to look at than a small one.

Privacy: a model's own noisy numbers and public facts; post-processing, free.

How often trees ask a column (`WithPaths`) says what they do to regressions: a label that is drawn from a leaf depends
on the columns of the leaf's path and on nothing else. If a share s of the rows is labelled on paths that ask a column,
then of what the column tells about the label beyond the others at most s is kept: with several trees, differences
between its values come out s times as large (1/6 of the trees: .067 of .401; 3/6: .198; 6/6: .400). Noise, and leaves
that are estimated together, take more; columns that go together with it may stand in for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, eq=False)
class TreeNode:
    """A node: the value that leads to it, its rows, and the columns that divide it further (none at an end).

    `rows` is noisy or public, None where the model keeps no number; `note` says what else is known of it, such as the
    most frequent label of a leaf. `branches` makes the nodes below, when somebody looks.

    >>> yes, no = TreeNode("yes", 60.0), TreeNode("no", 40.0)
    >>> root = TreeNode("all rows", 100.0, ("voted",), branches=lambda: (yes, no))
    >>> [node.label for node in root.branches()], yes.branches()
    (['yes', 'no'], ())
    """

    label: str
    rows: float | None = None
    divided_by: tuple[str, ...] = ()
    note: str = ""
    branches: Callable[[], Sequence[TreeNode]] = tuple


@dataclass(frozen=True, eq=False)
class ModelTree:
    """One tree of a model.

    `finding` says in a sentence how it divides rows, `counts` what the numbers on its branches are; `public` whether
    they are public facts. `noise` has the standard deviation of the noise on one count, for each layer from the root
    down, as far as layers were measured (None where one was not).
    """

    finding: str
    root: TreeNode
    counts: str
    public: bool = False
    noise: tuple[float | None, ...] = ()


@runtime_checkable
class WithTrees(Protocol):
    """A model that is made of trees."""

    def trees(self) -> Sequence[ModelTree]:
        """Its trees, the most important first."""


MOST_LISTED = 8
EVERY = 0.995
"""From this share on a column counts as being on every path."""


@dataclass(frozen=True)
class PathShares:
    """For each column the share of rows whose labels are drawn on paths that ask it.

    `expected` is what has to be assumed where trees are not grown yet; `advice` what helps.

    >>> shares = PathShares(("sex",), {"age": 0.0, "pay": 0.4, "occupation": 1.0, "year": 0.0})
    >>> print(shares.sentence)
    Of what a column tells about sex beyond the others, at most the share of paths that ask it is kept: age and year 0 %, pay 40 %; occupation is on every path. Regressions that name such a column come out too small, or take its part for another's.
    """

    targets: tuple[str, ...]
    shares: Mapping[str, float] = field(default_factory=dict)
    expected: str = ""
    advice: str = ""

    @property
    def worst_first(self) -> list[tuple[str, float]]:
        """Columns with their shares, the least asked first."""
        return sorted(self.shares.items(), key=lambda entry: (round(entry[1], 2), entry[0]))

    @property
    def sentence(self) -> str:
        """Which regressions are attenuated, and by how much."""
        low = [(name, share) for name, share in self.worst_first if share < EVERY]
        whole = [name for name, share in self.worst_first if share >= EVERY]
        label = " × ".join(self.targets)
        if not low:
            return f"Every path asks every column: no regression on {label} is attenuated for want of a question."
        by_share: dict[str, list[str]] = {}
        for name, share in low[:MOST_LISTED]:
            by_share.setdefault(f"{100 * share:.0f} %", []).append(name)
        told = ", ".join(f"{_join_names(names)} {share}" for share, names in by_share.items())
        if len(low) > MOST_LISTED:
            told += f", and {len(low) - MOST_LISTED} more columns"
        if whole:
            told += f"; {_join_names(whole)} {'is' if len(whole) == 1 else 'are'} on every path"
        start = f"{self.expected}, of" if self.expected else "Of"
        return (
            f"{start} what a column tells about {label} beyond the others, at most the share of paths that ask it is kept: "
            f"{told}. Regressions that name such a column come out too small, or take its part for another's."
            + (f" {self.advice}" if self.advice else "")
        )


@runtime_checkable
class WithPaths(Protocol):
    """A model that labels rows on paths which ask some columns and not others."""

    def path_shares(self) -> Sequence[PathShares]:
        """How often each column is asked, for each group of labels that is drawn together."""


def _join_names(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
