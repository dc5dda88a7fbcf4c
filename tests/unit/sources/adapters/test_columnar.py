"""Columnar lines of ms-swift and ROLL, and the lines of one sample that ms-swift on Ray writes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.text_predicate import TextPredicate
from rlpanel.store.query.text_scan import scan
from tests.factories import append
from tests.unit.sources.adapters.test_adapters import ROLL, SWIFT, UPSTREAM, lines, read, rewards


def test_swifts_line_is_its_samples_and_the_reward_their_sum(tmp_path: Path) -> None:
    append(tmp_path / "completions.jsonl", lines(SWIFT))
    with read(tmp_path) as run:
        frame = run.samples(text=True)
        last = run.sample(frame["uid"][2])
    wanted = pd.DataFrame({key: SWIFT[key] for key in ("prompt", "completion", "format", "accuracy")})
    assert frame["prompt"].tolist() == wanted["prompt"].tolist()
    assert frame["response"].tolist() == wanted["completion"].tolist()
    np.testing.assert_array_equal(
        frame["reward"], wanted[["format", "accuracy"]].astype(float).sum(axis=1, min_count=1)
    )
    assert frame["rewards/format"].tolist()[:2] == [1.0, 0.0]
    assert frame["logged_entropy"].tolist() == SWIFT["entropy"]
    assert (last.step, last.response, last.advantage) == (3, "c", 0.0)


def test_swift_appends_a_line_a_step(tmp_path: Path) -> None:
    append(tmp_path / "completions.jsonl", lines(SWIFT))
    index = RunIndex(tmp_path, "run")
    before = rewards(index)
    append(tmp_path / "completions.jsonl", lines({**SWIFT, "step": ["4"] * 3, "format": [2, 2, 2]}))
    assert [step for step, _ in before] == [3, 3, 3]
    assert rewards(index)[-3:] == [(4, 2.0), (4, 2.25), (4, 2.5)]


@pytest.mark.case("ROLL", "resume")
def test_roll_is_read_and_a_step_written_again_replaces_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "rollout_dump_data.step_7.jsonl"
    path.write_bytes(lines(ROLL))
    index = RunIndex(tmp_path, "run")
    before = rewards(index)
    path.write_bytes(lines({**ROLL, "scores": [0.25, 0.75]}))
    assert (before, rewards(index)) == ([(7, 0.0), (7, 1.0)], [(7, 0.25), (7, 0.75)])
    snapshot = index.snapshot
    assert snapshot.label("domain", snapshot.alive_rows) == ["math", "code"]


#: A recorded step's samples: data set, system's message, question, ground truth, response, score.
RLVR = [
    ("deepmath_103k", "Reason step by step.", "2 + 2 等于几？ 🙂", "4", "\\boxed{4} “四” 3", 1.0),
    ("deepmath_103k", "Reason step by step.", "2 + 2 等于几？ 🙂", "4", "five\n", 0.0),
    ("RLVR", "Solve the problem.", "Which test confirms HIV?", "Western blot", "Western blot", 1.0),
    ("RLVR", "Solve the problem.", "Which test confirms HIV?", "Western blot", "ELISA", 0.25),
    ("RLVR", "Solve the problem.", "Which planet is the largest?", "Jupiter", "Jupiter", 1.0),
    ("RLVR", "Solve the problem.", "Which planet is the largest?", "Jupiter", "", 0.0),
]


def test_rolls_own_file_gives_what_its_policy_was_asked_and_said() -> None:
    with read(UPSTREAM / "roll-8eb27cc2" / "rlvr") as run:
        frame = run.samples()
        first = frame[frame["step"] == 3]
        samples = [run.sample(uid) for uid in first["uid"]]
        test = TextPredicate("prompt", "contains", "等于几")
        batches = list(scan(run.index, run.snapshot, run.snapshot.alive_rows, [test]))
    assert sorted(frame["step"]) == [3] * 6 + [4] * 6
    assert first["source"].tolist() == [source for source, *_ in RLVR]
    read_back = [(each.prompt, each.ground_truth, each.response, each.reward) for each in samples]
    assert read_back == [
        (f"[system] {system}\n[user] {question}", *rest) for _, system, question, *rest in RLVR
    ]
    assert [message["role"] for message in samples[0].messages] == ["system", "user", "assistant"]
    assert sum(batch.texts[test].sum() for batch in batches) == 4


def test_questions_with_the_same_system_message_are_groups_of_their_own() -> None:
    """The `prompt` of ROLL's data for judges is the system's message, the same for all questions."""
    with read(UPSTREAM / "roll-8eb27cc2" / "rlvr") as run:
        frame = run.samples()
    frame = frame[frame["step"] == 3]
    np.testing.assert_allclose(frame["rloo_advantage"], [1.0, -1.0, 0.75, -0.75, 1.0, -1.0])


def test_rolls_file_on_images_has_no_prompts_and_hence_no_groups() -> None:
    with read(UPSTREAM / "roll-8eb27cc2" / "rlvr_vlm") as run:
        frame = run.samples()
        samples = [run.sample(uid) for uid in frame["uid"]]
    assert [(each.step, each.prompt, each.response, each.reward) for each in samples] == [
        (3, None, "90°", 1.0), (3, None, "45°", 0.0),
    ]  # fmt: skip
    assert "rloo_advantage" not in frame


@pytest.mark.parametrize("text", ["", "[{", "[1]", "4", None])
def test_messages_that_are_none_leave_rolls_prompt(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "rollout_dump_data.step_7.jsonl"
    path.write_bytes(lines({**ROLL, "messages": [text, '[{"role": "user", "content": "r"}]']}))
    with read(tmp_path) as run:
        assert run.samples(text=True)["prompt"].tolist() == ["p", "[user] r"]


RAY = {"gen_step": 0, "prompt": "p", "completion": "c"}
MEGATRON = {"gen_step": [0, 0], **{key: values[:2] for key, values in SWIFT.items() if key != "step"}}


def test_swift_on_megatron_counts_generations(tmp_path: Path) -> None:
    append(tmp_path / "completions.jsonl", lines(MEGATRON, {**MEGATRON, "gen_step": [1, 1]}))
    with read(tmp_path) as run:
        frame = run.samples(text=True)
    columns = ["step", "response", "rewards/format", "rewards/accuracy", "reward", "advantage"]
    assert frame[columns].values.tolist() == [
        [step, *row] for step in (0, 1) for row in (["a", 1.0, 0.5, 1.5, 1.0], ["b", 0.0, 0.25, 0.25, -1.0])
    ]


def test_swift_on_ray_writes_a_line_per_sample(tmp_path: Path) -> None:
    rows = [
        {"gen_step": step, "prompt": "p", "completion": f"c{step}{at}", "reward": at / 2}
        for step in (0, 1)
        for at in (0, 1)
    ]
    append(tmp_path / "completions.jsonl", lines(*rows, {"gen_step": 2, "prompt": "p", "completion": ""}))
    with read(tmp_path) as run:
        frame = run.samples(text=True)
        sample = run.sample(frame["uid"][3])
    assert frame["step"].tolist() == [0, 0, 1, 1, 2]
    assert frame["response"].tolist() == ["c00", "c01", "c10", "c11", ""]
    np.testing.assert_array_equal(frame["reward"], [0.0, 0.5, 0.0, 0.5, np.nan])
    assert (sample.prompt, sample.response, sample.line, sample.extra) == ("p", "c11", 4, {})


def test_a_native_line_with_a_generation_step_stays_native(tmp_path: Path) -> None:
    append(tmp_path / "log.jsonl", lines({"step": 5, "gen_step": 3, "prompt": "p", "completion": "c"}))
    with read(tmp_path) as run:
        assert run.samples()[["step", "gen_step"]].values.tolist() == [[5, 3.0]]


@pytest.mark.parametrize(
    ("good", "bad", "reason"),
    [
        (MEGATRON, {**MEGATRON, "gen_step": [0]}, "lists of unequal length: 'gen_step' 1, 'prompt' 2"),
        (MEGATRON, {**MEGATRON, "gen_step": ["x", "y"]}, "'step' is not an integer: 'x'"),
        (RAY, {"gen_step": None, "prompt": "p"}, "'step' is not an integer: None"),
        (RAY, {"gen_step": 0, "reward": 0.5}, "neither 'prompt' nor 'completion'"),
        (RAY, {"prompt": "p", "completion": "c"}, "no 'gen_step'"),
    ],
)
def test_a_bad_line_of_swift_hides_no_good_one(
    tmp_path: Path, good: dict[str, object], bad: dict[str, object], reason: str
) -> None:
    append(tmp_path / "completions.jsonl", lines(good, bad, good))
    with read(tmp_path) as run:
        assert run.errors["line"].tolist() == [2]
        assert run.errors["reason"][0].startswith(reason)
        assert run.stats().rows in (2, 4)


# -- groups ------------------------------------------------------------------------------------------

ASKED = [{"role": "system", "content": "brief"}, {"role": "user", "content": "1 + 1?"}]


@pytest.mark.parametrize(
    "group",
    [
        {"prompt": "1 + 1?", "completions": ["2", "3"], "rewards": [1.0, 0.0]},
        {"prompt": "1 + 1?", "response": ["2", "3"], "reward": [1, 0]},
        {"input": "1 + 1?", "output": ["2", "3"], "score": [1.0, 0.0]},
        {"prompts": "1 + 1?", "responses": ["2", "3"], "scores": [1.0, 0.0]},
    ],
)
def test_a_line_with_the_responses_of_a_group_is_as_many_samples(
    tmp_path: Path, group: dict[str, object]
) -> None:
    append(tmp_path / "log.jsonl", lines({"step": 4, **group}, {"global_step": 5, **group}))
    with read(tmp_path) as run:
        frame, samples = run.samples(text=True), run.sample(run.samples()["uid"][1])
    assert frame[["step", "prompt", "response", "reward"]].values.tolist() == [
        [4, "1 + 1?", "2", 1.0], [4, "1 + 1?", "3", 0.0], [5, "1 + 1?", "2", 1.0], [5, "1 + 1?", "3", 0.0],
    ]  # fmt: skip
    assert (samples.line, samples.response) == (1, "3")
    np.testing.assert_allclose(frame["rloo_advantage"], [1.0, -1.0, 1.0, -1.0])


def test_a_groups_other_lists_belong_to_its_samples_and_its_other_values_to_all(tmp_path: Path) -> None:
    group = {
        "step": 1, "prompt": ASKED, "completions": ["2", "3"], "tools": [{"name": "a"}, {"name": "b"}],
        "rewards": {"acc": [1.0, 0.0], "format": [0.5, 0.25]}, "ground_truth": "2", "seconds": [3.0, 4.0],
        "logprobs": [[-1.0], [-2.0, -3.0]], "lr": 1e-6, "layers": [1, 2, 3],
    }  # fmt: skip
    append(tmp_path / "log.jsonl", lines(group))
    with read(tmp_path) as run:
        frame = run.samples(text=True)
        samples = [run.sample(uid) for uid in frame["uid"]]
    columns = ["rewards/acc", "rewards/format", "seconds", "lr", "ground_truth"]
    assert frame[columns].values.tolist() == [[1.0, 0.5, 3.0, 1e-6, "2"], [0.0, 0.25, 4.0, 1e-6, "2"]]
    assert [sample.prompt for sample in samples] == ["[system] brief\n[user] 1 + 1?"] * 2
    assert [sample.arrays()["logprobs"].tolist() for sample in samples] == [[-1.0], [-2.0, -3.0]]
    assert [sample.extra["layers"] for sample in samples] == [[1, 2, 3]] * 2


def test_a_groups_responses_may_be_conversations(tmp_path: Path) -> None:
    replies = [[{"role": "assistant", "content": text}] for text in ("2", "3")]
    append(
        tmp_path / "log.jsonl", lines({"step": 1, "prompt": ASKED, "completions": replies, "rewards": [1, 0]})
    )
    with read(tmp_path) as run:
        frame = run.samples(text=True)
    assert frame["reward"].tolist() == [1.0, 0.0]
    assert [text.rpartition("] ")[2] for text in frame["response"]] == ["2", "3"]


def test_one_conversation_with_a_reward_for_each_turn_is_no_group(tmp_path: Path) -> None:
    reply = [{"role": "assistant", "content": "2"}, {"role": "tool", "content": "ok"}]
    append(tmp_path / "log.jsonl", lines({"step": 1, "prompt": "p", "response": reply, "rewards": [1, 0]}))
    with read(tmp_path) as run:
        assert run.stats().rows == 1


def test_a_group_with_another_number_of_rewards_is_a_bad_line(tmp_path: Path) -> None:
    good = {"step": 1, "prompt": "p", "completions": ["a", "b"], "rewards": [1, 0]}
    append(tmp_path / "log.jsonl", lines(good, {**good, "rewards": [1, 0, 1]}, good))
    with read(tmp_path) as run:
        assert run.errors["reason"].tolist() == ["lists of unequal length: 'completions' 2, 'rewards' 3"]
        assert run.stats().rows == 4
