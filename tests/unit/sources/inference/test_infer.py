"""Tests of `infer`: which key holds which field, and which files hold rollouts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rlpanel
from rlpanel.settings import Reading
from rlpanel.sources.adapters.key_mapping import parse_mapping
from rlpanel.sources.discovery.directory import Directory
from rlpanel.sources.inference.infer import infer
from tests.factories import append

CHAT = [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}]

#: Kind of file → records, and the keys that hold fields under another name.
ROLLOUTS: dict[str, tuple[list[dict[str, Any]], dict[str, str]]] = {
    "human-eval": (
        [
            {"task_id": f"HumanEval/{i // 2}", "completion": "    return x", "passed": i % 2 == 0}
            for i in range(6)
        ],
        {"response": "completion", "reward": "passed", "group": "task_id"},
    ),
    "human-eval without results": (
        [{"task_id": f"HumanEval/{i}", "completion": "    return x"} for i in range(6)],
        {"response": "completion", "group": "task_id"},
    ),
    "an answer beside the completion is the ground truth": (
        [{"prompt": "q", "completion": "a", "answer": "4", "reward": float(i)} for i in range(2)],
        {"response": "completion", "ground_truth": "answer"},
    ),
    "Qwen's evaluation of mathematics": (
        [
            {"question": "q", "gt": "4", "answer": "4", "code": ["So 4"], "pred": ["4"], "score": [i == 1]}
            for i in (0, 1)
        ],
        {"prompt": "question", "response": "code", "ground_truth": "gt", "reward": "score"},
    ),
    "alpaca_eval": (
        [{"dataset": "selfinstruct", "instruction": "Write.", "output": "Done.", "generator": "gpt4"}] * 3,
        {"prompt": "instruction", "response": "output"},
    ),
    "usage of tokens beside a reward": (
        [
            {"prompt": "q", "completion": "c", "reward": i, "metrics": {"total_tokens": 3, "num_turns": i}}
            for i in (0, 1)
        ],
        {"response": "completion"},
    ),
    "nested keys": (
        [
            {"attributes": {"step": i // 2}, "prompt": "q", "completion": "c", "score": {"value": i % 2}}
            for i in range(6)
        ],
        {"response": "completion", "reward": "score.value", "step": "attributes.step"},
    ),
    "OpenAI's choices": (
        [
            {"prompt": "q", "choices": [{"message": {"role": "assistant", "content": "a"}}], "reward": i}
            for i in (0, 1)
        ],
        {"response": "choices.0.message.content"},
    ),
    "a line per group": (
        [{"prompt": "q", "completions": ["a", "b", "c"], "rewards": [1, 0, 1]}] * 3,
        {"response": "completions", "reward": "rewards", "group": "prompt"},
    ),
    "nested samples": (
        [{"question": "q", "completions": [{"text": "a", "score": 1}, {"text": "b", "score": 0}]}] * 3,
        {"prompt": "question", "response": "completions.*.text", "reward": "completions.*.score"}
        | {"group": "question"},
    ),
    "texts of an unknown name with as many rewards": (
        [{"idx": i, "ys": ["a", "b"], "accs": [True, False]} for i in range(3)],
        {"response": "ys", "reward": "accs", "group": "idx"},
    ),
    "steps of an environment": (
        [{"steps": [{"obs": "o", "action": {"tool": "t"}}], "reward": i} for i in (0, 1)],
        {"messages": "steps"},
    ),
    "a verdict": (
        [{"question": "q", "response": "a", "verified": each} for each in ("pass", "fail")],
        {"prompt": "question", "reward": "verified"},
    ),
    "an object's only key": (
        [{"sample_id": i, "submissions": {"accuracy": f"a{i}"}, "reward": {"score": i}} for i in (0, 1)],
        {"response": "submissions.accuracy", "reward": "reward.score"},
    ),
    "a reward as an object": (
        [{"prompt": "q", "response": "a", "reward": {"score": float(i), "pred": "4"}} for i in (0, 1)],
        {"reward": "reward.score"},
    ),
    "a reward of an unknown name": (
        [{"question": "q", "completion": "a", "rwd": i % 2} for i in range(6)],
        {"prompt": "question", "response": "completion", "reward": "rwd"},
    ),
    "lm-evaluation-harness": (
        [
            {"doc": {"question": "q", "answer": "4"}, "target": "4", "resps": [["So 4"]], "exact_match": i}
            for i in (0.0, 1.0)
        ],
        {
            "prompt": "doc.question",
            "response": "resps.0.0",
            "reward": "exact_match",
            "ground_truth": "target",
        },
    ),
    "an episode in columns": (
        [
            {
                "query": f"count {i}",
                "turn_history": {"actions": ["ls", "wc"], "observations": ["a", "2"], "rewards": [0, 0.5]},
                "summary": {"max_reward": i / 4, "max_reward_idx": 1},
            }
            for i in (0, 1, 2)
        ],
        {"prompt": "query", "messages": "turn_history", "reward": "summary.max_reward"},
    ),
    "a task's points beside a model's score": (
        [
            {"question": f"q{i}", "answer": "a", "score": 15, "model_output": "m", "model_score": i}
            for i in range(4)
        ],
        {"prompt": "question", "response": "model_output", "reward": "model_score", "ground_truth": "answer"},
    ),
    "a chain of reasoning beside a ground truth": (
        [
            {
                "question": "q",
                "reasoning_chain": "first",
                "answer": "yes",
                "gt_cot": "none",
                "human_label": i % 2,
            }
            for i in range(4)
        ],
        {
            "prompt": "question",
            "response": "reasoning_chain",
            "ground_truth": "answer",
            "reward": "human_label",
        },
    ),
    "lists in the key's name": (
        [{"question_content": "q", "output_list": ["a"], "graded_list": [True]} for _ in range(3)],
        {"prompt": "question_content", "response": "output_list", "reward": "graded_list"},
    ),
    "several responses to each task": (
        [{"idx": i, "question": "q", "code": ["a", "b"], "score": [True, False]} for i in range(3)],
        {"prompt": "question", "response": "code", "reward": "score", "group": "idx"},
    ),
    "the results of a batch of requests": (
        [
            {
                "custom_id": f"{i}",
                "response": {
                    "status_code": 200,
                    "body": {
                        "choices": [
                            {"message": {"role": "assistant", "content": "a"}, "finish_reason": "stop"}
                        ],
                        "usage": {"completion_tokens": 1},
                    },
                },
            }
            for i in range(3)
        ],
        {
            "response": "response.body.choices.0.message.content",
            "finish_reason": "response.body.choices.0.finish_reason",
        },
    ),
    "rollouts of a search in a list": (
        [
            {"question": f"q{i}", "rollouts": [{"text": "a", "value": 0.1}, {"text": "b"}], "answer": "4"}
            for i in range(3)
        ],
        {"prompt": "question", "response": "rollouts.*.text", "ground_truth": "answer", "group": "question"},
    ),
    "details of lighteval": (
        [
            {
                "doc": {"query": f"q{i}"},
                "model_response": {"text": ["a"]},
                "metric": {"extractive_match": float(i % 2)},
            }
            for i in range(4)
        ],
        {
            "prompt": "doc.query",
            "response": "model_response.text",
            "reward": "metric.extractive_match",
            "rewards": "metric",
        },
    ),
    "messages of LangGraph": (
        [
            {
                "run_id": f"{i}",
                "messages": [{"type": "human", "content": "q"}, {"type": "ai", "content": "a"}],
                "score": i % 2,
            }
            for i in range(4)
        ],
        {"reward": "score"},
    ),
    "contents of Gemini": (
        [
            {
                "contents": [
                    {"role": "user", "parts": [{"text": "q"}]},
                    {"role": "model", "parts": [{"text": "a"}]},
                ],
                "reward": i,
            }
            for i in (0, 1)
        ],
        {"messages": "contents"},
    ),
    "a chat with a reward": (
        [{"conversation": CHAT, "outcome": i} for i in (0, 1)],
        {"messages": "conversation", "reward": "outcome"},
    ),
}


@pytest.mark.parametrize("kind", ROLLOUTS)
def test_keys_are_inferred(kind: str) -> None:
    records, expected = ROLLOUTS[kind]
    inference = infer(records, "results.jsonl")
    assert inference.is_run
    assert {name: key for name, key in inference.keys.items() if name != key} == expected
    assert inference.count == len(records)


DATA_SETS: dict[str, list[dict[str, Any]]] = {
    "alpaca": [{"instruction": "Write.", "input": "", "output": "Done."}] * 5,
    "GSM8K": [{"question": "2 + 2?", "answer": "4"}] * 5,
    "MATH": [{"problem": "2 + 2?", "solution": "4", "level": 3, "type": "Algebra"}] * 5,
    "HumanEval": [{"task_id": "HumanEval/0", "prompt": "def f():", "canonical_solution": "1", "test": "t"}]
    * 3,
    "MBPP": [{"task_id": 11, "text": "Write.", "code": "def f(): ...", "test_list": ["assert f()"]}] * 3,
    "TRL's prompts and completions": [{"prompt": "q", "completion": "a"}] * 5,
    "TRL's preferences": [{"prompt": "q", "chosen": "a", "rejected": "b"}] * 5,
    "a chat": [{"messages": CHAT}] * 5,
    "ShareGPT": [{"id": i, "conversations": [{"from": "human", "value": "q"}]} for i in range(5)],
    "reviews": [{"title": "Good", "text": "I like it.", "rating": i} for i in (4, 5)],
    "tests": [{"task": "build", "result": "done", "success": i == 1} for i in (0, 1)],
    "a package": [{"name": "left-pad", "version": "1.0.0", "scripts": {"test": "x"}, "dependencies": {}}],
    "annotations": [
        {"id": i, "image_id": 7, "category_id": 1, "bbox": [1, 2, 3, 4], "score": 0.5} for i in (0, 1)
    ],
    "metrics": [{"step": i, "loss": 0.5, "reward": 0.1 * i} for i in range(5)],
}


@pytest.mark.parametrize("kind", DATA_SETS)
def test_other_records_are_not_opened(kind: str) -> None:
    inference = infer(DATA_SETS[kind], "train.jsonl")
    assert not inference.is_run
    assert not inference.equal


def test_two_rewards_that_are_about_equal_are_not_opened() -> None:
    records = [{"prompt": "q", "response": "a", "passed": i % 2, "correct": i % 3} for i in range(6)]
    inference = infer(records, "results.jsonl")
    assert inference.equal
    assert set(inference.equal_keys) == {"passed", "correct"}
    assert not inference.is_run


def test_step_is_from_the_line_then_from_the_path_then_constant() -> None:
    records = [{"prompt": "q", "completion": "a", "reward": i} for i in (0, 1)]
    assert infer(records, "results.jsonl").step == 0
    assert "step" in infer(records, "results.jsonl").missing
    assert infer(records, "samples_step_12.jsonl").step == 12
    assert "step" not in infer(records, "samples_step_12.jsonl").missing
    logged = infer([record | {"global_step": 3} for record in records], "samples_step_12.jsonl")
    assert (logged.step, logged.keys["step"]) == (None, "global_step")


def test_a_turn_of_an_episode_is_not_the_step() -> None:
    records = [
        {"episode": i // 3, "step": i % 3, "obs": "o", "response": "a", "reward": i % 2} for i in range(9)
    ]
    assert "step" not in infer(records, "rl_steps.jsonl").keys


def test_adapter_reads_what_was_inferred() -> None:
    records, _ = ROLLOUTS["a line per group"]
    adapter = infer(records, "results.jsonl").adapter()
    samples = adapter.read(records[0], "results.jsonl", full=True)
    assert [sample.texts["response"] for sample in samples] == ["a", "b", "c"]
    assert [sample.numbers["reward"] for sample in samples] == [1.0, 0.0, 1.0]
    assert {(sample.step, sample.texts["prompt"]) for sample in samples} == {(0, "q")}


def test_a_guess_gives_its_reason_and_says_what_was_guessed() -> None:
    records, _ = ROLLOUTS["nested keys"]
    inference = infer([*records[:5], {"prompt": "q", "completion": "c"}], "results.jsonl")
    reward = next(guess for guess in inference.guesses if guess.meaning == "reward")
    assert reward.sentence.startswith("reward ← score.value, 83 % of the records are numbers")
    assert inference.sentence().startswith("fields were guessed: response ← completion, reward ← score.value")
    assert 0.5 < inference.confidence < 1


def test_an_answer_beside_a_question_alone_is_the_ground_truth() -> None:
    inference = infer(DATA_SETS["GSM8K"], "train.jsonl")
    assert inference.keys == {"prompt": "question", "ground_truth": "answer"}
    assert inference.problem == "no key holds a response"


def test_an_answer_that_was_scored_is_the_response() -> None:
    inference = infer([{"question": "2 + 2?", "answer": "4", "score": i} for i in (0, 1)], "results.jsonl")
    assert inference.is_run
    assert inference.keys == {"prompt": "question", "response": "answer", "reward": "score"}


def test_the_users_keys_come_first_and_the_rest_is_inferred() -> None:
    records = [{"question": "q", "output": "a", "prediction": "b", "score": i} for i in (0, 1)]
    assert infer(records, "results.jsonl").equal
    inference = infer(records, "results.jsonl", parse_mapping("response=prediction"))
    assert inference.is_run
    assert inference.keys == {"prompt": "question", "response": "prediction", "reward": "score"}


def test_the_same_keys_in_another_order_give_the_same_adapter() -> None:
    records = [{"task_id": i, "completion": "a", "passed": i % 2} for i in range(4)]
    turned = [dict(reversed(record.items())) for record in records]
    assert infer(records).adapter().name == infer(turned).adapter().name


def test_files_of_a_run_agree_on_one_inference(tmp_path: Path) -> None:
    """The ids of the last file do not repeat yet, and its only reward is null."""
    for number in range(3):
        put = [{"prompt": "q", "idx": i // 2, "completion": "a", "score": float(i)} for i in range(4)]
        append(tmp_path / f"part-{number}.jsonl", *(json.dumps(each).encode() + b"\n" for each in put))
    append(tmp_path / "part-3.jsonl", b'{"prompt": "q", "idx": 9, "completion": "a", "score": 1.0}\n')
    files = Directory(tmp_path, Reading()).files(tmp_path)
    assert len({file.adapter.name for file in files}) == 1
    assert "group=idx" in files[0].adapter.name


def test_twenty_records_decide_however_the_file_grows(tmp_path: Path) -> None:
    directory, path = Directory(tmp_path, Reading()), tmp_path / "log.jsonl"
    append(path, b'{"prompt": "q", "completion": "a", "reward": null}\n')
    assert directory.runs() == []
    append(path, *[b'{"prompt": "q", "completion": "a", "reward": 0.5}\n'] * 20)
    (before,) = directory.files(tmp_path)
    append(path, *[b'{"prompt": "q", "completion": "a", "reward": 0.5, "response": "b", "step": 3}\n'] * 40)
    (after,) = directory.files(tmp_path)
    assert after.adapter.name == before.adapter.name
    assert before.adapter.name == "inferred: map prompt=prompt,response=completion,reward=reward,step:0"


@pytest.mark.parametrize(
    ("name", "records"),
    [
        ("generations.jsonl", [{"input": "q", "output": "a"}] * 3),
        ("trajectories.jsonl", [{"task": "t", "conversation": CHAT}] * 3),
    ],
)
def test_the_name_of_a_file_may_say_that_a_policy_wrote_it(name: str, records: list[dict[str, Any]]) -> None:
    assert infer(records, f"results/{name}").is_run
    assert not infer(records, "results/train.jsonl").is_run


def test_a_response_of_another_name_beside_rlpanels_prompt_and_step_is_read(tmp_path: Path) -> None:
    line = b'{"step": 3, "prompt": "q", "completion": "a", "correctness_reward": 0.5}\n'
    append(tmp_path / "log.jsonl", line)
    with rlpanel.open_run(tmp_path, follow=False) as run:
        shown = run.samples(text=True)
        assert shown[["step", "prompt", "response", "reward"]].values.tolist() == [[3, "q", "a", 0.5]]


def test_a_system_prompt_is_not_the_prompt_and_a_last_answer_not_the_response_of_a_conversation() -> None:
    records = [{"system_prompt": "s", "user_prompt": "q", "completion": "a", "reward": i} for i in (0, 1)]
    assert infer(records).keys["prompt"] == "user_prompt"
    records = [{"turns": CHAT, "final_response": "4", "reward": i} for i in (0, 1)]
    assert infer(records).keys == {"messages": "turns", "reward": "reward"}


ONE = {"question": "q", "response": "a", "score": 1.0}
#: Documents whose samples are not the items of one list, and the responses and rewards that they hold.
DOCUMENTS = {
    "objects by index": ({"0": ONE, "1": ONE | {"response": "b"}}, ["a", "b"]),
    "lists by task": ({"eval": {"t/0": [ONE, ONE], "t/1": [ONE]}, "date": "d"}, ["a", "a", "a"]),
    "lists below objects": (
        {"x": {"results": [ONE]}, "y": {"results": [ONE | {"response": "b"}]}},
        ["a", "b"],
    ),
    "columns by row": ({key: {"0": value, "1": value} for key, value in ONE.items()}, ["a", "a"]),
    "groups by index": (
        {str(i): {"question": "q", "completions": ["a", "b"], "scores": [1.0, 1.0]} for i in range(2)},
        ["a", "b", "a", "b"],
    ),
}


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_a_document_of_objects_holds_samples(kind: str, tmp_path: Path) -> None:
    document, responses = DOCUMENTS[kind]
    (tmp_path / "results.json").write_text(json.dumps(document))
    with rlpanel.open_run(tmp_path, follow=False) as run:
        shown = run.samples(text=True)
    assert shown["response"].tolist() == responses
    assert shown["prompt"].tolist() == ["q"] * len(responses)
    assert shown["reward"].tolist() == [1.0] * len(responses)


def test_the_steps_of_an_episode_are_its_messages(tmp_path: Path) -> None:
    steps = [{"thought": "think", "action": {"tool": "get"}, "observation": "seen", "reward": 0.5}]
    (tmp_path / "trajectories.jsonl").write_text(
        json.dumps({"instruction": "do", "steps": steps, "total_reward": 1.0})
    )
    with rlpanel.open_run(tmp_path, follow=False) as run:
        sample = run.sample(run.samples()["uid"][0])
    assert [(each["role"], each["content"]) for each in sample.messages] == [
        ("user", "do"), ("assistant", '{"tool": "get"}'), ("environment", "seen"),
    ]  # fmt: skip
    assert sample.messages[1]["reasoning_content"] == "think"


def test_a_verdict_is_a_reward(tmp_path: Path) -> None:
    lines = [{"question": "q", "response": "a", "verified": each} for each in ("pass", "fail")]
    (tmp_path / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert run.samples()["reward"].tolist() == [1.0, 0.0]
