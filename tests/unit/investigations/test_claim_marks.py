"""Marks of claims on runs that stay, change, lose steps, texts or samples, or are gone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

import rlpanel
from rlpanel.errors import SettingError
from rlpanel.investigations.claim_marks import MAX_CLAIMS, MarkedEntry, evaluate
from rlpanel.investigations.report_entry import ReportEntry
from rlpanel.investigations.report_file import FILE, ReportFile
from rlpanel.queries.reports.claim_report import add_entry
from rlpanel.queries.reports.claim_source import ClaimSource
from rlpanel.queries.run_data import RunData
from tests.factories import line, write_run

LOG = "rollout_data_rank_0.jsonl"
ODD = "𝔘nicode 😀👩‍👩‍👧 汉字 <script>alert(1)</script> & \u202eback"
Open = Callable[..., RunData]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """Opens a run and reads it once, without saved columns: the tests rewrite logs."""
    monkeypatch.setenv("RLPANEL_CACHE", "0")
    with ExitStack() as stack:
        yield lambda folder: stack.enter_context(rlpanel.open_run(folder, follow=False)).data


def write(folder: Path, steps: range, **fields: object) -> Path:
    """Write a run whose sample 0 has the odd text, and whose reward is step + index / 10."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        line(step, index=at, **({"reward": step + at / 10, "response": f"so: {ODD}!"} | fields))
        for step in steps
        for at in range(4)
    ]
    (folder / LOG).write_bytes(b"".join(rows))
    return folder


def marks(run: RunData, root: Path | None = None, **options: float) -> list[MarkedEntry]:
    *_, last = evaluate(ClaimSource(run, root), ReportFile(run.path).entries(), **options)
    return [each for each in last.entries if each.mark]


def test_a_number_holds_then_changes_then_breaks(tmp_path: Path, opened: Open) -> None:
    folder = write(tmp_path / "run", range(1, 6))
    [row] = add_entry(opened(folder), "number", claim={"metric": "reward_mean", "steps": "2..4"}).rows
    oracle = float(np.mean([[step + at / 10 for at in range(4)] for step in (2, 3, 4)]))
    assert (row["mark"], row["expected"]) == ("holds", f"{oracle:.6g}")
    assert row["link"] == "?run=run&step=2"
    write(folder, range(1, 6), reward=9.0)
    [changed] = marks(opened(folder))
    assert (changed.mark, changed.expected, changed.found) == ("changed", f"{oracle:.6g}", "9")
    write(folder, range(1, 4))
    [trimmed] = marks(opened(folder))
    assert (trimmed.mark, trimmed.reason) == ("broken", "1 of 3 steps with a value are gone (2..4)")
    write(folder, range(1, 2))
    assert marks(opened(folder))[0].reason.startswith("step 2..4 is gone")
    write(folder, range(1, 6), reward=None)
    [without] = marks(opened(folder))
    assert without.mark == "broken"
    assert "reward_mean" in without.reason


def test_a_value_that_is_not_a_number_breaks_the_claim(tmp_path: Path, opened: Open) -> None:
    folder = write(tmp_path / "run", range(1, 4))
    add_entry(opened(folder), "number", claim={"metric": "reward_mean", "steps": "2"})
    rows = [json.loads(each) for each in (folder / LOG).read_bytes().splitlines()]
    for row in rows:
        row["reward"] = None if row["step"] == 2 else row["reward"]
    (folder / LOG).write_text("".join(json.dumps(row) + "\n" for row in rows))
    [broken] = marks(opened(folder))
    assert (broken.mark, broken.reason) == ("broken", "reward_mean is not a number at step 2")


