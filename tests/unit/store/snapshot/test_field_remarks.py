"""Values that are left out for their shape, and runs without responses, are said wherever a run is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import rlpanel
from rlpanel.cli.commands import app
from rlpanel.panels.sidebar.run_badge import remarks_html
from tests.factories import append

LEFT_OUT = (
    "'reward' is not a number in 2 of 4 samples (50.0%): --filter 'not missing(field_remarks)' finds them."
)


def write(folder: Path, *lines: dict[str, Any]) -> Path:
    rows = ({"step": 1, "prompt": "p", "response": "r"} | line for line in lines)
    append(folder / "x.jsonl", *(json.dumps(row).encode() + b"\n" for row in rows))
    return folder


def sentences(folder: Path, split: str = "") -> list[str]:
    with rlpanel.open_run(folder, follow=False) as run:
        return [remark.sentence for remark in (run.split(split) if split else run).remarks]


def odd(folder: Path) -> Path:
    """Write two rewards of which none is a number, and two that are."""
    return write(folder, {"reward": 1}, {"reward": "good"}, {"reward": "bad", "note": "x"}, {"reward": 0.5})


def test_a_value_that_is_left_out_is_said_with_field_reason_and_share(tmp_path: Path) -> None:
    assert sentences(odd(tmp_path)) == [LEFT_OUT]


@pytest.mark.parametrize("command", ["index", "steps"])
def test_commands_say_it_on_stderr_and_in_json(tmp_path: Path, command: str) -> None:
    odd(tmp_path)
    done = CliRunner().invoke(app, [command, str(tmp_path), "--json"])
    facts = json.loads(done.stdout)
    assert [each["sentence"] for each in facts.get("about", facts)["remarks"]] == [LEFT_OUT]
    assert LEFT_OUT in done.stderr
    found = CliRunner().invoke(
        app, ["samples", str(tmp_path), "--filter", "not missing(field_remarks)", "--jsonl", "--text"]
    )
    assert len(found.stdout.splitlines()) == 2


def test_the_board_says_it_beside_the_run(tmp_path: Path) -> None:
    with rlpanel.open_run(odd(tmp_path), follow=False) as run:
        html = remarks_html(run.snapshot)
    assert "fields of another shape" in html
    assert "in 2 of 4 samples" in html


def test_in_one_of_a_hundred_samples_it_is_said_of_the_sample_alone(tmp_path: Path) -> None:
    write(tmp_path, *({"reward": "bad" if at == 7 else 1} for at in range(100)))
    assert sentences(tmp_path) == []
    write(tmp_path, {"reward": "bad"})
    assert len(sentences(tmp_path)) == 1


def test_reasons_are_counted_one_by_one_and_without_their_values(tmp_path: Path) -> None:
    tokens = {"response_tokens": ["a", "b"]}
    write(
        tmp_path,
        tokens | {"logprobs": [-1.0]},
        tokens | {"logprobs": [-1.0] * 3, "reward": "x"},
        {"reward": {"why": "x"}},
        {"reward": {"score": 1}},
    )
    assert [sentence.split(" samples")[0] for sentence in sentences(tmp_path)] == [
        "'logprobs' has not as many values as tokens in 2 of 4",
        "'reward' is not a number in 2 of 4",
        "'reward' is read from its 'score' in 1 of 4",
    ]


def test_each_split_has_its_own(tmp_path: Path) -> None:
    write(tmp_path, {"reward": 1}, {"reward": "bad", "split": "eval"})
    assert (sentences(tmp_path), len(sentences(tmp_path, "eval"))) == ([], 1)


def test_they_survive_the_cache_and_come_from_columns_of_many_lines(tmp_path: Path) -> None:
    write(tmp_path, *([{"reward": 1}] * 40), *([{"reward": "bad"}] * 40), *([{"reward": 1}] * 40))
    first = sentences(tmp_path)
    assert "in 40 of 120 samples" in first[0]
    assert sentences(tmp_path) == first


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"response": None}, True),
        ({"response": None, "prompt": None, "reward": 1}, True),
        ({"response": None, "response_token_ids": [1, 2]}, False),
        ({"response": ""}, False),
        ({"prompt": None}, False),
    ],
    ids=str,
)
def test_a_run_without_any_response_says_so(tmp_path: Path, line: dict[str, Any], said: bool) -> None:
    write(tmp_path, line, line)
    expected = ["None of the 2 samples has a response: the lines have none, or it is null."] if said else []
    assert sentences(tmp_path) == expected


def test_the_finding_names_field_reason_and_share(tmp_path: Path) -> None:
    write(
        tmp_path, *({"step": step, "reward": "bad" if step > 6 else 1} for step in range(1, 9) for _ in "12")
    )
    with rlpanel.open_run(tmp_path, follow=False) as run:
        found = [each for each in run.findings["finding"] if each.rule == "odd_fields"]
    assert [each.sentence for each in found] == [
        "4 samples have an invalid field in steps 7–8: 'reward' is not a number."
    ]
    assert found[0].evidence == ("25.0% of the samples: 'reward' is not a number (25.0% of the samples).",)
    assert "--map" in found[0].advice


def test_a_reward_that_is_read_from_an_object_is_no_finding(tmp_path: Path) -> None:
    write(tmp_path, *({"step": step, "reward": {"score": 1}} for step in range(1, 9)))
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert "odd_fields" not in set(run.findings["rule"])
        assert run.steps["reward_mean"].tolist() == [1.0] * 8
