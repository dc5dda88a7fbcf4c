"""Every rule runs on recorded runs in which any column is missing: never logged, or from some step on."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest

import rlpanel
from rlpanel.app.demo import ROLLOUTS, Recording, read_recording
from rlpanel.findings.check import FAILED, findings
from rlpanel.findings.engine.finding import Finding
from rlpanel.settings import FindingSettings

#: Keys of a line → each with its value, as JSON.
Row = dict[str, str]
#: Samples of a step that are kept, of every third step, so that a run is read and checked in little time.
MOST, EVERY = 4, 3
#: Keys without which a line is no sample.
REQUIRED = ("step", "prompt", "response")
RECORDINGS = get_args(Recording)


def encoded(row: dict[str, Any]) -> Row:
    return {key: f"{json.dumps(key)}: {json.dumps(value)}" for key, value in row.items()}


@cache
def rows_of(name: Recording) -> tuple[tuple[int, Row], ...]:
    """Return some samples of each step of a recorded run, with the columns of all of its kinds."""
    counts: dict[int, int] = {}
    rows = []
    for line in read_recording(name)[ROLLOUTS].splitlines():
        row = json.loads(line)
        counts[row["step"]] = counts.get(row["step"], 0) + 1
        if counts[row["step"]] <= MOST and row["step"] % EVERY == 0:
            rows.append((row["step"], encoded(row)))
    return tuple(rows)


def columns_of(name: Recording) -> list[str]:
    """Return the keys of a recording that may be missing."""
    return [key for key in dict.fromkeys(key for _, row in rows_of(name) for key in row) if key != "step"]


def failed(folder: Path, rows: Iterator[Row]) -> list[str]:
    """Return what the findings of a run say of rules that failed."""
    return [finding.sentence for finding in found_in(folder, rows) if finding.rule == FAILED]


def found_in(folder: Path, rows: Iterator[Row]) -> list[Finding]:
    folder.mkdir(exist_ok=True)
    (folder / "rollout.jsonl").write_text("".join(f"{{{', '.join(row.values())}}}\n" for row in rows))
    with rlpanel.open_run(folder, follow=False) as run:
        assert run.snapshot.samples
        return findings(run.view, FindingSettings(), time.time() + 86400)


def without(name: Recording, *columns: str) -> Iterator[Row]:
    return ({key: value for key, value in row.items() if key not in columns} for _, row in rows_of(name))


def only(name: Recording, column: str) -> Iterator[Row]:
    return ({key: row[key] for key in (*REQUIRED, column) if key in row} for _, row in rows_of(name))


def half(name: Recording, column: str, *, first: bool) -> Iterator[Row]:
    """Log a column in the first or the second half of the steps only."""
    middle = max(step for step, _ in rows_of(name)) // 2
    for step, row in rows_of(name):
        kept = (step <= middle) == first
        yield {key: value for key, value in row.items() if kept or key != column}


@pytest.mark.parametrize("name", RECORDINGS)
def test_every_rule_runs_without_any_column(name: Recording, tmp_path: Path) -> None:
    wrong = {column: failed(tmp_path, without(name, column)) for column in columns_of(name)}
    assert {column: sentences for column, sentences in wrong.items() if sentences} == {}


def filled(name: Recording, column: str, value: str) -> Iterator[Row]:
    """Log one value in a column of all lines."""
    return (row | {column: f"{json.dumps(column)}: {value}"} for _, row in rows_of(name))


@pytest.mark.parametrize(
    "value", ["null", *(pytest.param(text, marks=pytest.mark.slow) for text in ("NaN", '{"odd": [1]}'))]
)
@pytest.mark.parametrize(
    "name", [pytest.param("grpo_couplets", marks=pytest.mark.slow), "grpo_calculator", "ppo_couplets"]
)
def test_every_rule_runs_without_any_value_in_a_column(name: Recording, value: str, tmp_path: Path) -> None:
    wrong = {column: failed(tmp_path, filled(name, column, value)) for column in columns_of(name)}
    assert {column: sentences for column, sentences in wrong.items() if sentences} == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDINGS)
@pytest.mark.parametrize(
    "make",
    [
        only,
        lambda name, column: without(name, column, "reward"),
        lambda name, column: half(name, column, first=True),
        lambda name, column: half(name, column, first=False),
    ],
    ids=["only it", "without it and the reward", "early", "late"],
)
def test_every_rule_runs_with_parts_of_the_columns(
    name: Recording, make: Callable[[Recording, str], Iterator[Row]], tmp_path: Path
) -> None:
    wrong = {column: failed(tmp_path, make(name, column)) for column in columns_of(name)}
    assert {column: sentences for column, sentences in wrong.items() if sentences} == {}


def test_a_collapse_is_found_if_only_parts_of_the_reward_are_logged(tmp_path: Path) -> None:
    """acc falls from 0.85 to 0.09 at step 20, and responses become 16 times shorter."""

    def rows() -> Iterator[Row]:
        for step in range(1, 41):
            for index in range(8):
                good = step < 20
                yield encoded({
                    "step": step,
                    "prompt": f"prompt {index // 4}",
                    "response": "a long answer with its steps " * (8 if good else 1) + f"{step} {index}",
                    "rewards": {"acc": float((step * 7 + index) % (7 if good else 12) != 0) if good
                                else float((step * 7 + index) % 12 == 0)},
                })  # fmt: skip

    found = [each for lead in found_in(tmp_path, rows()) for each in (lead, *lead.symptoms)]
    assert {"response_chars falls", "rewards/acc"} <= {
        each.subject for each in found if each.rule == "sustained_change"
    }
    assert "alarm" in {each.severity for each in found}


def test_a_part_that_falls_without_a_reward_is_found(tmp_path: Path) -> None:
    """A part that was the same in all samples has no spread, and no reward to measure its fall in."""
    rows = (
        encoded({"step": step, "prompt": f"p{index % 4}", "response": "a b c " * 8, "rewards": {"acc": acc}})
        for step in range(40)
        for index in range(8)
        for acc in [1.0 if step < 20 else float(index == 0)]
    )
    found = found_in(tmp_path / "run", rows)
    assert [finding.sentence for finding in found if finding.rule == FAILED] == []
    assert any("rewards/acc" in finding.sentence and finding.onset == 20 for finding in found)
