"""Findings in real trainings of a tiny model, recorded with one fault each; made by `tests.train.faults`."""

from __future__ import annotations

import lzma
import re
from pathlib import Path

import pytest

from tests.bench.finding_scores import check_folder
from tests.bench.reported import words_of

DATA = Path(__file__).parents[2] / "data" / "faults"
#: Words that name the cause; every fault begins at step 25.
NAMED = {
    "null_part": r"(?i)score_format.*(null|missing)|(null|missing).*score_format",
    "mixed_groups": r"(?i)prompts?\b.*\bgroups?|groups?\b.*\bprompts?",
    "template": r"(?i)prompts?\b.*\b(end|suffix|last|template)|template",
    "rate": r"(?i)\blr\b|learning.rate",
    "cached_tool": r"(?i)(tool|stock)\b.*\bresult|result.*\b(tool|stock)",
}


def unpacked(fault: str, folder: Path) -> Path:
    """Unpack the recorded run of a fault, and return its folder."""
    for path in sorted((DATA / fault).rglob("*.xz")):
        target = folder / path.relative_to(DATA / fault).with_suffix("")
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(lzma.decompress(path.read_bytes()))
    return folder


@pytest.mark.parametrize("fault", NAMED)
def test_the_cause_of_a_fault_is_named(fault: str, tmp_path: Path) -> None:
    severe = [each for each in check_folder(unpacked(fault, tmp_path)) if each.severity != "info"]
    named = [each for each in severe if re.search(NAMED[fault], words_of(each))]
    assert named
    assert min(abs((each.onset or 0) - 25) for each in named) <= 3


def test_a_healthy_training_has_neither_warning_nor_alarm(tmp_path: Path) -> None:
    found = check_folder(unpacked("healthy", tmp_path))
    assert [each.sentence for each in found if each.severity != "info"] == []
