"""Measures the server for agents: calls and bytes until a cause is found, and the sizes of usual answers.

python -m tests.bench.agents [--against PATH] [--rounds N] [--size SIZE] [--record]
python -m tests.bench.agents --show

Fifteen runs are broken in known ways. The script follows the guide for agents: it asks for the findings, and
reads a sample of the first one. If the cause is another one, it goes on to the next, up to
three. A finding names the cause if it or one of its symptoms is of a rule that the generator gives for it.
``--show`` prints what each run took. Bytes are those of the texts that a model reads. Answers are the same in
all rounds, so ``--rounds 1`` is enough.
"""

from __future__ import annotations

import asyncio
import json
import re
import statistics
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlpanel.mcp_server.answer import AnswerLimits
from rlpanel.mcp_server.run_pool import RunPool
from rlpanel.mcp_server.server_setup import create_server
from rlpanel.runtime import default_runtime
from tests.bench.broken_runs.breakage import Truth
from tests.bench.broken_runs.kinds import broken_run
from tests.bench.broken_runs.run_files import RunFiles
from tests.bench.generate import Shape, write_log
from tests.bench.harness import Figures, Task, run

if TYPE_CHECKING:
    from mcp import Client

#: Fifteen kinds with the seed of each; none of these runs is used to set a threshold.
CASES = (
    ("invalid_text_in_category", 901), ("kl_spike", 902), ("advantage_sign", 903), ("truncation_jump", 904),
    ("rank_repeats", 905), ("engine_drift", 906), ("reward_cliff", 907), ("entropy_collapse", 908),
    ("critic_error_grows", 909), ("length_hacking", 910), ("verifier_dead_in_category", 911),
    ("empty_responses", 912), ("next_turn", 913), ("nan_logprobs", 914), ("language_drift_in_category", 915),
)  # fmt: skip
#: Findings that the script looks at, one after the other.
LOOKED_AT = 3
#: Name of an answer → tool and arguments, on the third run; a run and a uid are filled in.
USUAL: dict[str, tuple[str, dict[str, Any]]] = {
    "runs": ("runs", {}),
    "findings": ("findings", {}),
    "steps, 20": ("steps", {"last": 20}),
    "steps, 1": ("steps", {"last": 1}),
    "samples, 20": ("samples", {"limit": 20}),
    "sample": ("sample", {"uid": ""}),
    "sample_tokens, 80": ("sample_tokens", {"uid": "", "limit": 80}),
    "groups, 20": ("groups", {}),
    "contrast": ("contrast", {"a": "15..", "b": "..14"}),
    "sql, 70 rows of 3": (
        "sql",
        {"query": "select uid, reward, avg(reward) over () as mean from samples limit 70"},
    ),
}
#: An answer of a run whose tokens are logged as texts.
TOKENS = ("tokens, 20", "tokens", {"metric": "kl_k3", "limit": 20})


