"""Trainers with one folder per step or version: AReaL, prime-rl, and joined prime-rl token exports."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import pytest

import rlpanel
from rlpanel.schema import Sample
from rlpanel.store.index.run_index import RunIndex
from tests.factories import append, write_run

#: Written by prime-rl's FileMonitor from made-up episodes with tools and an image.
TOOLS = Path(__file__).parents[3] / "data" / "upstream" / "prime-rl-559b44772"


def lines(*documents: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(document).encode() + b"\n" for document in documents)


def put(path: Path, *documents: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    append(path, lines(*documents))


def look(index: RunIndex) -> list[tuple[int, float]]:
    """Step and reward of the living rows after another look at the folder."""
    index.rescan()
    while index.read():
        pass
    frame = index.view.frame(index.snapshot.alive_rows)
    if "reward" not in frame:
        return [(step, -1.0) for step in frame.get("step", [])]
    return sorted(zip(frame["step"].tolist(), frame["reward"].tolist(), strict=True))


def samples(folder: Path) -> list[Sample]:
    with rlpanel.open_run(folder, follow=False) as run:
        return [run.sample(uid) for uid in run.samples()["uid"]]


# -- AReaL ---------------------------------------------------------------------------------------------


def areal(task: int, version: int, reward: float) -> dict[str, Any]:
    return {
        "task_id": task, "sample_idx": 0, "seqlen": 9, "prompt_len": 4, "head_version": version - 1,
        "tail_version": version, "version_rle": [[version - 1, 2], [version, 3]], "reward": reward,
        "prompt": "p", "completion": "c", "original_reward": 2 * reward,
    }  # fmt: skip


def test_areals_folders_of_versions_are_one_run_grouped_by_task(tmp_path: Path) -> None:
    run = tmp_path / "exp" / "rollout"
    put(run / "3" / "17.jsonl", areal(17, 3, 0.5), areal(17, 2, 1.0))
    put(run / "4" / "18.jsonl", areal(18, 4, 0.0))
    (found,) = rlpanel.discover(tmp_path)
    index = RunIndex(found.path, found.name, root=tmp_path)
    before = look(index)
    append(run / "4" / "18.jsonl", lines(areal(18, 4, 0.25)))
    assert (found.name, found.files) == ("exp/rollout", 2)
    assert before == [(3, 0.5), (3, 1.0), (4, 0.0)]
    assert look(index)[-1] == (4, 0.25)
    frame = index.view.frame(index.snapshot.alive_rows)
    assert frame[["step", "group", "original_reward"]].values.tolist()[0] == [3, "17", 1.0]
    assert samples(run)[0].response == "c"


def test_a_run_that_is_named_by_a_number_stays_a_run_of_its_own(tmp_path: Path) -> None:
    write_run(tmp_path / "group" / "123")
    put(tmp_path / "group" / "4" / "18.jsonl", areal(18, 4, 0.0))
    assert sorted(info.name for info in rlpanel.discover(tmp_path)) == ["group", "group/123"]


# -- prime-rl ------------------------------------------------------------------------------------------


def node(role: str, text: str, ids: list[int], own: int = 0, **fields: Any) -> dict[str, Any]:
    """A message with its tokens, of which the last ``own`` were sampled."""
    mask = [False] * (len(ids) - own) + [True] * own
    made = {"message": {"role": role, "content": text}, "sampled": own > 0, "token_ids": ids, "mask": mask}
    return made | ({"logprobs": [-0.5] * own} if own else {}) | fields


def episode(*traces: list[dict[str, Any]], reward: float = 1.0, **fields: Any) -> dict[str, Any]:
    """An episode as ``to_record`` gives it, which leaves out what is None."""
    return {
        "id": "e1",
        "env": {"id": "gsm8k", "name": "math"},
        "task": {"type": "Task", "data": {"question": "2 + 2?", "answer": 4}},
        "group": {"id": "g7"},
        "run": {"type": "train", "id": "r", "work": {"type": "train", "step": 2}},
        "ok": True,
        "traces": [
            {
                "nodes": nodes,
                "ok": True,
                "rewards": {
                    "correct": {"score": reward, "weight": 2.0},
                    "style": {"score": 0.5, "weight": 0.1},
                },
                "metrics": {"turns": 1.0},
                "stop_condition": "stop",
            }
            for nodes in traces
        ],
    } | fields


#: Two sampled messages with a tool's answer between them, and another end of the first.
FORKED = [
    node("user", "2 + 2?", [1, 2]),
    node("assistant", "let me see", [3, 40, 41], 2, parent=0, advantages=[0.25, 0.25]),
    node("tool", "4", [5, 6], parent=1),
    node("assistant", "four", [7, 42], 1, parent=2, advantages=[0.25]),
    node("assistant", "five", [8, 43, 44], 2, parent=1),
]
PLAIN = [node("user", "hi", [1]), node("assistant", "ho", [2, 9], 1, parent=0)]


def traces(root: Path, step: int, kind: str = "train", subset: str = "all") -> Path:
    return root / "rollouts" / f"step_{step}" / kind / subset / "traces.jsonl"


def test_each_way_through_an_episodes_messages_is_a_sample(tmp_path: Path) -> None:
    put(traces(tmp_path, 3), episode(FORKED))
    first, second = samples(tmp_path)
    assert first.response == "[assistant] let me see\n[tool] 4\n[assistant] four"
    assert (first.prompt, first.ground_truth, first.group, first.finish_reason, first.step) == (
        "[user] 2 + 2?", "4", "g7", "stop", 3,
    )  # fmt: skip
    assert first.reward == pytest.approx(2 * 1.0 + 0.1 * 0.5)
    assert {name: array.tolist() for name, array in first.arrays().items()} == {
        "response_token_ids": [40, 41, 42],
        "rollout_logprobs": [-0.5, -0.5, -0.5],
        "advantages": [0.25, 0.25, 0.25],
        "loss_mask": [1, 1, 1],
    }
    assert second.response == "[assistant] let me see\n[assistant] five"
    assert second.advantages is None  # its last message has none


def test_a_final_batch_replaces_what_came_one_by_one(tmp_path: Path) -> None:
    put(traces(tmp_path, 1), episode(PLAIN, reward=0.0), episode(PLAIN, reward=1.0))
    index = RunIndex(tmp_path, "run")
    before = look(index)
    put(traces(tmp_path, 1, subset="effective"), episode(PLAIN, reward=1.0))
    put(traces(tmp_path, 2), episode(PLAIN, reward=0.5))
    assert [step for step, _ in before] == [1, 1]
    assert [(step, round(reward, 6)) for step, reward in look(index)] == [(1, 2.05), (2, 1.05)]


def named(name: str) -> dict[str, Any]:
    """An episode whose only trace has an id."""
    found = episode(PLAIN, id=name)
    found["traces"][0]["id"] = name
    return found


def test_compressed_batches_are_one_run_and_count_once(tmp_path: Path) -> None:
    """Also if only one of the two files is compressed."""
    put(traces(tmp_path, 3), named("kept"), named("dropped"))
    put(traces(tmp_path, 3, subset="effective"), named("kept"))
    whole = counts(tmp_path)
    for subset in ("all", "effective"):
        path = traces(tmp_path, 3, subset=subset)
        Path(f"{path}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
        assert counts(tmp_path) == whole
    assert [info.name for info in rlpanel.discover(tmp_path)] == ["."]


@pytest.mark.parametrize("part", ["rollouts", "rollouts/step_3", "rollouts/step_3/train"])
def test_the_step_does_not_depend_on_the_folder_that_is_opened(tmp_path: Path, part: str) -> None:
    put(traces(tmp_path, 3), named("kept"), named("dropped"))
    put(traces(tmp_path, 3, subset="effective"), named("kept"))
    if part != "rollouts/step_3/train":
        put(traces(tmp_path, 3, "eval"), named("asked"))
    assert counts(tmp_path / part) == counts(tmp_path)


def counts(folder: Path) -> dict[tuple[str, int], int]:
    """Samples by split and step."""
    with rlpanel.open_run(folder, follow=False) as run:
        parts = {split: run.split(split).steps for split in run.splits}
        assert not len(run.errors)
    return {
        (split, step): count
        for split, steps in parts.items()
        for step, count in zip(steps["step"].tolist(), steps["samples"].tolist(), strict=True)
    }


def test_evaluation_is_told_from_training(tmp_path: Path) -> None:
    put(traces(tmp_path, 1), episode(PLAIN))
    put(traces(tmp_path, 1, "eval"), episode(PLAIN))
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert run.splits == {"train": 1, "eval": 1}


def test_the_run_is_the_folder_of_rollouts_and_exports(tmp_path: Path) -> None:
    put(traces(tmp_path / "outputs" / "exp", 1), episode(PLAIN))
    put(tmp_path / "outputs" / "exp" / "token_exports" / "step_2" / "rank_0.jsonl", export([1, 2, 9], 2))
    assert [info.name for info in rlpanel.discover(tmp_path)] == ["outputs/exp"]


def test_an_invalid_episode_is_a_bad_line(tmp_path: Path) -> None:
    circle = episode([node("assistant", "x", [1], 1, parent=0)])
    put(traces(tmp_path, 1), episode(PLAIN), circle)
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert run.errors["reason"].tolist() == ["a message's 'parent' is not an earlier message"]
        assert len(run.samples()) == 1


def with_id(made: dict[str, Any], name: str, **trace: Any) -> dict[str, Any]:
    return made | {"id": name, "traces": [each | {"id": f"{name}-t"} | trace for each in made["traces"]]}


TIMED_OUT = {"ok": False, "errors": [{"type": "ToolTimeout", "message": "no answer in 30 s"}]}


def test_a_failed_episode_has_a_status_and_no_reward(tmp_path: Path) -> None:
    put(
        traces(tmp_path, 1),
        with_id(episode(PLAIN), "good"),
        with_id(episode(PLAIN), "late", **TIMED_OUT),
        with_id(episode(PLAIN), "retried", ok=True, errors=TIMED_OUT["errors"]),
        with_id(episode(), "dead") | {"ok": False, "errors": [{"type": "Sandbox", "message": "died"}]},
    )
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert run.samples()["reward"].tolist() == pytest.approx([2.05, 2.05])
        failed = run.split("discarded")
        late, dead = (failed.sample(uid) for uid in failed.samples()["uid"])
    assert (late.status, late.status_reason, late.response) == (
        "timeout", "ToolTimeout: no answer in 30 s", "ho",
    )  # fmt: skip
    assert (dead.status, dead.status_reason, dead.response) == ("environment_error", "Sandbox: died", None)
    assert math.isnan(late.reward)
    assert math.isnan(dead.reward)


@pytest.mark.case("prime-rl", "aborted")
def test_what_is_not_in_the_final_batch_stays_visible_as_discarded(tmp_path: Path) -> None:
    kept, dropped = with_id(episode(PLAIN), "kept"), with_id(episode(PLAIN, reward=0.0), "dropped")
    late = with_id(episode(PLAIN), "late", **TIMED_OUT)
    put(traces(tmp_path, 1), kept, dropped, late)
    index = RunIndex(tmp_path, "run")
    before = look(index)
    put(traces(tmp_path, 1, subset="effective"), kept)
    assert (len(before), len(look(index))) == (2, 1)
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert run.samples()["reward"].tolist() == pytest.approx([2.05])
        frame = run.split("discarded").samples()
        found = [run.split("discarded").sample(uid) for uid in frame["uid"]]
    assert [(each.status, each.status_reason) for each in found] == [
        ("discarded", "not in the effective batch"), ("timeout", "ToolTimeout: no answer in 30 s"),
    ]  # fmt: skip
    assert found[0].reward == pytest.approx(0.05)


def test_tool_calls_reasoning_and_images_of_an_episode_are_kept() -> None:
    (sample, *_) = samples(TOOLS)
    assert sample.response == (
        '[assistant] I need the calculator.\n[call] add({"a":2,"b":2})\n[tool] 4\n'
        "[assistant] The answer is 4."
    )
    assert sample.prompt.endswith("What is in the picture? Add 2+2.\n[image]")
    calls = [message.get("tool_calls") for message in sample.messages]
    assert calls[2] == [{"id": "c1", "name": "add", "arguments": '{"a":2,"b":2}'}]
    assert sample.messages[1]["images"] == [
        {"media_type": "image/png", "size": 72, "key": "1a39a753bacc5b65"}
    ]
    assert (sample.prompt_messages, sample.columns["policy_version_max"]) == (2, 0.0)


TIMES = {
    "start": 1.8e9,
    "boot": {"start": 0.0, "end": 0.0},
    "setup": {"start": 1.8e9 + 1, "end": 1.8e9 + 3},
    "agent": {
        "start": 1.8e9 + 3, "end": 1.8e9 + 10, "model": {"duration": 5.0}, "harness": {"duration": 2.0},
    },
    "scoring": {"start": 1.8e9 + 10, "end": 1.8e9 + 11},
}  # fmt: skip


def test_an_episode_tells_versions_seconds_and_the_tokens_of_others(tmp_path: Path) -> None:
    work = {"type": "train", "step": 2, "policy": {"start": 1, "end": 3}}
    made = with_id(episode(FORKED), "e", timing=TIMES) | {"run": {"type": "train", "id": "r", "work": work}}
    put(traces(tmp_path, 4), made)
    first, second = samples(tmp_path)
    assert first.policy_versions == ((1, -1), (3, -1))
    assert first.columns["lag"] == 2.0, "prime-rl's staleness: (step - 1) - policy.start"
    context = first.columns["context_tokens"], second.columns["context_tokens"]
    assert context == (3.0, 3.0), "the second has one of the template, and two that the first trains"
    names = ("generation_seconds", "environment_seconds", "score_seconds", "seconds", "start_time")
    assert [first.columns[name] for name in names] == [5.0, 4.0, 1.0, 11.0, 1.8e9]
    assert first.spans == (("environment", 1.0, 3.0), ("agent", 3.0, 10.0), ("score", 10.0, 11.0))
    assert first.episode == "e"


def test_agents_that_are_not_trained_are_apart(tmp_path: Path) -> None:
    judge = with_id(episode(PLAIN), "j", agent={"name": "judge", "trainable": False})
    put(traces(tmp_path, 1), with_id(episode(PLAIN), "e", agent={"name": "solver"}), judge)
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert run.samples()["agent"].tolist() == ["solver"]
        assert run.split("discarded").samples()["agent"].tolist() == ["judge"]


# -- token exports -------------------------------------------------------------------------------------


def export(ids: list[int], first: int, step: int = 1, **fields: Any) -> dict[str, Any]:
    """A sequence whose tokens from ``first`` on took part in the loss; each number tells its place."""
    count = len(ids)
    return {
        "schema_version": 1, "step": step, "rank": 0, "micro_step": 0, "env_name": "math", "token_ids": ids,
        "loss_mask": [at >= first for at in range(count)],
        "trainer_logprobs": [-float(at) for at in range(count)],
        "inference_logprobs": [-float(at) - 0.5 for at in range(count)],
        "advantages": [0.5] * count, "entropy": [None, *[0.25] * (count - 1)],
    } | fields  # fmt: skip


def test_exports_without_traces_are_the_tokens_in_the_loss(tmp_path: Path) -> None:
    line = export([1, 2, 40, 41], 2, own_array=[9, 8, 7, 6])
    put(tmp_path / "token_exports" / "step_1" / "rank_0.jsonl", line)
    (sample,) = samples(tmp_path)
    assert {name: array.tolist() for name, array in sample.arrays().items()} == {
        "loss_mask": [1, 1],
        "response_token_ids": [40, 41],
        "logprobs": [-2.0, -3.0],
        "rollout_logprobs": [-2.5, -3.5],
        "advantages": [0.5, 0.5],
        "entropy": [0.25, 0.25],
    }
    assert sample.token_arrays["own_array"].tolist() == [7, 6]
    assert (sample.extra["prompt_token_ids"], sample.extra["env_name"]) == ([1, 2], "math")


@pytest.mark.case("prime-rl", "ranks")
def test_traces_are_joined_with_their_exports_once_these_are_stable(tmp_path: Path) -> None:
    put(traces(tmp_path, 1), episode(FORKED), episode(PLAIN))
    index = RunIndex(tmp_path, "run")
    look(index)
    alone = "logprob_mean" in index.snapshot.numbers
    folder = tmp_path / "token_exports" / "step_1"
    # The first way through the messages: 1 2 | 3 40 41 | 5 6 | 7 42.
    put(folder / "rank_0.jsonl", export([1, 2, 3, 40, 41, 5, 6, 7, 42], 3))
    put(folder / "rank_1.jsonl", export([9, 9, 9], 1))
    look(index)
    early = "logprob_mean" in index.snapshot.numbers
    (folder / "STABLE").touch()
    rows = look(index)
    snapshot = index.snapshot
    found = [index.reader(snapshot.file(row)).fetch(snapshot.locator(row)) for row in snapshot.alive_rows]
    first, second, third = found
    assert (alone, early, len(rows)) == (False, False, 3)
    assert {name: array.tolist() for name, array in first.arrays.items()} == {
        "response_token_ids": [40, 41, 42],
        "loss_mask": [1, 1, 1],
        "rollout_logprobs": [-3.5, -4.5, -8.5],
        "advantages": [0.5, 0.5, 0.5],
        "logprobs": [-3.0, -4.0, -8.0],
        "entropy": [0.25, 0.25, 0.25],
    }
    assert "logprobs" not in second.arrays
    assert "logprobs" not in third.arrays
    assert "logprob_mean" in index.snapshot.numbers


def test_exports_written_again_after_a_restart_are_joined_again(tmp_path: Path) -> None:
    put(traces(tmp_path, 1), episode(PLAIN))
    file = tmp_path / "token_exports" / "step_1" / "rank_0.jsonl"
    put(file, export([1, 2, 9], 2))
    (file.parent / "STABLE").touch()
    index = RunIndex(tmp_path, "run")
    look(index)
    before = index.snapshot.number("logprob_mean")[index.snapshot.alive_rows].tolist()
    file.write_bytes(lines(export([1, 2, 9], 2, trainer_logprobs=[0.0, 0.0, -9.0])))
    (file.parent / "STABLE").unlink()
    (file.parent / "STABLE").touch()
    look(index)
    after = index.snapshot.number("logprob_mean")[index.snapshot.alive_rows].tolist()
    assert (before, after) == ([-2.0], [-9.0])
