"""Texts that a policy wrote, as their surroundings show, and numbers beside them that are not the reward."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rlpanel import open_run
from rlpanel.errors import RLPanelError
from rlpanel.sources.inference.infer import infer, infer_document


def test_predictions_beside_a_label_are_responses() -> None:
    records = [
        {"prompt": f"user: what is {at} plus 1?", "predict": f"It is {at + 1}.", "label": str(at + 1)}
        for at in range(3)
    ]
    found = infer(records, "out.jsonl")
    assert found.is_run
    assert found.keys == {"prompt": "prompt", "response": "predict", "ground_truth": "label"}


def test_several_predictions_of_a_task_are_its_samples() -> None:
    records = [
        {"task_id": f"tree-{at}", "solution_code": "pass", "predict": [f"x = {at}"] * 4} for at in range(3)
    ]
    found = infer(records, "out.json")
    assert found.is_run
    assert (found.keys["response"], found.keys["group"]) == ("predict", "task_id")


@pytest.mark.parametrize(("name", "is_run"), [("mbpp_gens.json", True), ("legends.json", False)])
def test_lists_of_texts_are_responses_in_a_file_called_gens(tmp_path: Path, name: str, is_run: bool) -> None:
    texts = [["return 1 + 1", "return 2"], ["return 3", "return 1 + 2"]]
    (tmp_path / name).write_text(json.dumps(texts), encoding="utf-8")
    if not is_run:
        with pytest.raises(RLPanelError, match="holds no rollouts"):
            open_run(tmp_path, follow=False, jobs=0)
        return
    with open_run(tmp_path, follow=False, jobs=0) as run:
        assert list(run.samples(text=True)["response"]) == [each for pair in texts for each in pair]


def _solved(verdicts: list[bool | None], digits: int) -> list[dict[str, Any]]:
    """Return records with a verdict, which some lack, and the share of solved tasks so far."""
    records = []
    for at, verdict in enumerate(verdicts):
        share = round(sum(each is not False for each in verdicts[: at + 1]) / (at + 1), digits)
        record = {"prompt": f"Write function {at}.", "solution": f"return {at}", "acc": share}
        records.append(record if verdict is None else record | {"is_solved": verdict})
    return records


@pytest.mark.parametrize("digits", [2, 15])
def test_the_mean_of_the_verdicts_so_far_is_not_the_reward(digits: int) -> None:
    found = infer(_solved([True, True, False, None, True, False, True, True], digits))
    assert found.is_run
    assert found.keys["reward"] == "is_solved"
    assert "acc is not the reward: it is the mean of is_solved so far" in found.sentence()


def test_other_shares_beside_a_verdict_are_no_mean_of_it() -> None:
    records = _solved([True, True, False, None, True, False, True, True], 15)
    for record, share in zip(records, (0.5, 0.25, 1.0, 0.0, 0.75, 0.5, 0.1, 0.9), strict=True):
        record["acc"] = share
    found = infer(records)
    assert dict(found.guesses[2].others).keys() == {"acc"}
    assert found.doubts == ()


def _chosen(responses: list[str]) -> list[dict[str, Any]]:
    return [
        {"id": f"q{at}", "answer": "B", "options": {"A": "a canal", "B": "the sea"}, "response": text}
        for at, text in enumerate(responses)
    ]


def test_answers_that_miss_the_right_choice_are_a_policys() -> None:
    found = infer(_chosen(["It is the sea.", "(A) a canal", "B"]), "out.json")
    assert found.is_run
    assert (found.keys["response"], found.keys["ground_truth"]) == ("response", "answer")
    assert not infer(_chosen(["It is the sea.", "B, not the other", "(B)"]), "out.json").is_run


def test_several_right_answers_are_no_choice() -> None:
    records = [each | {"answer": ["A", "B"]} for each in _chosen(["A", "no"])]
    assert infer(records, "out.json").keys["ground_truth"] == "answer"


def test_answers_without_choices_are_not_known_to_be_a_policys() -> None:
    records = [{key: each[key] for key in ("id", "answer", "response")} for each in _chosen(["A", "no"])]
    assert not infer(records, "out.json").is_run


_STEPS = [
    {"thought": "I look up the tower.", "action": "search[tower]", "observation": "It is 90 m tall."},
    {"thought": "Now I know it.", "action": "finish[90 m]", "observation": "done"},
]


def test_steps_below_their_question_are_an_episode(tmp_path: Path) -> None:
    lines = [json.dumps({f"How tall is tower {at}?": _STEPS[: at + 1]}) for at in range(2)]
    (tmp_path / "log.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with open_run(tmp_path, follow=False, jobs=0) as run:
        rows = run.samples(text=True)
        talk = [(each["role"], each["content"]) for each in run.sample(rows["uid"][1]).messages]
    assert talk == [
        ("user", "How tall is tower 1?"),
        ("assistant", "search[tower]"),
        ("environment", "It is 90 m tall."),
        ("assistant", "finish[90 m]"),
        ("environment", "done"),
    ]


def test_actions_without_thoughts_are_not_known_to_be_a_policys() -> None:
    steps = [{key: step[key] for key in ("action", "observation")} for step in _STEPS]
    assert not infer([{f"How tall is tower {at}?": steps} for at in range(2)], "log.jsonl").is_run


def test_lines_that_name_their_speaker_are_one_conversation(tmp_path: Path) -> None:
    record = {
        "log": [
            "Test (12:30:01): Order a drink.",
            "Agent (12:30:02): Tea, please.",
            "Test: And to eat?",
            "Agent: Soup: the red one.",
        ],
        "actual_responses": ["Tea, please.", "Soup: the red one."],
        "score": 0.5,
    }
    (tmp_path / "case.json").write_text(json.dumps(record), encoding="utf-8")
    with open_run(tmp_path, follow=False, jobs=0) as run:
        rows = run.samples(text=True)
        talk = [(each["role"], each["content"]) for each in run.sample(rows["uid"][0]).messages]
    assert list(rows["reward"]) == [0.5]
    assert talk == [
        ("user", "Order a drink."),
        ("assistant", "Tea, please."),
        ("user", "And to eat?"),
        ("assistant", "Soup: the red one."),
    ]


@pytest.mark.parametrize(
    "lines",
    [
        ["Test: Order a drink.", "Tea, please.", "Agent: Soup."],
        ["Note: see below", "Warning: late", "Note: done"],
        ["Test: Order.", "Agent: Tea, please."],
    ],
)
def test_lines_without_a_speaker_or_a_policy_are_not(lines: list[str]) -> None:
    found = infer([{"log": lines, "responses": ["Tea, please."], "score": 0.5}])
    assert "talk" not in found.keys.values()


def _by_id(answer: dict[str, Any]) -> dict[str, Any]:
    return {
        f"{at}10": {"query": f"Find flight number {at} for me.", "tools": [{"name": "f"}], "result": answer}
        for at in range(3)
    }


def test_a_final_answer_whose_steps_are_counted_is_a_response() -> None:
    found = infer_document(_by_id({"total_steps": 4, "final_answer": "It leaves at noon."}), "set.json")
    assert found is not None
    assert found.is_run
    assert found.keys == {"prompt": "*.query", "response": "*.result.final_answer"}


def test_texts_by_id_are_proposed_for_all_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = {
        f"{at}1": {"query": f"Find flight {at} for me.", "answer_steps": f"Look, then buy {at}."}
        for at in range(3)
    }
    (tmp_path / "set.json").write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(RLPanelError, match=r"--map 'prompt=\*.query,response=\*.answer_steps,step=0'"):
        open_run(tmp_path, follow=False, jobs=0)
    monkeypatch.setenv("RLPANEL_MAP", "prompt=*.query,response=*.answer_steps,step=0")
    with open_run(tmp_path, follow=False, jobs=0) as run:
        assert list(run.samples(text=True)["response"]) == [
            each["answer_steps"] for each in document.values()
        ]


def test_the_policys_of_two_conversations_is_known_by_its_key() -> None:
    talk = [{"role": "user", "content": "Move it?"}, {"role": "assistant", "content": "Moved."}]
    other = [{"role": "user", "content": "Ask to move."}, {"role": "assistant", "content": "Move it?"}]
    records = [
        {"run": {"assistant_context": talk, "caller_context": other}, "eval": {"score": at / 2}}
        for at in range(3)
    ]
    found = infer(records)
    assert found.is_run
    assert found.keys == {"messages": "run.assistant_context", "reward": "eval.score"}


def test_how_sure_a_model_is_is_not_the_reward() -> None:
    records = [{"item": at, "full_response": f"text {at}", "model_confidence": at / 4} for at in range(3)]
    assert "reward" not in infer(records).keys


def test_a_text_sampled_with_settings_is_a_response_whatever_its_name() -> None:
    records = [
        {
            "model": "chat/gpt-4-0613",
            "temperature": 0.1,
            "query": f"Is {at} happy?",
            "answer": f"Yes, {at} is.",
        }
        | {"ref_answer": "[No]", "latency": 2.5}
        for at in range(3)
    ]
    found = infer(records, "all.csv")
    assert found.is_run
    assert found.keys == {"prompt": "query", "response": "answer", "ground_truth": "ref_answer"}
    for each in records:
        del each["temperature"]
    assert not infer(records, "all.csv").is_run


def test_a_text_beside_the_tokens_of_its_completion_is_a_response() -> None:
    records = [
        {"document_text": f"I like {at} towers.", "rewrite_text": f"Towers, {at} of them, are liked."}
        for at in range(3)
    ]
    assert not infer(records, "rewrites.csv").is_run
    found = infer([each | {"rewrite_completion_tokens": 12} for each in records], "rewrites.csv")
    assert found.is_run
    assert (found.keys["prompt"], found.keys["response"]) == ("document_text", "rewrite_text")


def test_a_response_beside_what_was_taken_out_of_it_is_a_policys() -> None:
    records = [{"id": at, "response": f"Step 1 is right, step {at} is not."} for at in range(3)]
    assert not infer(records, "out.json").is_run
    found = infer([each | {"error_step_pred": "2"} for each in records], "out.json")
    assert found.is_run
    assert found.keys["response"] == "response"


def test_code_and_the_text_around_it_are_one_reading() -> None:
    records = [
        {"prompt": "Add.", "completion": f"return {at}\n", "raw_completion": f"Here: `return {at}`"}
        for at in range(3)
    ]
    found = infer(records, "gpt_4.jsonl")
    assert found.is_run
    assert found.keys["response"] == "completion"
    assert found.doubts == ("the response is also in raw_completion, with another text around it",)
    records[1]["raw_completion"] = "Something else."
    assert set(infer(records, "gpt_4.jsonl").equal_keys) == {"completion", "raw_completion"}


@pytest.mark.parametrize(("results", "is_run"), [([True, 0, False], True), ([3, 1, 2], False)])
def test_truths_under_result_are_the_verdict_of_a_trajectory(results: list[Any], is_run: bool) -> None:
    records = [
        {"name": f"trial_{at}", "result": result, "traj": f"> go to shelf {at}\nYou are there."}
        for at, result in enumerate(results)
    ]
    found = infer(records, "D0.jsonl")
    assert found.is_run is is_run
    assert ("reward" in found.keys) is is_run


def test_a_prompt_that_a_model_generated_from_another_is_its_response() -> None:
    records = [
        {"original_prompt": f"Open door {at}.", "generated_prompt": f"In a play, open door {at}."}
        | {"model": "deepseek-chat"}
        for at in range(3)
    ]
    found = infer(records, "out.jsonl")
    assert found.is_run
    assert found.keys == {"prompt": "original_prompt", "response": "generated_prompt"}


def test_labels_errors_and_short_texts_beside_long_ones_are_not_proposed() -> None:
    asked = {"question": "Which of these three is true?", "options": ["A) yes", "B) no"], "answer": "A"}
    assert infer([asked | {"programs": ["Yes(x)"]}] * 3).likely == ""
    judged = {"topic": "Towers are tall", "trained_score": 7.5, "error": "it was much too long for this"}
    assert infer([judged]).likely == "topic"
    assert infer([judged | {"speeches": {"first": "Towers are tall. " * 9}}]).likely == ""


def test_a_mapped_verdict_is_the_same_number_as_an_inferred_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdicts = ["correct", "Wrong", "pass", "0.5"]
    lines = [json.dumps({"q": f"Is {at}?", "a": f"{at} is.", "v": each}) for at, each in enumerate(verdicts)]
    (tmp_path / "log.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    monkeypatch.setenv("RLPANEL_MAP", "prompt=q,response=a,reward=v,step=0")
    with open_run(tmp_path, follow=False, jobs=0) as run:
        assert list(run.samples(text=True)["reward"]) == [1.0, 0.0, 1.0, 0.5]
