"""A finding leads to the description of its rule in the documentation."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import pytest

from rlpanel.findings.engine.rule import RULES
from rlpanel.panels.findings.findings_list import rule_address

PAGE = Path(__file__).parents[3] / "docs" / "findings.md"
INDEX = "https://example.org/owner/rlpanel/blob/main/docs/index.md"


def anchors(text: str) -> set[str]:
    """Return the anchors of the headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_each_rule_has_a_heading_at_its_address() -> None:
    found = anchors(PAGE.read_text(encoding="utf-8"))
    for rule in RULES:
        page, _, anchor = rule_address(rule, INDEX).partition("#")
        assert page == "https://example.org/owner/rlpanel/blob/main/docs/findings.md"
        assert unquote(anchor) in found, rule


@pytest.mark.parametrize(
    ("rule", "index"), [("kl_spike", ""), ("kl_spike", "javascript:alert(1)/x"), ("rule_failed", INDEX)]
)
def test_what_has_no_known_address_has_no_link(rule: str, index: str) -> None:
    assert rule_address(rule, index) == ""
