"""Runs whose rollouts ended in every way, with judges; written by rlpanel's own recorder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rlpanel.recording.writer.writer import RolloutWriter

#: Steps of the run, and samples of each.
STEPS, SAMPLES = 12, 16
#: A verdict that a page must not run.
HOSTILE = "<img src=x onerror=\"document.title='ran'\">"


def call(name: str, score: float | None, **fields: Any) -> dict[str, Any]:
    """Return a judge's call with a request."""
    request = [{"role": "system", "content": "Grade."}, {"role": "user", "content": f"{name}: is 391 right?"}]
    usage = {"prompt_tokens": 120, "completion_tokens": 8}
    verdict = None if score is None else "yes" if score else "no"
    given = {"name": name, "model": f"judge-{name}", "request": request, "verdict": verdict}
    given |= {"answer": f"I think so: {verdict}.", "usage": usage, "seconds": 0.5}
    return given | fields


def tool_talk(result: str, answer: str = "It is 391.", arguments: str = '{"a": 17}') -> list[dict[str, Any]]:
    """Return a conversation with one call of a tool."""
    return [
        {"role": "user", "content": "What is 17 * 23?"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "c", "name": "add", "arguments": arguments}],
        },
        {"role": "tool", "tool_call_id": "c", "content": result},
        {"role": "assistant", "content": answer},
    ]


def plain_talk(answer: str) -> list[dict[str, Any]]:
    """Return a question and an answer."""
    return [{"role": "user", "content": "What is 17 * 23?"}, {"role": "assistant", "content": answer}]


def endings() -> list[dict[str, Any]]:
    """Return a sample of each class, in the order of `failure_words.CLASSES`, and one that passed."""
    return [
        {"messages": plain_talk(""), "status": "timeout", "status_reason": "no answer within 600 s"},
        {"messages": plain_talk(""), "status": "environment_error", "status_reason": "SandboxError: died"},
        {"messages": plain_talk("391"), "judge_calls": [call("strict", None, error="HTTP 500")]},
        {"messages": tool_talk("Error: maximum context length is 32768 tokens"), "reward": 0.0},
        {"messages": plain_talk("It is"), "reward": 0.0, "finish_reason": "length"},
        {"messages": [*tool_talk("1")[:1], *_broken_call()], "reward": 0.0},
        {"messages": tool_talk("Error: division by zero")[:3], "reward": 0.0},
        {"messages": plain_talk("I'm sorry, but I can't help with that."), "reward": 0.0},
        {"messages": plain_talk("The answer is 40."), "reward": 0.0, "ground_truth": "391"},
        {"messages": plain_talk("Who knows?"), "reward": 0.0},
        {"messages": plain_talk("The answer is 391."), "reward": 1.0, "ground_truth": "391"},
    ]


def _broken_call() -> list[dict[str, Any]]:
    calls = [{"id": "c", "name": "add", "arguments": '{"a": 17, "b": '}]
    return [{"role": "assistant", "content": "", "tool_calls": calls}]


def write_ended_run(folder: Path, steps: int = STEPS) -> Path:
    """Write a run with all endings at each step, and samples that three judges scored."""
    with RolloutWriter(folder, rank=0) as writer:
        for step in range(1, steps + 1):
            for number, line in enumerate(endings()):
                writer.write(step=step, group=f"q{number}", env=("math", "code")[number % 2], **line)
            for number in range(SAMPLES):
                right = (number + step) % 3 > 0
                scores = {"lenient": 1.0, "strict": float(right), "third": float(right and number % 4 > 0)}
                calls = [call(name, score) for name, score in scores.items()]
                if number == 3:
                    calls[1] = call("strict", None, answer="I cannot tell.")
                line = {"messages": plain_talk("391"), "judge_calls": calls, "valid_reward": float(right)}
                line |= {"verifier": {"test log": f"1 passed\n{HOSTILE}"}, "env": "math"}
                writer.write(step=step, group=f"j{number % 4}", reward=float(right), **line)
    return folder
