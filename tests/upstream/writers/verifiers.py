"""verifiers' episodes: its evaluations, and the lines of prime-rl's `FileMonitor`.

The package is imported, with its dependencies: its records are declared by pydantic's classes.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from tests.upstream.sources import INSTALLED, MissingWriter

sys.path.append(str(INSTALLED))
try:
    from verifiers.v1.episode import WireEpisode
    from verifiers.v1.judges import ReferenceJudge, ReferenceJudgeConfig
    from verifiers.v1.trace import Trace
    from verifiers.v1.utils.trace_store import write_episode
except ImportError as reason:
    raise MissingWriter(f"verifiers of this release: {reason}") from reason


def evaluation(folder: Path) -> None:
    """Write an evaluation as `verifiers eval` does: answers, a timeout, and a task without a trace."""
    for number, reward in enumerate((1.0, 0.0)):
        write_episode(folder, _episode(number, [_trace(_plain(), reward)], step=None))
    late = _trace(_plain(), None, is_timeout=True, ok=False)
    write_episode(folder, _episode(2, [late], step=None, env={"id": "aime"}))
    failed = {"ok": False, "errors": [{"type": "SandboxError", "message": "died"}]}
    write_episode(folder, _episode(3, [], step=None, **failed))


def training(folder: Path) -> None:
    """Write two steps of training and evaluation: a fork, a compaction, a timeout and a failure."""
    episodes = [
        _episode(0, [_trace(_fork(), 1.0)]),
        _episode(1, [_trace(_compaction(), 0.5)]),
        _episode(2, [_trace(_plain(), 0.0)], env={"id": "aime"}, group={"id": "h"}),
        _episode(3, [_trace(_plain(), None, is_timeout=True, ok=False)]),
        _episode(4, [], ok=False, errors=[{"type": "SandboxError", "message": "died"}]),
    ]
    for step in (1, 2):
        _lines(folder / f"rollouts/step_{step}/train/all", episodes)
        _lines(folder / f"rollouts/step_{step}/eval/all", [_episode(9, [_trace(_plain(), 1.0)], kind="eval")])
    _lines(folder / "rollouts/step_1/train/effective", episodes[:4])


def _lines(folder: Path, episodes: list[Any]) -> None:
    """Append records, as `FileMonitor.log_episodes` does."""
    folder.mkdir(parents=True)
    with (folder / "traces.jsonl").open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(episode.to_record()) + "\n" for episode in episodes)


def _episode(
    number: int, traces: list[Any], *, step: int | None = 0, kind: str = "train", **fields: Any
) -> Any:
    work = {"type": kind, "step": step, "policy": {"start": 0, "end": 0}}
    run = {"type": "train", "id": "r", "work": work} if step is not None else {"type": "eval", "id": "r"}
    given = {
        "id": f"{kind}-{number}", "env": {"id": "gsm8k"}, "task": _task(number), "group": {"id": "g"},
        "run": run, "ok": True, "traces": traces,
    }  # fmt: skip
    return WireEpisode.model_validate(given | fields)


def _task(number: int) -> dict[str, Any]:
    return {"type": "Sum", "data": {"question": "2 + 2?", "answer": "4"}, "key": f"t{number}"}


def _trace(nodes: list[dict[str, Any]], reward: float | None, **fields: Any) -> dict[str, Any]:
    names = Trace.model_fields
    given = {
        "task": _task(0), "agent": {"config": {}, "name": "solver", "trainable": True}, "nodes": nodes,
        "rewards": {"correct": None if reward is None else {"score": reward, "weight": 1.0}},
        "metrics": {"num_calls": 1.0}, "is_completed": True, "ok": True, "stop_condition": "agent_completed",
        "timing": {"start": 1.0},
    }  # fmt: skip
    return {name: value for name, value in (given | fields).items() if name in names}


def _node(parent: int | None, role: str, text: str, sampled: int = 0, **fields: Any) -> dict[str, Any]:
    """Return a message with two tokens of a template, and those that the policy sampled."""
    tokens: dict[str, Any] = {"token_ids": list(range(2 + sampled)), "mask": [False] * 2 + [True] * sampled}
    if sampled:
        tokens |= {name: [value] * sampled for name, value in _TOKENS.items()}
    message = {"role": role, "content": text}
    return {"parent": parent, "message": message, "sampled": sampled > 0, "timestamp": 1.0} | tokens | fields


#: What a sampled token carries.
_TOKENS = {"logprobs": -0.25, "trainer_logprobs": -0.5, "entropies": 0.75, "advantages": 1.0}


def _plain() -> list[dict[str, Any]]:
    return [_node(None, "user", "2 + 2?"), _node(0, "assistant", "4", 3)]


def _fork() -> list[dict[str, Any]]:
    """Return a plan of four tokens with two answers."""
    plan = [_node(None, "user", "2 + 2?"), _node(0, "assistant", "I plan.", 4), _node(1, "user", "Go on.")]
    return [*plan, _node(2, "assistant", "4", 1), _node(2, "assistant", "four", 1)]


def _compaction() -> list[dict[str, Any]]:
    """Return a summary that was not used, and one that the agent continued from."""
    attempt = {"semantic_parents": [{"node": 1, "type": "compaction_attempt"}]}
    return [
        _node(None, "user", "A long task."), _node(0, "assistant", "I begin.", 2),
        _node(1, "user", "Summarize."), _node(2, "assistant", "SUMMARY UNUSED", 2, **attempt),
        _node(2, "assistant", "SUMMARY", 2, **attempt),
        _node(None, "user", "SUMMARY. Go on."),
        _node(5, "assistant", "done", 2, semantic_parents=[{"node": 4, "type": "compaction"}]),
    ]  # fmt: skip


def judged(folder: Path) -> None:
    """Write two steps of training that two of verifiers' own judges scored, which ask a local server.

    The strict judge says "maybe" once: verifiers records the call, and the reward of the judge is missing.
    """
    with _judging_server() as address:
        for step in (1, 2):
            episodes = [_episode(number, [_judged(address, number)]) for number in range(4)]
            _lines(folder / f"rollouts/step_{step}/train/all", episodes)


#: Answers of the policy, and the verdicts of the two judges: they agree twice.
_ANSWERS = ("4", "5", "four", "22")
_VERDICTS = {"lenient": ("yes", "no", "yes", "yes"), "strict": ("yes", "no", "no", "maybe")}


def _judged(address: str, number: int) -> dict[str, Any]:
    """Return a trace on which the judges recorded their calls."""
    nodes = [_node(None, "user", "2 + 2?"), _node(0, "assistant", _ANSWERS[number], 3)]
    trace = Trace.model_validate(_trace(nodes, None))
    rewards: dict[str, Any] = {}
    for name in _VERDICTS:
        config = ReferenceJudgeConfig(
            name=name, model=f"judge-{name}", base_url=address, api_key_var="JUDGE_KEY"
        )
        fields = {"question": "2 + 2?", "answer": "4", "response": f"{name} {number}: {_ANSWERS[number]}"}
        call = ReferenceJudge(config).evaluate(trace=trace, positive="yes", negative="no", **fields)
        try:
            rewards[name] = {"score": asyncio.run(call).parsed, "weight": 0.5}
        except ValueError:
            rewards[name] = None
    return trace.to_record() | {"rewards": rewards}


@contextmanager
def _judging_server() -> Iterator[str]:
    """Serve OpenAI's chat completions; the verdict follows from judge and number in the request."""
    os.environ["JUDGE_KEY"] = "none"

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            text = asked["messages"][0]["content"]
            name = next(name for name in _VERDICTS if f"{name} " in text)
            verdict = _VERDICTS[name][int(text.partition(f"{name} ")[2][0])]
            message = {"role": "assistant", "content": verdict}
            body = json.dumps(
                {
                    "id": "c", "object": "chat.completion", "created": 0, "model": asked["model"],
                    "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                    "usage": {"prompt_tokens": 90, "completion_tokens": 1, "total_tokens": 91},
                }
            ).encode()  # fmt: skip
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
