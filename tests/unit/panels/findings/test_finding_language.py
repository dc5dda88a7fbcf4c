"""Findings in Chinese: titles, severities and the words around them; sentences stay English."""

from __future__ import annotations

import pytest

from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.rule import RULES
from rlpanel.panels.findings.findings_badge import finding_json
from rlpanel.panels.findings.findings_list import list_html
from rlpanel.panels.language.labels import CHINESE, tr, using
from rlpanel.store.snapshot.snapshot import Snapshot

SYMPTOM = Finding(severity="warning", sentence="Errors rose.", rule="kl_spike", title="KL spike")
FINDING = Finding(
    severity="alarm", sentence="add fails.", rule="tool_fails", title="A tool fails", symptoms=(SYMPTOM,)
)


def test_the_popup_and_the_list_have_chinese_titles() -> None:
    with using(CHINESE):
        shown, html = finding_json(FINDING, Snapshot("")), list_html([FINDING])
    assert (shown["title"], shown["sentence"]) == ("工具失败", "add fails.")
    assert [symptom["title"] for symptom in shown["symptoms"]] == ["KL 尖峰"]
    for words in ("工具失败", "同时出现", 'aria-label="警报"', "add fails."):
        assert words in html


@pytest.mark.parametrize("name", RULES)
def test_each_rule_has_a_chinese_title(name: str) -> None:
    label = RULES[name].label
    with using(CHINESE):
        assert tr(label) != label
    assert finding_json(FINDING, Snapshot(""))["title"] == "A tool fails"
