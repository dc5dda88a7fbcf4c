"""The order of the grid as a text: a number column, with ``-`` in front from the largest down."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Order:
    """A sort by one column.

    Attributes
    ----------
    name : str
        The column.
    falling : bool
        Whether the largest value comes first.
    """

    name: str
    falling: bool = False

    @property
    def text(self) -> str:
        """As links say it; in backticks, as in a filter, where the name alone could mean something else."""
        plain = self.name and self.name[0] not in "-`"
        return f"{'-' * self.falling}{self.name if plain else f'`{self.name}`'}"


def parse_order(text: str) -> Order | None:
    """The order that a text names; None where it is empty."""
    name = text.removeprefix("-")
    if len(name) > 1 and name[0] == name[-1] == "`":
        return Order(name[1:-1], text.startswith("-"))
    return Order(name, text.startswith("-")) if name else None
