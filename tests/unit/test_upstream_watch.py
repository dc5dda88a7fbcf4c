"""The watch of trainers' releases: what is read in short, what differs, and what its report says."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from docs.writers import WRITERS
from tests.upstream import watch
from tests.upstream.summary import summary
from tests.upstream.trainers import TRAINERS, Trainer


def written(folder: Path, **fields: Any) -> dict[str, Any]:
    """What is read of a step of verl, whose lines have more keys."""
    folder.mkdir()
    lines = [
        {"input": "2 + 2?", "output": text, "gts": "4", "score": float(text == "4"), "step": 1} | fields
        for text in ("4", "five")
    ]
    (folder / "1.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return summary(folder)


def test_a_summary_has_counts_means_and_the_keys_that_change_nothing(tmp_path: Path) -> None:
    found = written(tmp_path / "run", info={"seed": 7}, kind="math")
    assert found["keys"] == ["gts", "info", "info.seed", "input", "kind", "output", "score", "step"]
    assert found["not read"] == ["info", "info.seed"]
    train = found["runs"]["."]["splits"]["train"]
    assert (train["samples"], train["steps"], train["means"]["reward"]) == (2, {"1": 2}, 0.5)
    assert "kind" in train["columns"]


def test_a_summary_is_the_same_each_time(tmp_path: Path) -> None:
    assert written(tmp_path / "run") == summary(tmp_path / "run")


def test_a_key_that_appears_and_is_not_read_is_listed(tmp_path: Path) -> None:
    known, answer = written(tmp_path / "old"), written(tmp_path / "new", info={"seed": 7}, level="hard")
    assert watch.differences(known, answer)[:3] == [
        "writes `info`, which rlpanel does not read",
        "writes `info.seed`, which rlpanel does not read",
        "writes `level`, which is read",
    ]
    assert watch.differences(answer, known)[0] == "no longer writes `info`"
    assert watch.differences(known, known) == []


def test_a_value_that_is_read_differently_is_named_by_its_place(tmp_path: Path) -> None:
    known = written(tmp_path / "run")
    answer = copy.deepcopy(known)
    answer["runs"]["."]["splits"]["train"]["means"]["reward"] = 0.25
    assert watch.differences(known, answer) == [". / splits / train / means / reward: 0.5 → 0.25"]


def test_the_issue_has_a_row_for_each_trainer_and_the_findings_of_those_that_changed() -> None:
    same = watch.Report(Trainer("verl", "verl"), tested="1.0", newest="1.0", release="1.0")
    gone = watch.Report(Trainer("SkyRL", "skyrl"), tested="1.0", newest="1.1", release="1.1")
    gone.found("failed", "`skyrl.evaluations` moved or is gone: f.py of this release has no dump")
    gone.found("changed", "something else")
    text = watch.issue([same, gone])
    assert "| verl | 1.0 | 1.0 | 1.0 | no | same |" in text
    assert "| SkyRL | 1.0 | 1.1 | 1.1 | no | failed |" in text
    assert "## SkyRL 1.1\n\n- `skyrl.evaluations` moved or is gone" in text
    assert "## verl" not in text


def test_every_executed_package_has_an_accepted_answer_at_its_pinned_version() -> None:
    pinned = {each.package: each.version for each in WRITERS if each.package}
    known = {each.package: watch.accepted(each.package) for each in TRAINERS}
    assert {package: known[package]["tested"] for package in pinned} == pinned
    assert {each.package: list(each.writers) for each in TRAINERS} == {
        package: list(answer["writers"]) for package, answer in known.items()
    }
