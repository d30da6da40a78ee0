"""Trees to look at: how a model divides rows, branch by branch.

A model that is made of trees may offer them (`WithTrees`), so that people see which branch got which column: in the
report of a release and by `dipsmith show`. Whoever draws them asks for the branches of a node only where they are
shown, so that a tree of a million nodes costs no more to look at than a small one.

Privacy: a model's own noisy numbers and public facts; post-processing, free.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
