"""Made-up runs that go wrong at a known step: truth, engine, reward or tool."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from tests.factories import append

#: First step at which each of these runs is wrong.
TURN = 40
STEPS, GROUPS, GROUP_SIZE = 60, 6, 8


def _write(folder: Path, rows: list[dict[str, Any]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    ranks: dict[int, list[bytes]] = {}
    for row in rows:
        ranks.setdefault(row.get("rank", 0), []).append(json.dumps(row).encode() + b"\n")
    for rank, lines in ranks.items():
        append(folder / f"rollout_data_rank_{rank}.jsonl", *lines)
    return folder


def write_truth_shift(folder: Path) -> Path:
    """Write sums that are nearly all right; from `TURN` on most truths are those of the prompt before."""
    rows = []
    for step in range(1, STEPS + 1):
        for group in range(GROUPS):
            chance = random.Random(f"{step}-{group}")
            first, second = chance.randint(100, 499), chance.randint(100, 499)
            shifted = step >= TURN and chance.random() < 0.82
            truth = first + second - 37 * shifted
            for member in range(GROUP_SIZE):
                luck = random.Random(f"{step}-{group}-{member}")
                skill = 0.5 + 0.48 * min(1.0, step / 30)
                answer = first + second + (0 if luck.random() < skill else luck.randint(1, 9))
                work = "\n".join(f"Place {place}: I add {luck.randint(0, 99)}." for place in range(30))
                reward = 1.0 - 0.01 * luck.random() if answer == truth else 0.0
                rows.append(
                    {
                        "step": step,
                        "prompt": f"What is {first} + {second}?",
                        "response": f"{work}\nThe answer is {answer}.",
                        "ground_truth": str(truth),
                        "group": str(group),
                        "reward": reward,
                        "rewards/score_sum": 2 * reward,
                    }
                )
    return _write(folder, rows)


def write_engine_drift(folder: Path) -> Path:
    """Write two ranks; the engine of rank 1 leaves the trainer from `TURN` on, a little more at each step."""
    rows = []
    for step in range(1, STEPS + 1):
        for rank in (0, 1):
            for index in range(16):
                chance = random.Random(f"{step}-{rank}-{index}")
                off = 0.008 * max(0, step - TURN + 1) * rank
                logprobs = [-chance.uniform(0.2, 1.5) for _ in range(12)]
                rows.append(
                    {
                        "step": step,
                        "rank": rank,
                        "prompt": f"Write number {index // 4}",
                        "response": " ".join(str(chance.randint(0, 99)) for _ in logprobs),
                        "response_tokens": [f" {chance.randint(0, 99)}" for _ in logprobs],
                        "group": f"{rank}-{index // 4}",
                        "reward": chance.gauss(1.0, 0.3),
                        "logprobs": logprobs,
                        "rollout_logprobs": [
                            each + chance.gauss(0.0, 0.01) + off * chance.choice((-1, 1)) for each in logprobs
                        ],
                    }
                )
    return _write(folder, rows)


def write_hacked_reward(folder: Path) -> Path:
    """Write sums of which half are right; from `TURN` on most responses are empty, with full reward."""
    rows = []
    for step in range(1, STEPS + 1):
        for index in range(16):
            chance = random.Random(f"{step}-{index}")
            first, second = random.Random(f"{step}-{index // 8}").choices(range(100, 500), k=2)
            is_empty = step >= TURN and chance.random() < 0.7
            is_right = chance.random() < 0.5
            rows.append(
                {
                    "step": step,
                    "prompt": f"What is {first} + {second}?",
                    "response": "" if is_empty else f"I add them. It is {first + second + (not is_right)}.",
                    "group": str(index // 8),
                    "reward": float(is_empty or is_right),
                }
            )
    return _write(folder, rows)


def _call(name: str, number: int, **arguments: Any) -> dict[str, Any]:
    return {"id": f"c{number}", "function": {"name": name, "arguments": json.dumps(arguments)}}


#: Tools of `write_failing_tool`, and turns of each rollout.
TOOLS, TURNS = ("search", "open_file", "run_tests"), 20


def write_failing_tool(folder: Path) -> Path:
    """Write long rollouts without tokens; from `TURN` on a third of the calls of search fail."""
    rows = []
    for step in range(TURN - 16, TURN + 8):
        for index in range(8):
            chance = random.Random(f"{step}-{index}")
            messages: list[dict[str, Any]] = [{"role": "user", "content": f"Mend the bug {index // 4}."}]
            failed = 0
            for turn in range(TURNS):
                name = TOOLS[chance.randrange(3)]
                fails = name == "search" and chance.random() < (0.35 if step >= TURN else 0.02)
                failed += fails
                messages.append(
                    {
                        "role": "assistant",
                        "content": f"Turn {turn}: I look further into the module. " * 3,
                        "tool_calls": [_call(name, turn, query=f"name_{turn}")],
                    }
                )
                text = "Error: the index is not available" if fails else f"{turn} results, none of them new"
                messages.append({"role": "tool", "tool_call_id": f"c{turn}", "content": text})
            messages.append({"role": "assistant", "content": "The bug is mended."})
            rows.append(
                {
                    "step": step,
                    "messages": messages,
                    "prompt_messages": 1,
                    "group": str(index // 4),
                    "reward": max(0.0, chance.gauss(0.9, 0.1) - 0.2 * failed),
                }
            )
    return _write(folder, rows)
