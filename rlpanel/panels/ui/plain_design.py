"""Design without style sheets of its own: the board's colours come from its CSS variables."""

from __future__ import annotations

from panel.theme.base import Design


class PlainDesign(Design):
    """Adds nothing to a component.

    Panel's own designs add four style sheets to each component, and the browser computes all styles again for
    each of them. Their colours would also override the theme's.
    """
