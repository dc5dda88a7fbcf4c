"""Files of each trainer as its code writes them, read through `open_run` into rows and samples."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

import rlpanel
from rlpanel.store.index.run_index import RunIndex
from tests.factories import append, line, write_run

#: Files that frameworks' own writers wrote, by framework and commit.
UPSTREAM = Path(__file__).parents[3] / "data" / "upstream"


def lines(*documents: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(document).encode() + b"\n" for document in documents)


def read(folder: Path) -> rlpanel.Run:
    return rlpanel.open_run(folder, follow=False)


def rewards(index: RunIndex) -> list[tuple[int, float]]:
    """Step and reward of the living rows after another look at the folder."""
    index.rescan()
    while index.read():
        pass
    frame = index.view.frame(index.snapshot.alive_rows)
    return sorted(zip(frame["step"].tolist(), frame["reward"].tolist(), strict=True))


def verl(step: int, *scores: float, **fields: Any) -> bytes:
    """A step's file; uid as the V1 trainer gives it."""
    return lines(
        *(
            {
                "input": f"user: {at // 2}?",
                "output": f"answer {at}",
                "gts": {"truth": at},
                "score": score,
                "step": step,
            }
            | fields
            for at, score in enumerate(scores)
        )
    )


def nemo(*, reward: float = 0.5, **fields: Any) -> dict[str, Any]:
    """A sample of three prompt tokens, two response tokens and one of padding."""
    return {
        "content": [["2 + 2?", "4 ."]],
        "rewards": [reward],
        "input_lengths": [5],
        "token_ids": [[1, 2, 3, 40, 41, 0]],
        "token_loss_mask": [[0, 0, 0, 1, 1, 1]],
        "advantages": [[0.0, 0.0, 0.0, 0.25, 0.5, 9.0]],
        "generation_logprobs": [[0.0, -9.0, -9.0, -0.3, -0.4, -9.0]],
        "prev_logprobs": [[0.0, -9.0, -9.0, -0.1, -0.2, -9.0]],
        "idx": 0,
    } | fields


SWIFT = {
    "step": ["3", "3", "3"],
    "prompt": ["p", "p", "q"],
    "completion": ["a", "b", "c"],
    "format": [1.0, 0.0, None],
    "accuracy": [0.5, 0.25, None],
    "advantages": [1.0, -1.0, 0.0],
    "solution": ["x", "y", "z"],
    "entropy": [0.1, 0.2, 0.3],
}
ROLL = {
    "global_step": [7, 7],
    "prompt": ["p", "q"],
    "responses": ["a", "b"],
    "scores": [0.0, 1.0],
    "ground_truth": ["1", "2"],
    "domain": ["math", "code"],
}
TRACE = {
    "step": 4,
    "sample_idx": 1,
    "prompt_idx": 0,
    "prompt_tokens": [5, 6],
    "response_tokens": [7, 8, 9],
    "reward": 10.0,
    "advantage": 0.5,
    "finish_reason": "stop",
    "dataset": "gsm8k",
    "ground_truth": [4],
    "request_info": {"num_calls": 2, "tool_errors": "", "tool_runtimes": 0.25},
    "logprobs": [-0.1, -0.2, -0.3],
}


# -- NeMo-RL -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrapped", [True, False])
def test_nemo_gives_the_responses_tokens_without_prompt_and_padding(tmp_path: Path, wrapped: bool) -> None:
    document = nemo() if wrapped else {k: v if k == "idx" else v[0] for k, v in nemo().items()}
    (tmp_path / "train_data_step12.jsonl").write_bytes(lines(document))
    with read(tmp_path) as run:
        frame = run.samples()
        sample = run.sample(frame["uid"][0])
    assert (sample.step, sample.reward, sample.split, sample.prompt, sample.response) == (
        12, 0.5, "train", "2 + 2?", "4 .",
    )  # fmt: skip
    assert {name: array.tolist() for name, array in sample.arrays().items()} == {
        "response_token_ids": [40.0, 41.0],
        "logprobs": [-0.1, -0.2],
        "rollout_logprobs": [-0.3, -0.4],
        "advantages": [0.25, 0.5],
        "loss_mask": [1.0, 1.0],
    }
    assert frame["response_tokens"].tolist() == [2.0]


