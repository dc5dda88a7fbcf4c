"""A process that writes a run in the way of a trainer: ``python -m tests.live_writers FORMAT FOLDER``.

Each line on its stdin, ``STEP ROWS ATTEMPT``, makes it write a step, and print the line and the time when it
was complete. It writes few of the trainer's keys, but where and how the trainer does: a file at once,
appended lines, a document for each episode, or a file that is moved to its place.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Row = dict[str, Any]

#: Rewards of four following rows; those of a later attempt are higher by 1.
REWARDS = (0.0, 0.25, 0.5, 0.75)
MEAN = 0.375


def rows(step: int, count: int, attempt: int) -> list[Row]:
    """Return a step's rows: no two of a run are equal."""
    return [
        {
            "prompt": f"prompt {place // 4} 月?",
            "response": f"answer {place} of attempt {attempt} at step {step} 🙂 " + "word " * 20,
            "reward": REWARDS[place % 4] + attempt,
            "group": f"{step}-{place // 4}",
            "place": place,
        }
        for place in range(count)
    ]


def _lines(path: Path, lines: Iterable[Any], mode: str = "w") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open(mode, encoding="utf-8") as file:
        for line in lines:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def _verl(folder: Path, step: int, made: list[Row]) -> None:
    """A file per step, as `_write_generations`."""
    _lines(folder / f"{step}.jsonl", _verl_lines(step, made))


def _verl_lines(step: int, made: list[Row]) -> list[Row]:
    return [
        {"input": row["prompt"], "output": row["response"], "gts": "4", "score": row["reward"], "step": step,
         "uid": f"{row['group']}_{row['place'] % 4}_0"}
        for row in made
    ]  # fmt: skip


def _renamed(folder: Path, step: int, made: list[Row]) -> None:
    """verl's lines in a file that is moved to its place, as writers with a temporary file do."""
    temporary = folder / f".{step}.jsonl.tmp"
    _lines(temporary, _verl_lines(step, made))
    temporary.replace(folder / f"{step}.jsonl")


def _trl(folder: Path, step: int, made: list[Row]) -> None:
    """A parquet file per step, as `GRPOTrainer.log`."""
    import pandas as pd

    table = {
        "step": [step] * len(made),
        "prompt": [row["prompt"] for row in made],
        "completion": [row["response"] for row in made],
        "right": [row["reward"] for row in made],
        "advantage": [0.5] * len(made),
    }
    pd.DataFrame(table).to_parquet(folder / f"completions_{step:05d}.parquet")


def _ms_swift(folder: Path, step: int, made: list[Row]) -> None:
    """A table in a line that is appended, as `JsonlWriter`."""
    table = {
        "step": [str(step)] * len(made),
        "prompt": [row["prompt"] for row in made],
        "completion": [row["response"] for row in made],
        "Right": [row["reward"] for row in made],
        "advantages": [0.5] * len(made),
    }
    _lines(folder / "completions.jsonl", [table], "a")


def _skyrl(folder: Path, step: int, made: list[Row]) -> None:
    """Two data sets' files, as `dump_per_dataset_eval_results`."""
    half = len(made) // 2
    for name, part in (("gsm8k", made[:half]), ("aime", made[half:])):
        lines = [
            {"input_prompt": row["prompt"], "output_response": row["response"], "score": row["reward"],
             "stop_reason": "stop", "env_class": "calc", "env_extras": {}, "data_source": name}
            for row in part
        ]  # fmt: skip
        _lines(folder / "dumped_evals" / f"global_step_{step}_evals" / f"{name}.jsonl", lines)


def _areal(folder: Path, step: int, made: list[Row]) -> None:
    """A file per task, appended, in the folder of the version, as `_dump_trajectory`."""
    for first in range(0, len(made), 4):
        task = step * len(made) + first
        lines = [
            {"task_id": task, "sample_idx": at, "seqlen": 9, "prompt_len": 3, "head_version": step,
             "tail_version": step, "reward": row["reward"], "prompt": row["prompt"],
             "completion": row["response"]}
            for at, row in enumerate(made[first : first + 4])
        ]  # fmt: skip
        _lines(folder / str(step) / f"{task}.jsonl", lines, "a")


def _rllm(folder: Path, step: int, made: list[Row]) -> None:
    """An indented document per episode, as `EpisodeLogger`."""
    target = folder / "episodes" / f"train_step_{step}_epoch_0"
    target.mkdir(parents=True, exist_ok=True)
    for at, row in enumerate(made):
        talk = [{"role": "user", "content": row["prompt"]}, {"role": "assistant", "content": row["response"]}]
        trajectory = {"name": "a", "reward": row["reward"], "steps": [{"chat_completions": talk}]}
        document = {
            "training_step": step, "epoch": 0, "task": {"question": row["prompt"]}, "task_hash": row["group"],
            "termination_reason": "env_done", "is_correct": True, "trajectories": [trajectory],
        }  # fmt: skip
        with (target / f"episode_hash{row['group']}_id{at}_0.json").open("w", encoding="utf-8") as file:
            json.dump(document, file, indent=2)


