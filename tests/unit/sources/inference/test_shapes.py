"""Shapes of records that several programs share: each is opened as a user would, without an option."""

from __future__ import annotations

import csv
import json
import time
from pathlib import Path
from typing import Any

import pytest

import rlpanel
from rlpanel.errors import RLPanelError
from rlpanel.sources.adapters.record_shapes import arrange_by_id, columns_of
from rlpanel.sources.inference.content import parallel_keys
from rlpanel.sources.inference.infer import infer, infer_document
from rlpanel.sources.readers.document_items import HEAD_BYTES


def opened(folder: Path) -> list[list[Any]]:
    """Return prompt, response and reward of each sample; None where there is none."""
    with rlpanel.open_run(folder, follow=False) as run:
        shown = run.samples(text=True).reindex(columns=["prompt", "response", "reward"])
    return shown.astype(object).where(shown.notna(), None).values.tolist()


def lines(folder: Path, records: list[dict[str, Any]], name: str = "log.jsonl") -> Path:
    (folder / name).write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder


def document(folder: Path, value: Any, name: str) -> Path:
    (folder / name).write_text(json.dumps(value))
    return folder


def test_numbered_columns_are_the_samples_of_a_prompt(tmp_path: Path) -> None:
    rows = [["question", "sample_1", "sample_2"], ["two?", "a", "b"], ["six?", "c", "d"]]
    with (tmp_path / "table.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    assert opened(tmp_path) == [
        ["two?", "a", None], ["two?", "b", None], ["six?", "c", None], ["six?", "d", None],
    ]  # fmt: skip


def test_numbered_rewards_belong_to_numbered_responses(tmp_path: Path) -> None:
    records = [
        {"prompt": f"q{at}", "response_0": "a", "response_1": "b", "reward_0": 0.25, "reward_1": 1.0}
        for at in range(2)
    ]
    found = opened(lines(tmp_path, records))
    assert found[:2] == [["q0", "a", 0.25], ["q0", "b", 1.0]]
    assert len(found) == 4


def test_columns_that_are_numbered_count_from_zero_or_one_in_the_order_of_their_numbers() -> None:
    record = {f"gen_{at}": str(at) for at in (2, 10, 0, 1, 3, 4, 5, 6, 7, 8, 9)}
    assert parallel_keys(record) == {"gen_*": [str(at) for at in range(11)]}
    assert columns_of("gen_*", record)[-1] == "gen_10"
    assert parallel_keys({"layer_4": "a", "layer_5": "b"}) == {}
    assert parallel_keys({"x1": "a", "x2": 5}) == {}


def test_columns_of_several_systems_are_samples_with_their_own_verdict(tmp_path: Path) -> None:
    records = [
        {"input_text": f"q{at}", "gold": "a", "base_output": "b", "base_correct": False}
        | {"tuned_output": "a", "tuned_correct": True}
        for at in range(3)
    ]
    assert opened(lines(tmp_path, records))[:2] == [["q0", "b", 0.0], ["q0", "a", 1.0]]


TEXTS = {f"task/{at}": [f"a{at}", f"b{at}"] for at in range(3)}
SCORES = {f"task/{at}": [0.0, 1.0] for at in range(3)}


def test_texts_by_id_are_samples_if_the_file_says_so(tmp_path: Path) -> None:
    found = opened(document(tmp_path, TEXTS, "model_generations.json"))
    assert [row[1] for row in found] == ["a0", "b0", "a1", "b1", "a2", "b2"]


def test_texts_by_id_have_the_rewards_of_the_same_ids(tmp_path: Path) -> None:
    whole = {"n": 2, "completions": TEXTS, "verdicts": dict(reversed(SCORES.items()))}
    found = opened(document(tmp_path, whole, "scored.json"))
    assert found[:2] == [[None, "a0", 0.0], [None, "b0", 1.0]]
    assert len(found) == 6


