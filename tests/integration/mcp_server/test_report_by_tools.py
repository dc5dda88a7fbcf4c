"""A scripted agent investigates five broken runs, writes a report about them, and the report holds.

The agent sees only what tools answer. Then one run is changed and another deleted: their claims say so. It
also moves the open page of a board, by a code.
"""

from __future__ import annotations

import json
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from rlpanel.runtime import Runtime
from tests.bench.broken_runs.kinds import broken_run
from tests.bench.broken_runs.run_files import RunFiles
from tests.factories import write_run
from tests.integration.mcp_server.asking import Answers, ask
from tests.ui.board import Served

pytestmark = pytest.mark.skipif(not find_spec("mcp"), reason="needs mcp")

#: Kinds of broken runs with the seed of a small one, and the rule that finds the fault.
KINDS = {
    "invalid_text_in_category": 29,
    "rank_repeats": 16,
    "kl_spike": 13,
    "advantage_sign": 14,
    "truncation_jump": 28,
}
#: Kind → the number that shows the fault.
NUMBERS = {
    "invalid_text_in_category": "invalid_chars_mean",
    "rank_repeats": "reward_mean",
    "kl_spike": "kl_k3_mean",
    "advantage_sign": "reward_mean",
    "truncation_jump": "ended_mean",
}


async def investigate(answers: Answers, run: str, home: str) -> None:
    """Claim the first finding, a number at its onset, a query and a quotation of an affected sample."""
    [finding, *_] = await answers.rows("findings", run=run)
    common: dict[str, Any] = {"run": home, "report": "Five runs", "other_run": "" if run == home else run}
    claims: list[dict[str, Any]] = [
        {
            "kind": "finding",
            "rule": finding["rule"],
            "subject": finding["subject"],
            "onset": finding["onset"],
        },
        {"kind": "number", "metric": NUMBERS[run], "steps": str(finding["onset"])},
        {"kind": "query", "question": "steps", "options": {"step": finding["onset"]}},
    ]
    [row] = await answers.rows("samples", run=run, filter=finding["filter"], limit=1)
    [sample] = await answers.rows("sample", run=run, uid=row["uid"])
    claims.append(
        {"kind": "quotation", "uid": row["uid"], "field": "response", "quote": sample["response"][:40]}
    )
    passage = f"## {run}\n{finding['sentence']}"
    await answers.rows("claim", kind="text", text=passage, run=home, report="Five runs")
    for claim in claims:
        [written] = await answers.rows("claim", **common, **claim)
        assert written["mark"] == "holds", written


@pytest.mark.slow
def test_a_report_about_five_broken_runs_holds_until_they_change(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    for kind, seed in KINDS.items():
        RunFiles(broken_run(kind, seed)[0], root / kind).write()
    home, *_, changed, deleted = KINDS

    async def session(answers: Answers) -> None:
        for run in KINDS:
            await investigate(answers, run, home)
        document = await answers.document("report", run=home, limit=100)
        about = document["untrusted"]["about"]
        assert (about["holds"], about["changed"], about["broken"]) == (4 * len(KINDS), 0, 0)
        assert document["total"] == 5 * len(KINDS)
        rows = await answers.rows("report", run=home, limit=100)
        assert rows[-1]["link"].startswith(f"?run={deleted}&")

    ask(root, session, "--notes")
    for log in (root / changed).rglob("*.jsonl"):
        rows = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
        for row in rows:
            if "reward" in row:
                row["reward"] = 0.25
            if "response" in row:
                row["response"] = "0"
        log.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    shutil.rmtree(root / deleted)

    async def later(answers: Answers) -> None:
        rows = await answers.rows("report", run=home, limit=100)
        marks = {run: [row["mark"] for row in rows if f"of {run}" in (row["about"] or "")] for run in KINDS}
        assert marks[deleted] == ["broken"] * 4
        assert marks[changed][1:] == ["changed", "changed", "broken"]
        assert all(mark == "holds" for run in (*KINDS,)[1:-2] for mark in marks[run])
        abouts = {row["about"]: row for row in rows if row["about"]}
        [number] = [
            row for about, row in abouts.items() if about.startswith("reward_mean at") and changed in about
        ]
        assert number["found"] == "0.25"
        assert number["expected"] != "0.25"

    ask(root, later)


def test_show_moves_the_page_and_claim_needs_permission(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "exp", steps=2)
    shown: list[Any] = []
    with Runtime() as runtime, Served(tmp_path / "runs", runtime=runtime) as server:
        code = runtime.codes.give("page", shown.append)

        async def session(answers: Answers) -> None:
            told = await answers.document("show", address="?run=exp&step=2&page=samples", code=code)
            assert told == {"shown": "?run=exp&step=2&page=samples"}
            assert "no open page has this code" in await answers.error(
                "show", address="?step=1", code="WRONG"
            )
            assert "no key" in await answers.error("show", address="?nosuch=1", code=code)
            assert (await answers.client.call_tool("claim", {"run": "exp", "kind": "text"})).is_error

        ask(tmp_path / "runs", session, "--board", server.url)
    assert shown == [{"run": "exp", "step": 2, "page": "samples", "follow": False}]
    assert not list((tmp_path / "runs").rglob(".rlpanel-claims*"))
