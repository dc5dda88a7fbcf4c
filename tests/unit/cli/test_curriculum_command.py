"""The command ``curriculum``: the file that it writes, what it prints, and its errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from rlpanel.cli.commands import build_app
from tests.unit.store.snapshot.test_prompt_grid import logged, write


def asked(*words: object) -> Result:
    return CliRunner().invoke(build_app(), ["curriculum", *map(str, words)])


@pytest.fixture
def run(tmp_path: Path) -> Path:
    rows = [
        logged(name, step, float(name == "easy"), response_tokens=["t"])
        for step in range(1, 5)
        for name in ("easy", "hard", "hard too")
        for _ in range(4)
    ]
    return write(tmp_path / "run", rows)


def test_prompts_of_the_classes_are_written_with_their_weight(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    result = asked(run, out, "--classes", "never", "--repeat", 2)
    assert result.exit_code == 0, result.output
    lines = [json.loads(text) for text in out.read_text().splitlines()]
    assert [(line["prompt"], line["class"], line["weight"]) for line in lines] == [
        ("hard", "never", 2),
        ("hard too", "never", 2),
    ]
    assert "2 of 3 prompts to" in result.output
    assert (
        "Visiting each 2 times as often would have cost 32 tokens (66.7% of all tokens) more."
        in result.output
    )
    assert "GPU-hours: write gpus into run.json" in result.output


def test_the_default_drops_what_teaches_nothing(run: Path, tmp_path: Path) -> None:
    result = asked(run, tmp_path / "out.jsonl")
    assert "3 of 3 prompts" in result.output
    assert "Dropping them would have saved 48 tokens (100.0% of all tokens)." in result.output


def test_a_file_is_replaced_with_force_only(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    out.write_text("mine")
    assert "exists; --force replaces it" in str(asked(run, out).exception)
    assert out.read_text() == "mine"
    assert asked(run, out, "--force").exit_code == 0
    assert len(out.read_text().splitlines()) == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--classes", "dead"), "there is no class 'dead'"),
        (("--drop", "--repeat", "2"), "--drop and --repeat exclude each other"),
    ],
)
def test_wrong_options_are_named(run: Path, tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    assert message in str(asked(run, tmp_path / "out.jsonl", *words).exception)
    assert not (tmp_path / "out.jsonl").exists()