@dataclass
class Talk:
    """Calls of tools, counted.

    Attributes
    ----------
    client : Client
    calls, bytes : int
        Number of calls, and bytes of their answers.
    """

    client: Client
    calls: int = 0
    bytes: int = 0

    async def sizes(self, tool: str, **arguments: Any) -> tuple[int, int]:
        """Return the bytes of an answer, and those of the same rows as objects with all keys and digits."""
        before = self.bytes
        await self.ask(tool, **arguments)
        short = self.bytes - before
        full = await self.ask(tool, **arguments, detail="full")
        objects = full | {"untrusted": {"about": full["untrusted"]["about"], "rows": rows_of(full)}}
        return short, len(json.dumps(objects, ensure_ascii=False, separators=(",", ":")).encode())

    async def ask(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool and return its answer; RuntimeError if it refuses."""
        result = await self.client.call_tool(tool, arguments)
        text: str = result.content[0].text  # type: ignore[union-attr]
        if result.is_error:
            raise RuntimeError(text)
        self.calls += 1
        self.bytes += len(text.encode())
        return dict(json.loads(text))


@dataclass
class Search:
    """The result of one search for a cause."""

    kind: str
    truth: Truth
    found: bool
    onset_error: int | None
    calls: int
    bytes: int
    said: list[str] = field(default_factory=list)


def rows_of(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows by the names of the columns, from arrays or, of older checkouts, from objects."""
    found = answer["untrusted"]
    rows = found["rows"]
    names = found.get("columns")
    same = found.get("same", {})
    return [dict(zip(names, row, strict=True)) | same for row in rows] if names is not None else rows


def names_cause(finding: dict[str, Any], rules: tuple[str, ...]) -> bool:
    """Return whether a finding is of one of the rules; ``rule~kl`` asks for a curve that begins with kl."""
    for rule in rules:
        name, _, begin = rule.partition("~")
        columns = [finding.get("metric") or "", *re.split(r"[\s:]+", finding.get("subject") or "")]
        if finding["rule"] == name and any(column.startswith(begin) for column in columns):
            return True
    return False


async def search(client: Client, name: str, truth: Truth, steps: list[int]) -> Search:
    """Look for the cause of a run as the guide says, and note what it took."""
    talk = Talk(client)
    findings = rows_of(await talk.ask("findings", run=name))
    said = [f"{each['severity']} {each['rule']} {each.get('onset')}" for each in findings]
    found, error = False, None
    for finding in findings[:LOOKED_AT]:
        await read_sample(talk, name, finding)
        found = any(names_cause(one, truth.rules) for one in (finding, *(finding.get("symptoms") or [])))
        if found:
            onset = finding.get("onset")
            error = steps.index(onset) - steps.index(truth.onset) if onset in steps else None
            break
    return Search(truth.kind, truth, found, error, talk.calls, talk.bytes, said)


async def read_sample(talk: Talk, name: str, finding: dict[str, Any]) -> None:
    """Read the sample that a finding names, or the first of those that its filter shows."""
    uid = finding.get("uid")
    if not uid and finding.get("filter"):
        shown = rows_of(await talk.ask("samples", run=name, filter=finding["filter"], limit=5))
        uid = shown[0]["uid"] if shown else ""
    if uid:
        await talk.ask("sample", run=name, uid=uid)


def prepare(task: Task) -> None:
    """Write the broken runs, each in a folder that does not name its kind, and the truth beside the root."""
    truths = {}
    for number, (kind, seed) in enumerate(CASES[: task.pick(2, 15, 15)]):
        table, truth = broken_run(kind, seed)
        RunFiles(table, task.data / "runs" / f"run{number:02d}").write()
        truths[f"run{number:02d}"] = {**vars(truth), "logged": [int(step) for step in table.setup.steps]}
    write_log(task.data / "token_runs" / "run", Shape(steps=2, tokens=64))
    (task.data / "truth.json").write_text(json.dumps(truths))


async def searches(data: Path) -> tuple[list[Search], Figures]:
    """Search the cause of each run, and return what it took, with the bytes of usual answers."""
    from mcp import Client

    truths = json.loads((data / "truth.json").read_text())
    server = create_server(RunPool(data / "runs"), AnswerLimits(), board="", notes=False)
    found, sizes = [], {}
    async with Client(server) as client:
        tools = (await client.list_tools()).tools
        listed = [tool.model_dump(exclude_none=True, by_alias=True, mode="json") for tool in tools]
        sizes["tool list"] = len(json.dumps(listed, separators=(",", ":"), ensure_ascii=False).encode())
        sizes["instructions"] = len((client.instructions or "").encode())
        for name, truth in sorted(truths.items()):
            steps = truth.pop("logged")
            told = Truth(**truth | {"rules": tuple(truth["rules"]), "ranks": tuple(truth["ranks"])})
            found.append(await search(client, name, told, steps))
        first = sorted(truths)[min(2, len(truths) - 1)]
        for label, (tool, asked) in USUAL.items():
            if "uid" in asked:
                [sample] = rows_of(await Talk(client).ask("samples", run=first, limit=1))
                asked = asked | {"uid": sample["uid"]}
            named = {} if tool == "runs" else {"run": first}
            sizes[label], sizes[f"{label}, as objects"] = await Talk(client).sizes(tool, **named, **asked)
    server = create_server(RunPool(data / "token_runs"), AnswerLimits(), board="", notes=False)
    async with Client(server) as client:
        label, tool, asked = TOKENS
        sizes[label], sizes[f"{label}, as objects"] = await Talk(client).sizes(tool, run="run", **asked)
    return found, {f"{label}, bytes": float(size) for label, size in sizes.items()}


def measure(task: Task) -> Figures:
    """Search the causes by tools alone."""
    found, sizes = asyncio.run(searches(task.data))
    default_runtime().close()
    errors = [abs(each.onset_error) for each in found if each.onset_error is not None]
    return {
        "causes found": float(sum(each.found for each in found)),
        "runs": float(len(found)),
        "steps between onset and finding, median": float(statistics.median(errors)) if errors else -1.0,
        "calls per run": statistics.mean(each.calls for each in found),
        "bytes per run": statistics.mean(each.bytes for each in found),
        **sizes,
    }


def show() -> None:
    """Print what each run took."""
    with tempfile.TemporaryDirectory(prefix="rlpanel-bench-") as folder:
        data = Path(folder)
        prepare(Task(data, data, "full"))
        found, sizes = asyncio.run(searches(data))
        default_runtime().close()
    for each in found:
        where = f"{each.truth.onset}, {each.onset_error}" if each.found else f"{each.truth.rules} {each.said}"
        print(f"{each.kind:28} found={each.found} calls={each.calls} bytes={each.bytes} onset: {where}")
    print("\n".join(f"{name}: {size:.0f}" for name, size in sizes.items()))


if __name__ == "__main__":
    if sys.argv[1:] == ["--show"]:
        show()
    else:
        run(measure, prepare)