def test_an_array_that_is_padded_as_nemos_loses_prompt_and_padding(tmp_path: Path) -> None:
    own = {
        "teacher_logprobs": [[0.0, 0.0, 0.0, -0.5, -0.6, 0.0]],
        "is_filter_drop": [[0, 0, 0, 0, 1, 0]],
        "gate": [[9, 9, 9, 2, 3, 9]],
    }
    (tmp_path / "train_data_step12.jsonl").write_bytes(lines(nemo(**own)))
    with read(tmp_path) as run:
        sample = run.sample(run.samples()["uid"][0])
    arrays = sample.arrays() | sample.token_arrays
    assert {name: arrays[name].tolist() for name in ("teacher_logprobs", "is_masked", "gate")} == {
        "teacher_logprobs": [-0.5, -0.6], "is_masked": [0.0, 1.0], "gate": [2, 3],
    }  # fmt: skip


def test_nemo_without_messages_has_tokens_and_no_text(tmp_path: Path) -> None:
    document = {key: value for key, value in nemo().items() if key != "content"}
    (tmp_path / "train_data_step12.jsonl").write_bytes(lines(document))
    with read(tmp_path) as run:
        sample = run.sample(run.samples()["uid"][0])
    assert (sample.step, sample.reward, sample.prompt, sample.response) == (12, 0.5, None, None)
    assert sample.arrays()["response_token_ids"].tolist() == [40.0, 41.0]


def test_nemos_environment_message_is_no_part_of_the_response() -> None:
    with read(UPSTREAM / "nemo-rl-7ea279abf") as run:
        samples = [run.sample(uid) for uid in run.samples()["uid"]]
        frame = run.samples()
    assert {sample.response.split("boxed")[0] for sample in samples} == {
        "I add two and two. The answer is \\"
    }
    assert {sample.prompt for sample in samples} == {
        "<|im_start|>user\nWhat is 2+2?<|im_end|>\n<|im_start|>assistant\n"
    }
    assert [message["role"] for message in samples[0].messages] == ["user", "assistant", "environment"]
    assert frame["grpo_advantage"].abs().min() > 0.5  # the rewards of a prompt's group differ


def test_the_reward_of_a_nemo_batch_that_was_filtered_is_that_of_its_own_sample() -> None:
    """`rewards` is cut from the batch before DAPO's filter: its first values belong to other samples."""
    with read(UPSTREAM / "dapo-nemo-rl-7ea279abf") as run:
        frame = run.samples()
        samples = [run.sample(uid) for uid in frame["uid"]]
    right = ["(right)" in sample.response for sample in samples]
    assert (right, sum(right)) == ([sample.reward == 1.0 for sample in samples], 5)
    assert not {"rewards", "filtered_rewards"} & set(frame)


@pytest.mark.parametrize("kept", [1.0, 0.0])
@pytest.mark.case("NeMo-RL", "masked")
def test_a_nemo_sample_outside_of_the_loss_has_a_mask_of_zeros(tmp_path: Path, kept: float) -> None:
    """Overlong samples and those that NeMo Gym masks keep their reward, which their group's mean includes."""
    (tmp_path / "train_data_step1.jsonl").write_bytes(lines(nemo(sample_loss_mask=[kept])))
    with read(tmp_path) as run:
        frame = run.samples()
        sample = run.sample(frame["uid"][0])
    assert sample.loss_mask is not None
    assert (sample.loss_mask.tolist(), sample.reward) == ([kept, kept], 0.5)
    assert frame["response_tokens"].tolist() == [2.0]