def test_questions_as_ids_are_prompts(tmp_path: Path) -> None:
    asked = {f"how many legs has animal {at}?": str(at) for at in range(4)}
    found = opened(document(tmp_path, {"predictions": asked, "generations": asked}, "results.json"))
    assert found[0][:2] == ["how many legs has animal 0?", "0"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("en.json", {f"button_{at}": f"Click here {at}" for at in range(9)}),
        ("synonyms.json", {f"word{at}": ["a", "b"] for at in range(9)}),
        ("workflow.json", {"outputs": {"image": "tag of the image", "digest": "digest of the image"}}),
    ],
)
def test_texts_by_key_of_other_programs_are_not_opened(name: str, value: Any, tmp_path: Path) -> None:
    with pytest.raises(RLPanelError, match="holds no rollouts"):
        opened(document(tmp_path, value, name))


def test_objects_with_other_ids_are_not_joined() -> None:
    arranged = arrange_by_id({"generations": TEXTS, "prices": {"x": 1, "y": 2}})
    assert arranged is not None
    assert arranged["by_id"][0] == {"id": "task/0", "generations": ["a0", "b0"]}
    assert arranged["prices"] == {"x": 1, "y": 2}


def test_objects_by_suite_model_and_task_are_samples(tmp_path: Path) -> None:
    whole: dict[str, Any] = {
        suite: {
            model: {
                f"t{at}": {"question": f"q{at}", "response": f"{suite}{model}{at}", "score": 0.5}
                for at in (1, 2)
            }
            for model in "mn"
        }
        for suite in "st"
    }
    whole["s"]["date"] = "2026-01-01"
    found = opened(document(tmp_path, whole, "judged.json"))
    assert [row[1] for row in found] == ["sm1", "sm2", "sn1", "sn2", "tm1", "tm2", "tn1", "tn2"]
    assert found[0] == ["q1", "sm1", 0.5]


def test_lists_of_responses_for_each_setting_are_samples(tmp_path: Path) -> None:
    one = {
        "prompt": "q",
        "results": [{"params": {"max_new_tokens": 9}, "outputs": [f"a{at}", "b"]} for at in (0, 1)],
    }
    found = opened(document(tmp_path, {"prompts": [one, one, one]}, "sampling_generations.json"))
    assert [row[1] for row in found[:4]] == ["a0", "b", "a1", "b"]
    assert len(found) == 12


def test_generated_texts_with_verdicts_in_a_list_of_results_are_samples(tmp_path: Path) -> None:
    tried = [{"generated_solution": text, "is_pass": text == "x"} for text in "xy"]
    records = [{"_id": str(at), "solution": "x", "run_results": tried} for at in range(3)]
    assert opened(lines(tmp_path, records))[:2] == [[None, "x", 1.0], [None, "y", 0.0]]


def test_results_of_tools_are_not_samples() -> None:
    record = {"question": "q", "response": "a", "score": 1.0}
    record |= {"tool_results": [{"output": "x", "success": True}, {"output": "y", "success": False}]}
    assert infer([record] * 3).keys["response"] == "response"


def test_a_transcript_in_a_text_is_the_response(tmp_path: Path) -> None:
    records = [{"trajectory": f"You see a door. > open door {at}", "f1": at / 2} for at in range(3)]
    found = opened(lines(tmp_path, records))
    assert found[1] == [None, "You see a door. > open door 1", 0.5]


def test_choices_of_an_api_were_sampled(tmp_path: Path) -> None:
    answer = {"choices": [{"message": {"role": "assistant", "content": "a"}, "finish_reason": "stop"}]}
    assert [row[1] for row in opened(lines(tmp_path, [answer] * 2))] == ["a", "a"]


@pytest.mark.parametrize("name", ["Llama-3-8B_math.jsonl", "run_gpt-4o.jsonl"])
def test_a_file_that_is_called_like_a_model_holds_its_responses(name: str) -> None:
    records = [{"prompt": "q", "response": "a"}] * 3
    assert infer(records, name).is_run
    assert not infer(records, "instructions.jsonl").is_run


