"""Addresses of the rules' descriptions in the documentation.

The package's metadata names the repository, see ``hatch_build.py``. A build that does not know it has no
links.
"""

from __future__ import annotations

from functools import cache
from urllib.parse import quote

from rlpanel.findings.engine.rule import RULES

_PAGE = "findings.md"


def rule_anchor(rule: str) -> str:
    """Return the anchor of a rule's heading, as GitHub and the site make it.

    Raises
    ------
    KeyError
        If there is no such rule.
    """
    title = f"{RULES[rule].label} · {rule}".lower()
    return "".join(sign for sign in title if sign.isalnum() or sign in "_- ").replace(" ", "-")


def rule_address(rule: str, index: str | None = None) -> str:
    """Return the address of a rule's description; empty if the rule or the documentation's place is unknown.

    Parameters
    ----------
    rule : str
    index : str, optional
        Address of the documentation's first page; by default that of the package's metadata.
    """
    index = documentation() if index is None else index
    if rule not in RULES or not index.startswith(("https://", "http://")):
        return ""
    return f"{index.rpartition('/')[0]}/{_PAGE}#{quote(rule_anchor(rule))}"


@cache
def documentation() -> str:
    """Return the address of the documentation's first page; empty if the package's metadata has none."""
    from importlib.metadata import PackageNotFoundError, metadata

    try:
        found = metadata("rlpanel").get_all("Project-URL") or []
    except PackageNotFoundError:  # a folder on the path, which was not installed
        return ""
    addresses = dict(each.partition(", ")[::2] for each in found)
    return addresses.get("Documentation", "")