@pytest.mark.parametrize(
    ("content", "mask", "prompt", "response"),
    [
        (["s", "u", "a", "e"], [0, 1, 1, 0], "s\nu", "a"),
        (["u", "a", "e", "b", "f"], [0, 1, 0, 1, 0], "u", "[assistant] a\n[environment] e\n[assistant] b"),
        (["u", "a", "the environment's tokens were cut off"], [0, 1, 1], "u", "a"),
        (["u", "a"], [0, 1, 1], "u", "a"),
        (["u"], [0, 0], "u", None),
        (["u", "a"], [0, 0], "u", "a"),
    ],
)
def test_nemos_messages_are_assigned_by_the_turns_of_the_loss_mask(
    tmp_path: Path, content: list[str], mask: list[int], prompt: str, response: str | None
) -> None:
    document = {
        "content": [content], "rewards": [1.0], "input_lengths": [len(mask)], "token_ids": [mask],
        "token_loss_mask": [mask],
    }  # fmt: skip
    (tmp_path / "train_data_step1.jsonl").write_bytes(lines(document))
    with read(tmp_path) as run:
        sample = run.sample(run.samples()["uid"][0])
    assert (sample.prompt, sample.response) == (prompt, response)


def test_nemos_validation_files_are_eval(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}]
    (tmp_path / "val_data_step10.jsonl").write_bytes(
        lines({"content": [messages], "rewards": [1.0], "idx": 0})
    )
    with read(tmp_path) as run:
        sample = run.sample(run.samples()["uid"][0])
    assert (sample.step, sample.split, sample.prompt, sample.response) == (10, "eval", "[user] 2 + 2?", "4")


# -- open-instruct -------------------------------------------------------------------------------------


def test_open_instructs_ids_are_tokens_and_its_tools_columns(tmp_path: Path) -> None:
    append(tmp_path / "run1_rollouts_000000.jsonl", lines(TRACE))
    append(tmp_path / "run1_metadata.jsonl", lines({"run_name": "run1", "model_name": "m"}))
    with read(tmp_path) as run:
        frame = run.samples()
        sample = run.sample(frame["uid"][0])
    assert run.snapshot.files == ("run1_rollouts_000000.jsonl",)
    assert frame[["step", "group", "response_tokens", "tools/num_calls"]].values.tolist() == [
        [4, "0", 3.0, 2.0]
    ]
    assert {name: array.tolist() for name, array in sample.arrays().items()} == {
        "response_token_ids": [7.0, 8.0, 9.0],
        "rollout_logprobs": [-0.1, -0.2, -0.3],
    }
    assert sample.extra["prompt_tokens"] == [5, 6]


#: The recorded steps' samples: group, reward, advantage, finish reason, response, engine's logprobs.
TRACES = [
    ("0", 10.0, 1.0, "stop", "<py>4ok", [-0.1, -0.2, -0.3, -0.4, 0.0, -0.5, -0.6]),
    ("0", 0.0, -1.0, "length", "5", [-1.0]),
    ("1", 10.0, 1.0, "stop", "Titan 🌕", [-0.01, -0.02, -0.03, -0.04, -0.05, -0.06, -0.07]),
    ("1", 5.0, -1.0, "stop", "\0", [math.nan]),
]


def test_open_instructs_arrays_of_trainer_and_teacher_are_passed_on(tmp_path: Path) -> None:
    """A line as ``rl_utils._save_rollouts`` writes it, with the arrays that later versions and forks add."""
    trace = {
        "step": 3, "sample_idx": 0, "prompt_idx": 0, "prompt_tokens": [5], "response_tokens": [6, 7, 8],
        "reward": 1.0, "advantage": 0.5, "finish_reason": "stop", "dataset": ["gsm8k"],
        "ground_truth": ["4"], "request_info": None, "logprobs": [-0.1, -0.2, 0.0],
        "trainer_logprobs": [-0.15, -0.25, -0.9], "masks": [1, 1, 0],
        "teacher_logprobs": [-0.3, -0.2, 0.0], "model_steps": [2, 2, 3],
    }  # fmt: skip
    append(tmp_path / "demo__1_rollouts_000000.jsonl", lines(trace))
    with read(tmp_path) as run:
        sample = run.sample(run.samples()["uid"][0])
    arrays = sample.arrays() | sample.token_arrays
    assert {name: values.tolist() for name, values in arrays.items()} == {
        "response_token_ids": [6.0, 7.0, 8.0], "rollout_logprobs": [-0.1, -0.2, 0.0],
        "logprobs": [-0.15, -0.25, -0.9], "loss_mask": [1.0, 1.0, 0.0],
        "teacher_logprobs": [-0.3, -0.2, 0.0], "model_steps": [2, 2, 3],
    }  # fmt: skip


