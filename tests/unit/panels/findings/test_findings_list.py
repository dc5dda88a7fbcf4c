"""The list of findings in reports and notebooks."""

from __future__ import annotations

from html.parser import HTMLParser

from rlpanel.findings.engine.finding import Finding
from rlpanel.panels.findings.findings_list import list_html

MARKUP = "<img src=x onerror=alert(1)>"
SYMPTOM = Finding(severity="warning", sentence=f"The reward falls {MARKUP}.", title="Sustained change")
CAUSE = Finding(
    severity="alarm",
    sentence=f"Rank 1 differs {MARKUP}.",
    evidence=(f"Mean reward 0.2 {MARKUP}.", "Others 0.9."),
    advice="Compare the weights.",
    symptoms=(SYMPTOM,),
    title="Rank differs",
)
PAST = Finding(severity="info", sentence="It was truncated.", title="Truncated responses")


class Page(HTMLParser):
    """Collects the texts of a page in order, and its tags."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag."""
        self.tags.add(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        """Note a text."""
        self.texts += [data.strip()] if data.strip() else []


def test_a_finding_is_listed_with_title_evidence_advice_and_symptoms() -> None:
    page = Page(list_html([CAUSE]))
    assert page.texts == [
        *("▲", "Rank differs", f"Rank 1 differs {MARKUP}.", f"Mean reward 0.2 {MARKUP}.", "Others 0.9."),
        *("Check next:", "Compare the weights.", "Also seen", "●", f"The reward falls {MARKUP}."),
    ]
    assert ("aria-label", "alarm") in page.attributes


def test_texts_of_a_log_add_no_elements() -> None:
    assert "img" not in Page(list_html([CAUSE, PAST])).tags


def test_what_ended_long_ago_is_below_earlier() -> None:
    page = Page(list_html([CAUSE, PAST]))
    assert page.texts[-4:] == ["Earlier (1)", "○", "Truncated responses", "It was truncated."]
    assert ("open", None) not in page.attributes


def test_earlier_is_open_if_nothing_goes_on() -> None:
    page = Page(list_html([PAST]))
    assert page.texts[:2] == ["No finding concerns the newest complete steps.", "Earlier (1)"]
    assert ("open", None) in page.attributes


def test_no_findings_are_a_sentence() -> None:
    assert Page(list_html([])).texts == ["No findings in the complete steps."]
