"""Keys whose names or values are related: a prediction and its truth, a prompt and its question."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rlpanel import open_run
from rlpanel.errors import RLPanelError
from rlpanel.sources.inference.infer import infer, infer_document

_CAPITALS = ("Oslo", "Rome", "Lima", "Bern")


def test_a_prediction_is_about_the_key_with_the_same_word() -> None:
    records = [
        {"country": f"land {at}", "capital": name, "capital_prediction": name if at else "Paris"}
        for at, name in enumerate(_CAPITALS)
    ]
    found = infer(records, "qwen2-7b_capitals.csv")
    assert found.is_run
    assert found.keys == {"response": "capital_prediction", "ground_truth": "capital"}
    assert not infer(records, "capitals.csv").is_run  # any classifier's table


def test_empty_predictions_of_a_table_are_empty_responses(tmp_path: Path) -> None:
    rows = "country,capital,capital_prediction\n" + "".join(
        f"land {at},{name},{'' if at % 2 else name}\n" for at, name in enumerate(_CAPITALS)
    )
    (tmp_path / "llama-7b_capitals.csv").write_text(rows, encoding="utf-8")
    with open_run(tmp_path, follow=False, jobs=0) as run:
        assert list(run.samples(text=True)["response"]) == ["Oslo", "", "Lima", ""]


def _moves(count: int = 4) -> dict[str, Any]:
    board = "rook a1, king e1, pawn e4 against queen d8 and king e8, move {}"
    return {
        model: {
            "summary": {"n": count, "completion_tokens": 70},
            "results": [
                {
                    "position": board.format(at),
                    "model_move": f"e{at}",
                    "best_move": f"e{at if at % 2 else 8}",
                    "is_legal": True,
                    "is_best": bool(at % 2),
                }
                for at in range(count)
            ],
        }
        for model in ("gpt-4o (high)", "gemini-2.0-flash")
    }


def test_a_policys_move_beside_the_best_one_is_the_response(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(json.dumps(_moves()), encoding="utf-8")
    with open_run(tmp_path, follow=False, jobs=0) as run:
        rows = run.samples(text=True)
    assert len(rows) == 8
    assert list(rows["response"][:2]) == ["e0", "e1"]
    assert rows["reward"].mean() == 0.5  # `is_best`: it is true where both moves are the same
    assert rows["prompt"][0].startswith("rook a1")


def test_the_prompt_made_of_the_question_is_shown() -> None:
    records = [
        {
            "question": f"How many are {at}?",
            "actual_prompt": f"Think.\nHow many are {at}?\nAnswer:",
            "output": "4",
        }
        for at in range(3)
    ]
    found = infer([record | {"score": 1.0} for record in records], "out.jsonl")
    assert found.keys["prompt"] == "actual_prompt"
    apart = [record | {"actual_prompt": "Think first.", "score": 1.0} for record in records]
    assert infer(apart, "out.jsonl").keys["prompt"] == "question"


def test_classes_of_a_response_are_no_reward() -> None:
    marks = "<|im_start|>user\nSay it.<|im_end|>\n<|im_start|>assistant\n"
    records = [
        {"prompt": f"{marks}{at}", "response": f"I say {at}.", "kind_score": at % 2, "rude_score": 1 - at % 2}
        for at in range(4)
    ]
    found = infer(records, "out.jsonl")
    assert found.is_run
    assert "reward" not in found.keys
    assert "kind_score and rude_score are classes of the response" in found.sentence()
    both = [record | {"rude_score": 1, "kind_score": 1 - at % 2} for at, record in enumerate(records)]
    assert infer(both, "out.jsonl").equal  # two scores of which one must be named


@pytest.mark.parametrize(
    ("name", "key"), [("Claude_judged.json", "claude_reply"), ("gpt4_judged.json", "gpt4_check")]
)
def test_the_files_name_says_which_models_text_is_meant(name: str, key: str) -> None:
    records = [
        {
            "question": f"Is step {at} right?",
            "model_output_parts": [f"Step {at}: a long thought about the numbers {at} and {at + 1}."],
            "model_output_correctness": "wrong",
            "claude_reply": {"response": f"Step {at} is wrong."},
            "gpt4_check": {"response": f"The reply on {at} is right."},
            "reason_correctness": "correct" if at else "wrong",
        }
        for at in range(4)
    ]
    found = infer(records, name)
    assert not found.equal
    assert found.keys["response"] == f"{key}.response"
    assert found.keys["reward"] == "reason_correctness"


def test_the_only_text_beside_questions_is_a_models_in_a_file_called_so() -> None:
    records = [
        {
            "question": f"Is {at} even?",
            "answer": "AB"[at % 2],
            "programs": [
                f"even({at}) :- {at} mod 2 = 0. Then the query of the question that was asked is: even({at})?"
            ],
        }
        for at in range(4)
    ]
    found = infer(records, "logic_gpt-4.json")
    assert found.is_run
    assert found.keys == {"prompt": "question", "response": "programs", "ground_truth": "answer"}
    assert not infer(records, "logic.json").is_run
    hints = [
        {"evidence" if key == "programs" else key: value for key, value in each.items()} for each in records
    ]
    assert not infer(hints, "logic_gpt-4.json").is_run


def test_a_path_is_not_a_models_text() -> None:
    record = {"usage": {"completion_tokens": 9}, "file": f"/data/{'deep/' * 20}x.json", "known": 3}
    assert not infer([record | {"known": at} for at in range(4)], "out.json").is_run


def test_the_number_of_right_responses_is_no_reward() -> None:
    records = [
        {"question": f"Say {at}.", "responses": ["a", "b", "c", "d"], "n_correct": at} for at in range(5)
    ]
    found = infer(records, "out.jsonl")
    assert "reward" not in found.keys
    assert "n_correct is not the reward: it counts several responses" in found.sentence()
    unnamed = [{"goal": f"Say {at}.", "extracted": ["a", "b"], "n_correct": at % 3} for at in range(5)]
    assert "reward" not in infer(unnamed, "out.jsonl").keys


_CALL = {"model_path": "runs/a/step_9", "temperature": 0.7}


def test_settings_at_any_depth_say_that_a_model_was_sampled(tmp_path: Path) -> None:
    document = {"run_id": "a", "responses": [f"The answer is {at}." for at in range(6)], "meta": _CALL}
    (tmp_path / "aime.json").write_text(json.dumps(document), encoding="utf-8")
    with open_run(tmp_path, follow=False, jobs=0) as run:
        rows = run.samples(text=True)
    assert len(rows) == 6
    assert "group" not in rows or rows["group"].nunique() != 1
    del document["meta"]
    (tmp_path / "aime.json").write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(RLPanelError, match="holds no rollouts"):
        open_run(tmp_path, follow=False, jobs=0)


@pytest.mark.parametrize("beside", [{"sent": ["<|im_start|>user\nhello"]}, {"usage": {"outputTokens": 4}}])
def test_conversations_beside_what_only_a_call_has_are_a_policys(beside: dict[str, Any]) -> None:
    talk = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "Good day."}]
    assert infer([{"conv": talk, **beside}], "chat.json").is_run
    assert not infer([{"conv": talk}], "chat.json").is_run
    asked = [*talk, {"role": "user", "content": "And now?"}]  # a request with an example
    assert not infer([{"conv": asked, **beside}], "chat.json").is_run


def test_structured_answers_of_turns_are_the_policys_words(tmp_path: Path) -> None:
    turns = [{"turn": at, "state": "x", "llm_response": {"card": "A", "why": f"try {at}"}} for at in range(3)]
    (tmp_path / "games.json").write_text(json.dumps({"rounds": [{"score": 2, "turns": turns}] * 2}), "utf-8")
    with open_run(tmp_path, follow=False, jobs=0) as run:
        rows = run.samples(text=True)
    assert len(rows) == 2
    assert '"why": "try 2"' in rows["response"][0]


def test_judged_items_are_proposed_with_the_text_and_the_score() -> None:
    items = {
        f"claim.part[{at}]": {"score": at % 4, "why": f"It says {at}, as the source."} for at in range(8)
    }
    found = infer_document(items, "judged.json")
    assert found is not None
    assert not found.is_run
    assert "response=*.why,reward=*.score" in found.mapping


def test_the_speeches_of_a_debate_are_turns_of_the_policy(tmp_path: Path) -> None:
    speech = "I hold that the harbour should be closed in winter, since the ice breaks ships. "
    turns = {
        "opening": speech * 2,
        "reply": None,
        "cross": "Why?",
        "summary": speech,
        "close": speech + "End.",
    }
    debate = {"topic": "harbour", "policy_score": 7.5, "base_score": 3.0, "utterances": turns}
    (tmp_path / "debate.json").write_text(json.dumps({"results": [debate, debate]}), encoding="utf-8")
    with open_run(tmp_path, follow=False, jobs=0) as run:
        rows = run.samples(text=True)
    assert list(rows["reward"]) == [7.5, 7.5]
    assert rows["response"][0].rstrip().endswith("End.")
    assert "Why?" in rows["response"][0]


def test_the_score_of_an_aspect_is_weaker_than_a_verdict_on_the_task() -> None:
    records = [
        {
            "prompt": f"Book {at}.",
            "response": "Booked.",
            "safety_eval": {"score": 0.5},
            "task_completed": bool(at % 2),
            "malicious_target": "privacy",
        }
        for at in range(4)
    ]
    found = infer(records, "out.jsonl")
    assert found.keys["reward"] == "task_completed"
    assert "ground_truth" not in found.keys
    judged = [{**record, "judge": {"score": 0.5}} for record in records]
    assert infer(judged, "out.jsonl").keys["reward"] == "judge.score"
