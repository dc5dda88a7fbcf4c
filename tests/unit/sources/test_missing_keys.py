"""A log that lacks a key of its format is named, or gives the same values without those of the key.

Each key of a valid file is removed in turn. A file that is no longer read must be named with its format and
the key. Otherwise each value that is shown must be the one of the whole file, or be missing.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import rlpanel
from rlpanel.schema import Sample
from rlpanel.sources.inference.inference import NO_STEP

DATA = Path(__file__).parents[2] / "data"
RLLM_EPISODE = "episodes/train_step_3_epoch_0/episode_hash76b25b3d_id17_0.json"
INSPECT, TINKER = "upstream/inspect-0.3.285/json", "upstream/tinker-cookbook-9dfcc3a2"
#: Format as it is named, and a file of it below a folder of `DATA`.
FILES = (
    ("AReaL", "upstream/areal-1.0.4", "2/17.jsonl"),
    ("ATIF", "upstream/atif-gym-0.7.0", "0-0.json"),
    ("Harbor", "upstream/harbor-0.26.0", "hello__eeeeeee/result.json"),
    ("ATIF", "upstream/harbor-0.26.0", "hello__aaaaaaa/agent/trajectory.json"),
    (
        "Inspect",
        "upstream/inspect-0.3.285/json",
        "2026-11-27T02-52-25-00-00_sums_8c7jD2oMrTUDLMn5kA6gaH.json",
    ),
    ("miles", "upstream/miles-31f1ca961", "trajectory/0.jsonl"),
    ("miles", "upstream/miles-31f1ca961", "dashboard_columns/rollout_1.parquet"),
    ("NeMo Gym", "upstream/gym-0.7.0", "rollouts.jsonl"),
    ("NeMo-RL", "upstream/dapo-nemo-rl-7ea279abf", "train_data_step1.jsonl"),
    ("NeMo-RL", "upstream/nemo-rl-7ea279abf", "train_data_step1.jsonl"),
    ("open-instruct", "upstream/open-instruct-e6c3044aa", "demo__1_rollouts_000000.jsonl"),
    ("prime-rl", "upstream/prime-rl-559b44772", "rollouts/step_2/train/all/traces.jsonl"),
    ("prime-rl", "upstream/verifiers-0.4.0/evaluation", "traces.jsonl"),
    ("rLLM", "upstream/rllm-9beb6e0f", RLLM_EPISODE),
    ("ROLL", "upstream/roll-8eb27cc2/rlvr", "rollout_dump_data.step_3.jsonl"),
    ("ROLL, agentic", "upstream/roll-8eb27cc2/agentic_native", "rollout_dump_data.step_3.jsonl"),
    ("SkyRL", "upstream/skyrl-a9564572e", "dumped_evals/global_step_5_evals/openai_gsm8k.jsonl"),
    ("tinker-cookbook", TINKER, "iteration_000000/train_rollout_summaries.jsonl"),
    ("tinker-cookbook", TINKER, "iteration_000000/eval_gsm8k_rollout_summaries.jsonl"),
    ("TRL", "trl", "completions_00001.parquet"),
    ("verl", "upstream/verl-0.9.1/dump", "3.jsonl"),
)
#: Lines as these trainers write them.
LINES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("rlpanel", {"step": 1, "prompt": "p", "response": "r", "reward": 0.5, "group": "g", "logprobs": [-0.5]}),
    (
        "ms-swift",
        {"gen_step": ["1", "1"], "prompt": ["p", "q"], "completion": ["a", "b"], "Accuracy": [1.0, 0.0]}
        | {"advantages": [0.5, -0.5]},
    ),
    ("ms-swift", {"gen_step": 1, "prompt": "p", "completion": "a", "advantages": 0.5, "Accuracy": 1.0}),
    (
        "prime-rl's token exports",
        {"step": 1, "token_ids": [1, 2], "loss_mask": [0, 1], "trainer_logprobs": [0.0, -0.5]},
    ),
)
#: Keys inside a record without which another value would be shown: folder, file, and keys from the line's on.
INSIDE = (
    *(
        ("upstream/prime-rl-559b44772", "rollouts/step_2/train/all/traces.jsonl", f"traces[].{key}")
        for key in ("ok", "nodes", "nodes[].sampled", "nodes[].message")
    ),
    ("upstream/verifiers-0.4.0/evaluation", "traces.jsonl", "traces[].rewards.correct.score"),
    ("upstream/verifiers-0.4.0/evaluation", "traces.jsonl", "traces[].rewards.correct.weight"),
    ("upstream/rllm-9beb6e0f", RLLM_EPISODE, "trajectories[].name"),
    ("upstream/rllm-9beb6e0f", RLLM_EPISODE, "trajectories[].steps"),
    ("upstream/gym-0.7.0", "rollouts.jsonl", "response.incomplete_details"),
    ("upstream/gym-0.7.0", "rollouts.jsonl", "response.incomplete_details.reason"),
)
#: Samples of a file that are compared.
MOST = 4
#: Keys that trainers write only sometimes, so their absence means something else.
MEANT = {
    ("NeMo-RL", "filtered_rewards"): "without dynamic sampling, rewards holds those of the samples",
    ("NeMo-RL", "sample_loss_mask"): "without it, all samples are in the loss",
    ("NeMo Gym", "mask_sample"): "only environments that mask samples write it",
    ("NeMo Gym", "failure_kind"): "only failures have it",
    ("Harbor", "exception_info"): "a trial without an exception",
    ("rLLM", "task_hash"): "the task's id names the same group",
    ("prime-rl", "errors"): "a trace without errors",
    ("Harbor", "source"): "a task that belongs to no data set",
    ("ROLL", "messages"): "runs on images write none, and the prompt is a text",
    ("TRL", "rhyme_reward"): "a run with fewer reward functions",
    ("TRL", "format_reward"): "a run with fewer reward functions",
    ("TRL", "zh_only_bonus"): "a run with fewer reward functions",
    ("verl", "uid"): "versions before V1 write none, and do not pad",
}


def samples(folder: Path, file: str) -> tuple[dict[str, list[dict[str, Any]]], list[str]]:
    """The samples by file, the first ones of one file with what is shown, and why files are not read."""
    with rlpanel.open_run(folder, follow=False) as run:
        reasons: list[str] = [*run.unread["reason"]] if len(run.unread) else []
        reasons += [*run.errors["reason"]] if len(run.errors) else []
        reasons += [remark.sentence for remark in run.remarks]
        places: dict[str, list[tuple[int, int, str, str]]] = {}
        for split in run.splits:
            shown = run.split(split).snapshot
            for uid in map(shown.uid, shown.alive_rows.tolist()):
                name, _, place = uid.rpartition(":")
                offset, _, part = place.partition("/")
                places.setdefault(name, []).append((int(offset), int(part or 0), split, uid))
        return {
            name: [
                values(run.split(split).sample(uid), split) if name == file and number < MOST else {}
                for number, (_, _, split, uid) in enumerate(sorted(found))
            ]
            for name, found in places.items()
        }, reasons


def values(sample: Sample, split: str) -> dict[str, Any]:
    names = ("step", "reward", "advantage", "prompt", "response", "ground_truth", "group", "truncated")
    arrays = {name: array.tolist() for name, array in sample.arrays().items()}
    return {name: getattr(sample, name) for name in names} | {"split": split} | arrays


def changed(whole: dict[str, Any], cut: dict[str, Any]) -> dict[str, Any]:
    """Values that are shown and are not those of the whole file."""
    return {
        name: (whole.get(name), value)
        for name, value in cut.items()
        if not (value is None or value != value or repr(value) == repr(whole.get(name)))
    }


def documents(path: Path) -> tuple[list[str], Callable[[str, Path], None]]:
    """The keys of a file, and a function that writes it without one of them."""
    if path.suffix == ".parquet":
        table = pq.read_table(path)
        return table.column_names, lambda key, target: pq.write_table(table.drop_columns([key]), target)
    lines = path.suffix == ".jsonl"
    parsed = [json.loads(part) for part in (path.read_text().splitlines() if lines else [path.read_text()])]

    def write(key: str, target: Path) -> None:
        cut = [{name: value for name, value in each.items() if name != key} for each in parsed]
        target.write_text("".join(json.dumps(each) + "\n" for each in cut))

    return list(dict.fromkeys(key for each in parsed for key in each)), write


def faults(name: str, folder: Path, file: str) -> Iterator[str]:
    """Yield what is wrong after each key was removed in turn."""
    beside = {"step": 0, "prompt": "p", "response": "r"}  # so that the folder remains a run
    (folder / "beside.jsonl").write_text(json.dumps(beside) + "\n")
    whole = samples(folder, file)[0]
    assert whole[file]
    keys, write = documents(folder / file)
    for key in keys:
        write(key, folder / file)
        found, reasons = samples(folder, file)
        named = [reason for reason in reasons if f"'{key}" in reason or "were guessed" in reason]
        named += [reason for reason in reasons if key == "step" and NO_STEP[1:] in reason]
        if file not in found:
            unread = [reason for reason in named if reason.startswith("is not read")]
            if not named or not all(f"looks like a log of {name}," in reason for reason in unread):
                yield f"{key}: not read, and the reasons are {reasons}"
        elif (name, key) in MEANT:
            continue
        elif len(found[file]) != len(whole[file]):
            yield f"{key}: {len(found[file])} samples instead of {len(whole[file])}, reasons {reasons}"
        elif not named:
            pairs = zip(whole[file], found[file], strict=True)
            if different := [facts for before, after in pairs if (facts := changed(before, after))]:
                yield f"{key}: {different[0]}"


@pytest.mark.parametrize(("name", "below", "file"), FILES, ids=["/".join(each[1:]) for each in FILES])
def test_a_file_that_lacks_a_key_is_named_or_shows_no_other_value(
    tmp_path: Path, name: str, below: str, file: str
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(DATA / below, folder)
    assert list(faults(name, folder, file)) == []


@pytest.mark.parametrize(("name", "line"), LINES, ids=["native", "table", "Ray", "tokens"])
def test_a_line_that_lacks_a_key_is_named_or_shows_no_other_value(
    tmp_path: Path, name: str, line: dict[str, Any]
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    file = "rank_0.jsonl"
    (folder / file).write_text(json.dumps(line) + "\n")
    assert list(faults(name, folder, file)) == []


def without(part: Any, keys: list[str]) -> Any:
    """Return a part of a document without a key, in each element of lists on the way."""
    if not isinstance(part, dict) or not keys:
        return part
    name, inner = keys[0].removesuffix("[]"), keys[1:]
    if not inner:
        return {key: value for key, value in part.items() if key != name}
    return {
        key: value
        if key != name
        else [without(each, inner) for each in value]
        if isinstance(value, list)
        else without(value, inner)
        for key, value in part.items()
    }


@pytest.mark.parametrize(("below", "file", "key"), INSIDE, ids=[each[2] for each in INSIDE])
def test_a_record_that_lacks_a_key_inside_is_named(tmp_path: Path, below: str, file: str, key: str) -> None:
    folder = tmp_path / "run"
    shutil.copytree(DATA / below, folder)
    whole, reasons = samples(folder, file)
    assert whole[file]
    assert not [reason for reason in reasons if key in reason]
    path = folder / file
    texts = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
    cut = [json.dumps(without(json.loads(text), key.split("."))) for text in texts]
    path.write_text("".join(f"{line}\n" for line in cut))
    found, reasons = samples(folder, file)
    assert f"no '{key}'" in reasons
    assert len(found.get(file, [])) < len(whole[file])
