"""What the API reference makes of docstrings: examples at their end are shown as code, as if a heading said so."""

from __future__ import annotations

from typing import Any

from griffe import Extension, Object

HEADING = "Examples\n--------\n"


class Examples(Extension):
    """Puts the heading of numpydoc above examples that stand without one, at the end of a docstring."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Add it to the text of one object."""
        if obj.docstring is not None and HEADING not in obj.docstring.value:
            before, mark, examples = f"\n{obj.docstring.value}".partition("\n>>> ")
            if mark:
                obj.docstring.value = f"{before}\n\n{HEADING}>>> {examples}".lstrip("\n")
