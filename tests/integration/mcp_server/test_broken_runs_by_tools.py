"""A scripted session finds the cause of five broken runs by tools alone.

The session sees only what tools answer: it takes one of the first findings, looks at its samples,
and then proves the cause by numbers. The truth comes from the generator.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.bench.broken_runs.kinds import broken_run
from tests.bench.broken_runs.run_files import RunFiles
from tests.integration.mcp_server.asking import Answers, ask

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not all(map(find_spec, ("mcp", "duckdb"))), reason="needs mcp and duckdb"),
]

Finding = dict[str, Any]
Proof = Callable[[Answers, str, Finding], Awaitable[None]]
#: Logged steps between the true onset and the one that the finding names, at most.
NEAR = 2


async def invalid_text(answers: Answers, run: str, finding: Finding) -> None:
    """One language has invalid characters, and the sample of the finding shows one."""
    shares = await answers.rows(
        "sql",
        run=run,
        query="select lang, avg(cast(invalid_chars > 0 as int)) as share from samples "
        f"where step between {finding['onset']} and {finding['last']} group by lang order by share desc",
    )
    assert finding["category"] == f"lang = {shares[0]['lang']}"
    assert shares[0]["share"] > 0.3
    assert all(row["share"] < 0.05 for row in shares[1:])
    [sample] = await answers.rows("sample", run=run, uid=finding["uid"])
    assert "\ufffd" in sample["response"]


async def repeated_rank(answers: Answers, run: str, finding: Finding) -> None:
    """The responses of one rank are those of another."""
    rows = await answers.rows(
        "samples", run=run, step=finding["onset"], text=True, limit=500, columns=["reward"]
    )
    of_rank: dict[int, set[str]] = {}
    for row in rows:
        of_rank.setdefault(row["rank"], set()).add(row["response"])
    repeated = of_rank.pop(finding["rank"])
    assert any(len(repeated & other) >= 0.9 * len(repeated) for other in of_rank.values())


async def kl_spike(answers: Answers, run: str, finding: Finding) -> None:
    """Few samples have tokens at which policy and reference differ by more than three nats."""
    step = finding["worst"] or finding["onset"]
    [top, *rest] = await answers.rows(
        "samples", run=run, step=step, sort="-kl_k3_mean", columns=["kl_k3_mean"]
    )
    assert top["kl_k3_mean"] > 10 * rest[-1]["kl_k3_mean"]
    tokens = await answers.rows("sample_tokens", run=run, uid=top["uid"], metrics=["log_ratio"], limit=500)
    assert max(abs(token["log_ratio"]) for token in tokens) > 3


async def reversed_advantage(answers: Answers, run: str, finding: Finding) -> None:
    """Within groups, a higher reward has a lower advantage, since the onset only."""
    query = (
        "select step, avg(c) as c from (select step, corr(reward, advantage) as c from samples "
        'group by step, "group") where not isnan(c) group by step order by step'
    )
    by_step = {row["step"]: row["c"] for row in await answers.rows("sql", run=run, query=query)}
    assert by_step[finding["last"]] < -0.9
    before = [value for step, value in by_step.items() if step < finding["onset"]]
    assert all(value > 0.9 for value in before)


async def truncation(answers: Answers, run: str, finding: Finding) -> None:
    """The share of truncated responses jumps at the onset; the contrast names it."""
    steps = await answers.rows("steps", run=run, columns=["ended_mean"], last=500)
    share = {row["step"]: 1 - row["ended_mean"] for row in steps}
    before = max(value for step, value in share.items() if step < finding["onset"])
    assert share[finding["onset"]] > before + 0.2
    different = await answers.rows(
        "contrast", run=run, a=f"{finding['onset']}..", b=f"..{finding['onset'] - 1}"
    )
    assert {row["name"].split(" ")[0] for row in different[:5]} & {
        *("truncated", "ended", "finish_reason", "response_tokens", "response_chars")
    }


@dataclass(frozen=True)
class Case:
    """A kind of broken run; ``seed`` makes a small one with the finding in ``rule``."""

    kind: str
    seed: int
    title: str
    proof: Proof


CASES = [
    Case("invalid_text_in_category", 29, "Invalid UTF-8", invalid_text),
    Case("rank_repeats", 16, "Rank repeats another rank", repeated_rank),
    Case("kl_spike", 13, "KL spike", kl_spike),
    Case("advantage_sign", 14, "Advantages against rewards", reversed_advantage),
    Case("truncation_jump", 28, "Truncated responses", truncation),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.kind)
def test_tools_lead_to_the_cause(tmp_path: Path, case: Case) -> None:
    table, truth = broken_run(case.kind, case.seed)
    RunFiles(table, tmp_path / "runs" / "exp").write()
    steps = list(table.setup.steps)

    async def session(answers: Answers) -> None:
        [listed] = await answers.rows("runs")
        run = listed["run"]
        findings = await answers.rows("findings", run=run)
        [finding] = [found for found in findings[:3] if found["title"] == case.title][:1]
        assert abs(steps.index(finding["onset"]) - steps.index(truth.onset)) <= NEAR
        assert finding["evidence"]
        affected = await answers.rows(
            "samples", run=run, filter=finding["filter"], sort=finding["sort"], limit=5
        )
        assert affected
        await answers.rows("sample", run=run, uid=affected[0]["uid"])
        await case.proof(answers, run, finding)
        assert "step=" in await answers.text("link", run=run, step=finding["onset"], filter=finding["filter"])

    ask(tmp_path / "runs", session)
