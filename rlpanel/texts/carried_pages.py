"""Pages of the documentation that the wheel carries, for agents."""

from __future__ import annotations

from importlib import resources


def read_page(file: str) -> str:
    """Return a page of the documentation, which the wheel carries.

    Parameters
    ----------
    file : str
        Its name below ``docs``.
    """
    carried = resources.files("rlpanel") / "docs" / file
    if carried.is_file():
        return carried.read_text(encoding="utf-8")
    # In a clone the pages lie beside the package.
    return (resources.files("rlpanel") / ".." / "docs" / file).read_text(encoding="utf-8")