def test_the_points_of_a_task_are_not_the_reward_and_that_is_said() -> None:
    records = [
        {
            "points_no": at,
            "score": (4, 6)[at % 2],
            "question": "q",
            "standard_answer": "a",
            "model_output": "m",
        }
        for at in range(6)
    ]
    inference = infer(records, "results.jsonl")
    assert inference.is_run
    assert "reward" not in inference.keys
    assert "score is not the reward: its values look like the points of each task" in inference.sentence()
    judged = [
        {"question": "q", "standard_answer": "a", "model_output": "m", "score": (4, 6)[at % 2]}
        for at in range(6)
    ]
    assert infer(judged, "results.jsonl").keys["reward"] == "score"


def test_how_sure_a_model_is_is_not_the_reward_beside_a_verdict() -> None:
    records = [
        {"question": "q", "response": "a", "score": 0.75 + at / 100, "correct": at % 2 == 0}
        for at in range(6)
    ]
    assert infer(records, "results.jsonl").keys["reward"] == "correct"
    agreeing = [record | {"score": float(record["correct"])} for record in records]
    assert infer(agreeing, "results.jsonl").keys["reward"] == "score"


def test_the_number_of_a_choice_is_not_a_reward() -> None:
    records = [{"question": "q", "completion": "a", "choice": at % 4} for at in range(8)]
    assert "reward" not in infer(records, "generations.jsonl").keys


def test_predictions_of_a_named_system_are_responses(tmp_path: Path) -> None:
    records = [{"query": "q", "gt": "a", "small-7b_pred": f"p{at}"} for at in range(3)]
    assert opened(lines(tmp_path, records))[1] == ["q", "p1", None]


def test_texts_by_model_under_the_response_are_samples(tmp_path: Path) -> None:
    texts = {"small-1b": "a", "large-7b": "b"}
    records = [{"question": "q", "responses": texts, "score": at} for at in (0, 1)]
    inference = infer([{"question": "q", "responses": texts}] * 2, "r.json")
    assert inference.keys["response"] == "responses.*"
    assert "score is one number for several responses" in infer(records).sentence()
    assert [row[:2] for row in opened(lines(tmp_path, records))] == [["q", "a"], ["q", "b"]] * 2


def test_texts_by_id_and_model_are_samples_of_each_model(tmp_path: Path) -> None:
    models = ("gpt-4", "llama-7b")
    whole = {model: {f"t{at}": f"{model} tells story {at}" for at in range(3)} for model in models}
    found = opened(document(tmp_path, whole, "stories.json"))
    assert [row[1] for row in found] == [f"{model} tells story {at}" for model in whole for at in range(3)]


def test_a_record_of_texts_alone_is_not_texts_by_id() -> None:
    record = {"instruction": "q", "model_output": "a", "accuracy": "1"}
    assert infer_document(record, "generations.json") is None


def test_truth_values_beside_a_ground_truth_are_the_reward() -> None:
    records = [
        {"question": "q", "chain-of-thought": "so", "pred": "4", "answer": "4", "ans": at % 3 > 0}
        for at in range(6)
    ]
    assert infer(records, "log.jsonl").keys["reward"] == "ans"
    assert "reward" not in infer([{**record, "ans": "a"} for record in records], "log.jsonl").keys


def test_a_short_answer_gives_way_to_the_text_that_holds_it() -> None:
    long = "First the two sides are added, then halved, and so on until nothing is left. It is {}"
    records = [
        {"problem": "q", "llm_steps": long.format(at + 100), "llm_answer": str(at + 100), "score": at % 2}
        for at in range(4)
    ]
    assert infer(records, "log.jsonl").keys["response"] == "llm_steps"


def test_a_conversation_whose_answer_is_logged_again_beside_a_target_is_an_evaluation() -> None:
    chat = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    records = [{"message_log": chat, "output": "a", "target": "b"}] * 3
    assert infer(records, "log.jsonl").is_run
    assert not infer([{"message_log": chat, "target": "b"}] * 3, "log.jsonl").is_run