def test_a_tolerance_allows_a_difference(tmp_path: Path, opened: Open) -> None:
    folder = write(tmp_path / "run", range(1, 3))
    run = opened(folder)
    given = {"metric": "reward_mean", "steps": "1", "expected": 1.2}
    with pytest.raises(SettingError, match=r"does not hold: the difference is 0\.05; .* the run has 1\.15"):
        add_entry(run, "number", claim=given)
    assert add_entry(run, "number", claim={**given, "tolerance": 0.06}).rows[0]["mark"] == "holds"
    assert not ReportFile(folder).entries()[1:]


def test_a_cell_and_a_query_hold_until_the_table_changes(tmp_path: Path, opened: Open) -> None:
    folder = write(tmp_path / "run", range(1, 4))
    asked = {"question": "samples", "options": {"sort": "-reward", "limit": 2}}
    add_entry(opened(folder), "number", claim={**asked, "column": "reward", "row": 1})
    add_entry(opened(folder), "query", claim=asked)
    assert [each.mark for each in marks(opened(folder))] == ["holds", "holds"]
    assert marks(opened(folder))[0].expected == "3.2"
    write(folder, range(1, 5))
    cell, query = marks(opened(folder))
    assert (cell.mark, cell.found) == ("changed", "4.2")
    assert (query.mark, query.reason) == ("changed", "the rows have other values")
    assert '"reward": 4.3' in query.evidence[0][1]
    assert '"reward": 3.3' in query.entry.claim["excerpt"]
    write(folder, range(1, 5), reward=None)
    assert [each.mark for each in marks(opened(folder))] == ["broken", "broken"]


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        ({"question": "runs"}, "cannot ask 'runs'"),
        ({"question": "report"}, "cannot ask 'report'"),
        ({"question": "compare"}, "cannot ask 'compare'"),
        ({"question": "samples", "options": {"sorted": 1}}, "no option 'sorted'"),
        ({"question": "samples", "options": {"limit": 2, "text": [1]}}, "text has no valid value"),
        ({"question": "steps", "options": {"columns": [1]}}, "columns has no valid value"),
        ({"question": "search", "options": {"text": 1}}, "text has no valid value"),
        ({"question": "samples", "options": {"filter": "reward <"}}, "cannot be evaluated"),
    ],
)
def test_a_query_that_cannot_be_asked_is_refused(grpo: rlpanel.Run, claim: dict, said: str) -> None:
    with pytest.raises(SettingError, match=said):
        add_entry(grpo.data, "query", claim=claim)
    assert not (Path(str(grpo.path)) / FILE).exists()


def test_a_quotation_of_any_letters_holds_moves_and_breaks(tmp_path: Path, opened: Open) -> None:
    folder = write(tmp_path / "run", range(1, 3))
    claim = {"uid": f"{LOG}:0", "field": "response", "text": ODD}
    [row] = add_entry(opened(folder), "quotation", claim=claim).rows
    assert (row["mark"], row["expected"]) == ("holds", f"characters 4 to {4 + len(ODD)}")
    assert row["evidence"] == [f"so: {ODD}!"]
    assert "sample=rollout_data_rank_0.jsonl%3A0" in row["link"]
    write(folder, range(1, 3), response=f"{ODD} first")
    [moved] = marks(opened(folder))
    assert (moved.mark, moved.reason) == ("changed", "the text stands at another place")
    write(folder, range(1, 3), response="nothing of it")
    [gone] = marks(opened(folder))
    assert (gone.mark, gone.reason[:16]) == ("broken", "the text is gone")
    write(folder, range(1, 3), response=None)
    assert marks(opened(folder))[0].reason == "the sample has no response"
    (folder / LOG).write_bytes(b"\n" + line(1))
    assert marks(opened(folder))[0].reason == f"the sample {LOG}:0 is gone"


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        ({"uid": f"{LOG}:0", "field": "response", "text": "never said"}, "does not hold it"),
        ({"uid": f"{LOG}:0", "field": "__class__", "text": "x"}, "a text of a sample is"),
        ({"uid": f"{LOG}:0", "field": "messages.7", "text": "x"}, "messages.7 is gone"),
        ({"uid": "../other/log.jsonl:0", "field": "response", "text": "x"}, "is gone"),
    ],
)
def test_a_false_quotation_is_refused(tmp_path: Path, opened: Open, claim: dict, said: str) -> None:
    run = opened(write(tmp_path / "run", range(1, 2)))
    with pytest.raises(SettingError, match=said):
        add_entry(run, "quotation", claim=claim)


