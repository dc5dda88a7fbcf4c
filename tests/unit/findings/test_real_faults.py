"""Findings in real trainings of a tiny model, recorded with one fault each; made by `tests.train.faults`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.bench.finding_scores import check_folder
from tests.bench.reported import words_of

DATA = Path(__file__).parents[2] / "data" / "faults"
#: Words that name the cause; every fault begins at step 25.
NAMED = {
    "rate": r"(?i)\blr\b|learning.rate",
    "null_part": r"(?i)score_format.*(null|missing)|(null|missing).*score_format",
    "mixed_groups": r"(?i)prompts?\b.*\bgroups?|groups?\b.*\bprompts?",
    "template": r"(?i)prompts?\b.*\b(end|suffix|last|template)|template",
    "leak": r"(?i)\beval.*\bprompts?|prompts?\b.*\beval",
    "cached_tool": r"(?i)(tool|stock)\b.*\bresult|result.*\b(tool|stock)",
}


@pytest.mark.parametrize("fault", NAMED)
def test_the_cause_of_a_fault_is_named(fault: str) -> None:
    severe = [each for each in check_folder(DATA / fault) if each.severity != "info"]
    named = [each for each in severe if re.search(NAMED[fault], words_of(each))]
    assert named
    assert min(abs((each.onset or 0) - 25) for each in named) <= 3


def test_a_healthy_training_has_neither_warning_nor_alarm() -> None:
    found = check_folder(DATA / "healthy")
    assert [each.sentence for each in found if each.severity != "info"] == []