def test_answers_to_questions_of_their_own_are_a_data_set() -> None:
    records = [{"instructions": [f"q{at}" for at in range(5)], "outputs": [str(at) for at in range(5)]}] * 3
    assert not infer(records, "natural.jsonl").is_run


def test_prompts_that_are_not_one_for_each_response_are_named_and_not_read() -> None:
    record = {"id": "a", "gpt_output": ["a", "b"], "prompt": ["x", "y", "z"]}
    inference = infer([record] * 3, "predictions.jsonl")
    assert not inference.is_run
    assert inference.problem == "prompt has several texts, but not one for each response"


def test_the_same_number_after_the_response_is_a_reward() -> None:
    records = [{"prompt": "q", "response": "a", "score": 5}] * 4
    assert infer(records, "log.jsonl").keys["reward"] == "score"


def test_the_message_gives_a_command_only_if_it_reads_the_records(tmp_path: Path) -> None:
    records = [{"prompt": "q", "category": "c", "response": "a"}] * 4
    with pytest.raises(RLPanelError, match=r"rlpanel index .* --map step=0"):
        opened(lines(tmp_path, records))
    lines(tmp_path, [{"prompt": ["x", "y", "z"], "gpt_output": ["a", "b"], "id": str(at)} for at in range(3)])
    with pytest.raises(RLPanelError, match=r"not one for each response\nrlpanel map "):
        opened(tmp_path)


def test_a_document_of_thousands_of_objects_is_looked_at_once(tmp_path: Path) -> None:
    """Each object is compared with few others: twice as many objects take about twice as long."""
    whole = {str(at): {"category": "c", "answer": at % 2} for at in range(4000)}
    document(tmp_path, whole, "answers.json")
    begun = time.process_time()
    assert infer_document(whole, "answers.json") is None
    assert time.process_time() - begun < 2.0


def test_figures_by_name_are_not_texts_of_a_model(tmp_path: Path) -> None:
    figures = {f"level{at}": f"{at}/20={at * 5}%" for at in range(1, 6)}
    assert infer_document(figures, "Llama-7B_result.json") is None
    answers = {f"v1_{at}": f"the cat sits on box {at}" for at in range(1, 6)}
    assert infer_document(answers, "Llama-7B_result.json") is not None


def test_a_prompt_that_another_key_may_hold_as_well_is_said_to_be_a_guess() -> None:
    records = [{"SpiderQuestion": f"q{at}", "SynQuestion": f"s{at}", "Prediction": "p"} for at in range(3)]
    assert "the prompt may as well be SynQuestion" in infer(records, "log.jsonl").sentence()


@pytest.mark.parametrize(
    ("asked", "answer"), [("what is {}?", "so " * 4_500), ("第{}题是什么？", "所以" * 1_000)]
)
def test_samples_by_id_may_be_longer_than_the_head_of_a_document(
    asked: str, answer: str, tmp_path: Path
) -> None:
    tasks = {
        f"task_{at}": {"question": asked.format(at), "response": answer, "score": at % 2} for at in range(400)
    }
    found = opened(document(tmp_path, tasks, "results.json"))
    assert (tmp_path / "results.json").stat().st_size > HEAD_BYTES
    assert (len(found), found[1][0], found[1][2]) == (400, asked.format(1), 1.0)


@pytest.mark.parametrize(
    "entry", [{"lemma": "a word of two", "count": 3, "page": 7}, {"version": "1.0", "resolved": "a b"}]
)
def test_a_long_dictionary_of_other_programs_is_not_opened(entry: dict[str, Any], tmp_path: Path) -> None:
    entries = {f"key_{at}": entry | {"more": "word " * 2_000} for at in range(450)}
    with pytest.raises(RLPanelError, match="holds no rollouts"):
        opened(document(tmp_path, entries, "index.json"))