def test_a_finding_holds_and_changes(tmp_path: Path, opened: Open) -> None:
    folder = write_run(tmp_path / "run", steps=12, samples=8, response="the same words for all of them")
    run = opened(folder)
    found = rlpanel.queries.findings.findings(run).rows
    assert found, "the run has no finding"
    claim = {"rule": found[0]["rule"], "subject": found[0]["subject"]}
    [row] = add_entry(run, "finding", claim=claim).rows
    assert row["mark"] == "holds"
    assert found[0]["sentence"] in row["evidence"]
    with pytest.raises(SettingError, match="there is no rule 'nosuch'"):
        add_entry(run, "finding", claim={"rule": "nosuch"})
    with pytest.raises(SettingError, match="finds nothing"):
        add_entry(run, "finding", claim={"rule": "missing_rank"})
    for path in folder.glob("rollout*.jsonl"):
        path.unlink()
    write_run(folder, steps=3, samples=8)
    [changed] = marks(opened(folder))
    assert (changed.mark, changed.found) == ("changed", "not found")


def test_a_claim_about_another_run_breaks_when_it_is_renamed(tmp_path: Path, opened: Open) -> None:
    here, there = write(tmp_path / "a", range(1, 3)), write(tmp_path / "sub" / "b", range(1, 4))
    (here / FILE).write_text(
        json.dumps(
            {
                "id": "x",
                "report": "R",
                "kind": "number",
                "other_run": "sub/b",
                "claim": {"metric": "reward_mean", "steps": "3", "expected": 3.15},
            }
        )
        + "\n"
    )
    [other] = marks(opened(here), tmp_path)
    assert (other.mark, other.link) == ("holds", "?run=sub%2Fb&step=3")
    there.rename(tmp_path / "sub" / "c")
    [gone] = marks(opened(here), tmp_path)
    assert (gone.mark, gone.reason) == ("broken", "the run 'sub/b' is gone: it was deleted or renamed")


@pytest.mark.parametrize("name", ["../outside", "/", "sub/../../outside", "link"])
def test_no_name_of_a_run_leads_out_of_the_root(tmp_path: Path, opened: Open, name: str) -> None:
    root = tmp_path / "root"
    here, outside = write(root / "a", range(1, 3)), write(tmp_path / "outside", range(1, 3))
    (root / "link").symlink_to(outside)
    claim = {"metric": "reward_mean", "steps": "1", "expected": 1.15}
    entry = {"id": "x", "report": "R", "kind": "number", "other_run": name, "claim": claim}
    (here / FILE).write_text(json.dumps(entry) + "\n")
    [broken] = marks(opened(here), root)
    assert broken.mark == "broken"
    assert "is gone" in broken.reason


def test_claims_beyond_the_limits_are_said_not_evaluated(grpo: rlpanel.Run) -> None:
    claim = {"metric": "reward_mean", "steps": "1", "expected": 1.0}
    base = {"report": "R", "kind": "number", "claim": claim}
    entries = [ReportEntry(f"c{at}", **base) for at in range(MAX_CLAIMS + 10)]
    *steps, last = evaluate(ClaimSource(grpo.data), entries)
    assert last.counts["not evaluated"] == 10
    assert last.entries[-1].reason == "only the first 500 claims are evaluated"
    assert [progress.done for progress in steps[:3]] == [0, 1, 2]
    *_, late = evaluate(ClaimSource(grpo.data), entries[:3], seconds=-1.0)
    assert [each.mark for each in late.entries] == ["not evaluated"] * 3
