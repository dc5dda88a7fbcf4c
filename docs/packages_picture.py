"""Draws the packages and their imports as an SVG picture for `docs/architecture.md`.

Each package is below those that import it, and as high as possible. Lines lead down to what is imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from xml.sax.saxutils import escape

WIDTH, BOX_WIDTH, BOX_HEIGHT, ROW_HEIGHT, MARGIN = 760, 104, 30, 74, 16

Arrows = Mapping[str, set[str]]
#: Name of a package → horizontal middle and top of its box.
Places = dict[str, tuple[float, float]]

_STYLE = (
    "rect{fill:#f5f7fa;stroke:#5b6b7f}"
    "text{font:13px system-ui,sans-serif;fill:#1c2733;text-anchor:middle}"
    "path{fill:none;stroke:#7d8a99}"
    "@media(prefers-color-scheme:dark){rect{fill:#232b35;stroke:#8a99ab}text{fill:#e6ebf1}path{stroke:#8a99ab}}"
)


def drawing(arrows: Arrows) -> str:
    """Return the SVG of a graph without cycles.

    Parameters
    ----------
    arrows : mapping of str to set of str
        Package → packages that it imports.
    """
    rows = _ordered(_rows(arrows), arrows)
    places = _places(rows)
    height = len(rows) * ROW_HEIGHT - (ROW_HEIGHT - BOX_HEIGHT) + 2 * MARGIN
    lines = [_line(places[name], places[t]) for name in arrows for t in sorted(arrows[name])]
    boxes = [_box(name, *place) for name, place in places.items()]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" role="img" aria-label="Packages and their imports">'
    )
    return "\n".join([head, f"<style>{_STYLE}</style>", *lines, *boxes, "</svg>", ""])


def _rows(arrows: Arrows) -> list[list[str]]:
    """Return the packages by row, from the top: each in the row after the last one that imports it."""
    row = dict.fromkeys(arrows, 0)
    for _ in arrows:
        for name, targets in arrows.items():
            for target in targets:
                row[target] = max(row[target], row[name] + 1)
    return [[name for name in arrows if row[name] == number] for number in range(max(row.values()) + 1)]


def _ordered(rows: list[list[str]], arrows: Arrows) -> list[list[str]]:
    """Return the rows, each sorted by the mean place of its importers, so that few lines cross."""
    ordered = rows[:1]
    for row in rows[1:]:
        places = _places([*ordered, row])

        def mean_importer(name: str, places: Places = places) -> float:
            importers = [places[other][0] for other in places if name in arrows[other]]
            return sum(importers) / len(importers)

        ordered.append(sorted(row, key=mean_importer))
    return ordered


def _places(rows: list[list[str]]) -> Places:
    """Return where each box is: the boxes of a row share its width equally."""
    return {
        name: ((i + 0.5) * WIDTH / len(row), MARGIN + number * ROW_HEIGHT)
        for number, row in enumerate(rows)
        for i, name in enumerate(row)
    }


def _box(name: str, x: float, y: float) -> str:
    return (
        f'<rect x="{x - BOX_WIDTH / 2:g}" y="{y:g}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="5"/>'
        f'<text x="{x:g}" y="{y + 20:g}">{escape(name)}</text>'
    )


def _line(start: tuple[float, float], end: tuple[float, float]) -> str:
    (x0, top), (x1, y1) = start, end
    y0 = top + BOX_HEIGHT
    middle = (y0 + y1) / 2
    return f'<path d="M{x0:g} {y0:g}C{x0:g} {middle:g} {x1:g} {middle:g} {x1:g} {y1:g}"/>'
