"""English sentences of rooms that know no language, with what a page needs to translate them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Said(str):
    """An English text that remembers its template and its values, which `labels.said` translates.

    Parameters
    ----------
    template : str
        For `str.format`; listed in ``docs/messages.py`` for translators.
    **values
        What it is filled with.

    Examples
    --------
    >>> Said("{count:,} rows", count=1200)
    '1,200 rows'
    """

    template: str
    values: Mapping[str, Any]

    def __new__(cls, template: str, **values: Any) -> Said:
        """Fill the template."""
        made = super().__new__(cls, template.format(**values))
        made.template, made.values = template, values
        return made
