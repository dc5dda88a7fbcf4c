"""Sort order as a text: the name of a number column, with ``-`` in front for descending order."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Order:
    """A sort order by one column.

    Attributes
    ----------
    name : str
        The column.
    falling : bool
        True if the order is descending.
    """

    name: str
    falling: bool = False

    @property
    def text(self) -> str:
        """Form used in links; a name that would be ambiguous is put in backticks, as in a filter."""
        plain = self.name and self.name[0] not in "-`"
        return f"{'-' * self.falling}{self.name if plain else f'`{self.name}`'}"


def parse_order(text: str) -> Order | None:
    """Return the order that a text describes; None if it is empty."""
    name = text.removeprefix("-")
    if len(name) > 1 and name[0] == name[-1] == "`":
        return Order(name[1:-1], text.startswith("-"))
    return Order(name, text.startswith("-")) if name else None