def test_open_instructs_own_files_give_the_batch() -> None:
    """The last response was empty; open-instruct ends it with a token whose logprob is NaN."""
    with read(UPSTREAM / "open-instruct-e6c3044aa") as run:
        assert run.errors.empty
        assert run.unread.empty
        frame = run.samples()
        samples = [run.sample(uid) for uid in frame["uid"]]
    columns = ["step", "group", "reward", "finish_reason"]
    assert frame[columns].values.tolist() == [
        [step, group, reward, reason] for step in (1, 2) for group, reward, _, reason, *_ in TRACES
    ]
    assert frame["advantage"].tolist() == pytest.approx([trace[2] for trace in TRACES] * 2)
    for sample, (*_, response, logprobs) in zip(samples, TRACES * 2, strict=True):
        arrays = sample.arrays()
        assert "".join(chr(int(number)) for number in arrays["response_token_ids"]) == response
        assert arrays["rollout_logprobs"].tolist() == pytest.approx(logprobs, nan_ok=True)
    prompts = ["".join(map(chr, sample.extra["prompt_tokens"])) for sample in samples[1:3]]
    assert prompts == ["2 + 2 等于几？ 🙂", "Name a moon."]
    assert frame["tools/num_calls"].tolist() == [1.0, 0.0, 0.0, 0.0] * 2
    assert frame["tools/tool_errors"].tolist() == ["", "", "timeout after 5 s", ""] * 2


@pytest.mark.case("open-instruct", "data sets")
def test_open_instructs_ground_truths_are_those_of_each_verifier() -> None:
    with read(UPSTREAM / "open-instruct-e6c3044aa") as run:
        frame = run.samples()
        one, _, two, _ = (run.sample(uid) for uid in frame["uid"][:4])
    assert (one.ground_truth, one.extra["dataset"]) == ("4", "gsm8k")
    assert two.ground_truth == '{"rubric": "月"}\nTitan'
    assert frame["dataset"].tolist() == ["gsm8k", "gsm8k", *["rubrics, string_matcher"] * 2] * 2


@pytest.mark.parametrize(
    ("logged", "truth", "ids"), [([4], None, [4]), ("4", "4", None), ([], None, None), (None, None, None)]
)
def test_open_instructs_ground_truth_may_be_ids_or_a_text(
    tmp_path: Path, logged: Any, truth: str | None, ids: list[int] | None
) -> None:
    append(tmp_path / "run1_rollouts_000000.jsonl", lines(TRACE | {"ground_truth": logged}))
    with read(tmp_path) as run:
        sample = run.sample(run.samples()["uid"][0])
    assert (sample.ground_truth, sample.extra.get("ground_truth_token_ids")) == (truth, ids)
    assert sample.extra["dataset"] == "gsm8k"


# -- native variants -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "rank", "split"),
    [
        ("data_rank3.jsonl", 3, None),
        ("rollout_data_rank_2_4711.jsonl", 2, None),
        ("rollout_data_rank0.jsonl", 0, None),
        ("rollout_data_rank_1_val20.jsonl", 1, "eval"),
    ],
)
def test_the_names_of_native_files_tell_rank_and_split(
    tmp_path: Path, name: str, rank: int, split: str | None
) -> None:
    folder = tmp_path / "project" / "experiment"
    folder.mkdir(parents=True)
    append(folder / name, line(1, drop=["rank"]))
    with read(tmp_path) as run:
        sample = run.sample(run.samples()["uid"][0])
    assert (run.name, sample.rank, sample.split) == ("experiment", rank, split)