def _prime_rl(folder: Path, step: int, made: list[Row]) -> None:
    """Episodes one by one, then those of the batch, as `FileMonitor.log_episodes`."""
    episodes = [_episode(step, row) for row in made]
    target = folder / "rollouts" / f"step_{step}" / "train"
    for episode in episodes:
        _lines(target / "all" / "traces.jsonl", [episode], "a")
    _lines(target / "effective" / "traces.jsonl", episodes, "a")


def _episode(step: int, row: Row) -> Row:
    nodes = [
        {"parent": parent, "message": {"role": role, "content": text}, "sampled": role == "assistant",
         "token_ids": [1, 2, 3], "mask": [False, role == "assistant", role == "assistant"],
         "logprobs": [-0.5, -0.25] if role == "assistant" else []}
        for parent, role, text in ((None, "user", row["prompt"]), (0, "assistant", row["response"]))
    ]  # fmt: skip
    name = f"{step}-{row['place']}"
    trace = {
        "id": name, "task": {"type": "T", "data": {}}, "agent": {"name": "a", "trainable": True},
        "rewards": {"right": {"score": row["reward"], "weight": 1.0}}, "nodes": nodes,
        "is_completed": True, "ok": True, "errors": [],
    }  # fmt: skip
    work = {"type": "train", "step": step, "policy": {"start": step, "end": step}}
    return {
        "id": name, "env": {"id": "gsm8k"}, "task": {"type": "T", "data": {}}, "group": {"id": row["group"]},
        "run": {"type": "train", "id": "r", "work": work}, "ok": True, "errors": [], "traces": [trace],
    }  # fmt: skip


def _nemo_rl(folder: Path, step: int, made: list[Row]) -> None:
    """A file per step, as `log_batched_dict_as_jsonl`."""
    lines = [
        {"content": [row["prompt"], row["response"]], "rewards": row["reward"], "idx": row["place"]}
        for row in made
    ]
    _lines(folder / f"train_data_step{step}.jsonl", lines)


def _tinker(folder: Path, step: int, made: list[Row]) -> None:
    """A file per iteration, as `write_rollout_summaries_jsonl`."""
    lines = [
        {"schema_version": 1, "split": "train", "iteration": step, "group_idx": row["place"] // 4,
         "traj_idx": row["place"] % 4, "tags": [], "sampling_client_step": step,
         "total_reward": row["reward"], "final_reward": 0.0, "trajectory_metrics": {}, "final_ob_len": 9,
         "steps": [{"step_idx": 0, "ob_len": 3, "ac_len": 4, "reward": row["reward"], "metrics": {}}]}
        for row in made
    ]  # fmt: skip
    _lines(folder / f"iteration_{step:06d}" / "train_rollout_summaries.jsonl", lines)


def _open_instruct(folder: Path, step: int, made: list[Row]) -> None:
    """Lines in shards of three steps, as `save_rollouts_to_disk`."""
    lines = [
        {"step": step, "sample_idx": row["place"], "prompt_idx": row["place"] // 4, "prompt_tokens": [1, 2],
         "response_tokens": [step, row["place"], 7], "reward": row["reward"], "advantage": 0.5,
         "finish_reason": "stop", "dataset": ["gsm8k"], "ground_truth": ["4"], "request_info": {},
         "logprobs": [-0.5, -0.25, -0.125]}
        for row in made
    ]  # fmt: skip
    _lines(folder / f"demo__1_rollouts_{(step - 1) // 3:06d}.jsonl", lines, "a")


#: Name of a format → function that writes one step.
FORMATS: dict[str, Callable[[Path, int, list[Row]], None]] = {
    "verl": _verl,
    "renamed": _renamed,
    "trl": _trl,
    "ms_swift": _ms_swift,
    "skyrl": _skyrl,
    "areal": _areal,
    "rllm": _rllm,
    "prime_rl": _prime_rl,
    "nemo_rl": _nemo_rl,
    "tinker": _tinker,
    "open_instruct": _open_instruct,
}
#: Formats in which a step that is written again replaces the lost one.
REWRITTEN = ("verl", "renamed", "trl", "skyrl", "rllm", "nemo_rl", "tinker")


def main() -> None:
    """Write a step for each line on stdin."""
    write, folder = FORMATS[sys.argv[1]], Path(sys.argv[2])
    os.makedirs(folder, exist_ok=True)
    for line in sys.stdin:
        step, count, attempt = map(int, line.split())
        write(folder, step, rows(step, count, attempt))
        print(step, count, attempt, time.time(), flush=True)


if __name__ == "__main__":
    main()
