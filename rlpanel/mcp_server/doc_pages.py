"""Pages of the documentation for agents; the long one on metrics is served in parts, one for each metric."""

from __future__ import annotations

import difflib
import re
from functools import cache
from importlib import resources

from rlpanel.errors import SettingError

# -- carried pages -------------------------------------------------------------------------------------
# Pages of the documentation that the wheel carries, for agents.


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


# -- doc pages -----------------------------------------------------------------------------------------


#: Resource → file below ``docs`` and what it is.
PAGES = {
    "agents": ("agents-cli.md", "How to watch a run, what to look at first, and how to report."),
    "sql": ("sql.md", "The tables and columns of the tool sql."),
    "findings": ("findings.md", "The rules behind the findings, with their thresholds."),
    "metrics": ("metrics.md", "Rules and symbols of all numbers, and the names of the metrics."),
}
#: Address of the part on one metric.
METRIC_URI = "docs://metrics/{name}"
METRIC_ABOUT = "One number: formula, average, needs, unit and source; a column such as kl_k3_mean, too."
_AS_TOOLS = (
    "Each command on this page is a tool of the same name, with _ for -. Its options are arguments; --json "
    "is not needed."
)
_HEADING = re.compile(r"^### .*`([^`]+)`$", re.MULTILINE)
_COLUMNS = re.compile(r"^- \*\*Columns:\*\* (.*)$", re.MULTILINE)
#: Statistics of a step's samples, which follow the name of a column.
_STATISTIC = re.compile(r"_(mean|std|min|max|sum)$")


def page_text(name: str) -> str:
    """Return a page of `PAGES`, without what an agent that is asking the server does not need.

    The parts on metrics have addresses of their own; together they would exceed the limits of an answer.
    """
    page = read_page(PAGES[name][0])
    if name == "agents":
        guide, _, _ = page.partition("\n## As a server")
        return f"{_AS_TOOLS}\n\n{guide}\n"
    if name != "metrics":
        return page
    head = page[: page.index("\n## Logged and counted")]
    return f"{head}\n## Metrics\n\n`docs://metrics/NAME` has each of: {', '.join(metric_names())}.\n"


@cache
def _metrics() -> dict[str, str]:
    """Return the part of the page on each metric by its name."""
    page = read_page(PAGES["metrics"][0])
    places = [*_HEADING.finditer(page)]
    ends = [found.start() for found in places[1:]] + [len(page)]
    parts = (page[found.start() : end] for found, end in zip(places, ends, strict=True))
    # The last part of a chapter is followed by the heading of the next one.
    return {
        found[1]: part.partition("\n## ")[0].strip() + "\n" for found, part in zip(places, parts, strict=True)
    }


@cache
def _owners() -> dict[str, str]:
    """Return the metric of each column that a part names."""
    return {
        column: name
        for name, part in _metrics().items()
        for listed in _COLUMNS.findall(part)
        for column in re.findall(r"`([^`]+)`", listed)
    }


def metric_names() -> list[str]:
    """Return the names of all metrics, in the order of the page."""
    return list(_metrics())


def metric_text(name: str) -> str:
    """Return the part on one metric.

    Parameters
    ----------
    name : str
        Name of a metric, or of a column or a step's statistic of one, such as ``kl_k3_mean``.

    Raises
    ------
    SettingError
        If there is none; the message suggests similar names.
    """
    known, owners = _metrics(), _owners()
    for tried in (name, _STATISTIC.sub("", name), owners.get(name), owners.get(_STATISTIC.sub("", name))):
        if tried in known:
            return known[tried]
    near = difflib.get_close_matches(name[:80], known, n=3)
    hint = f"; similar: {', '.join(near)}" if near else ""
    raise SettingError(f"there is no metric {name[:80]!r}{hint}. docs://metrics lists all.")