def test_values_that_a_trainer_without_a_critic_fills_with_zeros_make_no_column(tmp_path: Path) -> None:
    tokens = {"response_tokens": ["a", "b"], "logprobs": [-1, -2], "ref_logprobs": [-1, -1]}
    append(tmp_path / "x.jsonl", line(1, **tokens, values=[0.0, 0.0], token_rewards=[0.0, 0.0]))
    with read(tmp_path) as run:
        filled = set(run.snapshot.numbers)
        zeros = run.sample(run.samples()["uid"][0]).values
    append(tmp_path / "x.jsonl", line(1, **tokens, values=[0.5, 0.0], token_rewards=[0.0, 0.0]))
    with read(tmp_path) as run:
        told = set(run.snapshot.numbers) - filled
    assert zeros is not None
    assert zeros.tolist() == [0.0, 0.0]
    assert told


# -- bad input, mixed and unknown folders --------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "good", "bad", "reason"),
    [
        ("1.jsonl", json.loads(verl(1, 1.0)), {"score": 1.0}, "neither 'input' nor 'output'"),
        ("1.jsonl", json.loads(verl(1, 1.0)), {"input": "p", "step": "x"}, "'step' is not an integer: 'x'"),
        ("train_data_step1.jsonl", nemo(), {"rewards": [1.0], "idx": 0}, "no 'content' and no tokens"),
        ("train_data_step1.jsonl", nemo(), nemo(content=[3]), "'content' is not a list of messages"),
        (
            "train_data_step1.jsonl",
            nemo(),
            nemo(token_ids=[[1, 2]]),
            "token arrays cannot be read: 'token_ids' has 2 values, 'token_loss_mask' 6",
        ),
        (
            "completions.jsonl",
            SWIFT,
            {**SWIFT, "solution": ["x"]},
            "lists of unequal length: 'step' 3, 'prompt' 3, 'completion' 3, 'format' 3, 'accuracy' 3, "
            "'advantages' 3",
        ),
        ("completions.jsonl", SWIFT, {**SWIFT, "solution": "x"}, "'solution' is not a list, unlike"),
        (
            "completions.jsonl",
            SWIFT,
            {"step": [1] * 65_536, "prompt": ["p"] * 65_536},
            "65,536 samples in one line; the limit is 65,535",
        ),
        ("completions.jsonl", SWIFT, {"prompt": ["p"]}, "no 'step', 'gen_step' or 'global_step'"),
        ("r_rollouts_000000.jsonl", TRACE, {"step": 1, "prompt_tokens": [1]}, "no 'response_tokens'"),
    ],
)  # fmt: skip
def test_a_bad_line_is_kept_with_its_reason_and_hides_no_good_one(
    tmp_path: Path, name: str, good: dict[str, Any], bad: dict[str, Any], reason: str
) -> None:
    later = {**good, "step": ["4"] * 3} if good is SWIFT else good
    append(tmp_path / name, lines(good, bad, later))
    with read(tmp_path) as run:
        errors, rows = run.errors, run.stats().rows
    assert errors[["file", "line"]].values.tolist() == [[name, 2]]
    assert errors["reason"][0].startswith(reason)
    assert rows == 2 * (3 if good is SWIFT else 1)


def test_a_mixed_folder_gives_the_rollouts_alone(tmp_path: Path) -> None:
    write_run(tmp_path, steps=1, samples=2)
    append(tmp_path / "scalars.jsonl", lines({"step": 1, "loss": 0.5}))
    append(tmp_path / "metrics.jsonl", lines({"step": 1, "time": 0.0, "reward": 1.0}))
    (tmp_path / "run.json").write_text('{"algo": "grpo", "step": 1, "prompt": ""}')
    for folder in ("checkpoint-10", ".rlpanel", "global_step_10"):
        (tmp_path / folder).mkdir()
        append(tmp_path / folder / "state.jsonl", lines({"step": 1, "state": [1, 2]}))
    with read(tmp_path) as run:
        assert (run.snapshot.files, run.stats().bad_lines) == (("rollout_data_rank_0.jsonl",), 0)
