"""Remarks on steps that may hold samples of an evaluation, or of two attempts; healthy runs have none."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

import rlpanel
from rlpanel.cli.commands import app
from rlpanel.findings import check
from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.rule import RULES, Rule
from rlpanel.settings import FindingSettings
from tests.factories import append, write_run

TRAINED = [["a", "b"], ["c", "d"], ["e", "f"], ["g", "h"]]
EVALUATED = [["a", "b"], ["x", "y"], ["e", "f"], ["x", "y"]]


def write_trl(folder: Path, prompts: Sequence[Sequence[str]]) -> None:
    """Write the parquet files of TRL's ``log_completions``, one per step, with groups of two."""
    folder.mkdir(parents=True, exist_ok=True)
    for step, names in enumerate(prompts, start=1):
        twice = [name for name in names for _ in range(2)]
        columns = {
            "step": [step] * len(twice),
            "prompt": twice,
            "completion": [f"{name} {number} in {step}" for number, name in enumerate(twice)],
            "accuracy": [0.5, 1.0] * len(names),
            "advantage": [-1.0, 1.0] * len(names),
        }
        pd.DataFrame(columns).to_parquet(folder / f"completions_{step:05d}.parquet")


def write_state(folder: Path, *entries: dict[str, float]) -> None:
    """Write the trainer's state, which holds its own log."""
    (folder / "trainer_state.json").write_text(json.dumps({"log_history": entries}))


def remarks(folder: Path) -> list[tuple[str, tuple[int, ...]]]:
    with rlpanel.open_run(folder, follow=False) as run:
        return [(remark.kind, remark.steps) for remark in run.remarks]


def test_steps_at_which_the_trainer_evaluated_are_marked(tmp_path: Path) -> None:
    write_trl(tmp_path, TRAINED)
    assert remarks(tmp_path) == []
    log = [{"step": step, "reward": 0.75} for step in (1, 2, 3, 4)]
    write_state(
        tmp_path, *log, {"step": 2, "eval_reward": 0.25}, {"step": 4, "eval_reward": 0.5, "eval_loss": 1}
    )
    with rlpanel.open_run(tmp_path, follow=False) as run:
        (remark,) = run.remarks
    assert (remark.kind, remark.steps, remark.split) == ("evaluation", (2, 4), "train")
    assert "may hold evaluation samples" in remark.sentence
    assert "eval_reward 0.5 at step 4" in remark.sentence
    assert "TRL replaces the file" in remark.sentence


def test_a_trainer_that_logs_no_evaluation_leaves_no_mark(tmp_path: Path) -> None:
    write_trl(tmp_path, TRAINED)
    write_state(tmp_path, *({"step": step, "reward": 0.75, "loss": 0.1} for step in (1, 2, 3, 4)))
    (tmp_path / "run.json").write_text('{"num_generations": 2, "eval_strategy": "no", "eval_steps": 2}')
    assert remarks(tmp_path) == []


def test_an_evaluation_of_a_recorder_that_separates_it_leaves_no_mark(tmp_path: Path) -> None:
    write_run(tmp_path, steps=range(1, 5))
    (tmp_path / "scalars.jsonl").write_text('{"step": 2, "eval_reward": 0.5}\n')
    assert remarks(tmp_path) == []


def test_run_json_tells_when_the_trainer_evaluates(tmp_path: Path) -> None:
    write_trl(tmp_path, TRAINED)
    write_state(tmp_path, *({"step": step, "reward": 0.75} for step in (1, 2, 3, 4)))
    (tmp_path / "run.json").write_text('{"eval_strategy": "steps", "eval_steps": 3}')
    assert remarks(tmp_path) == [("evaluation", (3,))]


def test_a_step_that_repeats_the_evaluation_before_is_marked_as_well(tmp_path: Path) -> None:
    write_trl(tmp_path, TRAINED)
    second = pd.read_parquet(tmp_path / "completions_00002.parquet")
    second.assign(step=3).to_parquet(tmp_path / "completions_00003.parquet")  # nothing was generated in it
    write_state(tmp_path, {"step": 2, "eval_reward": 0.25})
    assert remarks(tmp_path) == [("evaluation", (2, 3))]


@pytest.mark.parametrize(
    ("prompts", "steps"),
    [
        (EVALUATED, (2, 4)),
        (TRAINED, ()),
        ([["a", "b"], ["c", "d"], ["a", "b"], ["c", "d"], ["a", "b"]], ()),  # the data set begins again
        ([["a", "b"], ["c", "d"], ["e", "f"], ["d", "c"], ["b", "f"], ["a", "e"]], ()),  # it is shuffled
        ([["a", "b"]] * 6, ()),
        ([["a", "b"], ["a", "b"], ["c", "d"], ["c", "d"]], ()),  # two updates with each batch
        ([["a", "b"], ["x", "y"], ["x", "y"], ["c", "d"]], ()),
        ([["a", "b"], ["x", "y"], ["e", "x"], ["x", "y"]], ()),
        ([["a", "b"], ["x", "y"], ["e", "f"], ["y", "x"]], ()),
        ([["a"], ["x"], ["e"], ["x"]], ()),
        ([["x", "y"], ["b", "c"], ["x", "y"], ["d", "e"]], ()),  # an evaluation comes after every k-th step
    ],
)
def test_prompts_that_come_back_as_those_of_an_evaluation_do(
    tmp_path: Path, prompts: list[list[str]], steps: tuple[int, ...]
) -> None:
    write_trl(tmp_path, prompts)
    assert remarks(tmp_path) == ([("evaluation", steps)] if steps else [])


def test_trajectories_of_roll_without_a_mode_are_marked_where_it_evaluated(tmp_path: Path) -> None:
    for step, mode in ((1, None), (2, None), (3, "train"), (4, "val")):
        known = {"episode_score": 1.0, "env_info": {"mode": mode} if mode else {}}
        talk = [{"role": "user", "content": f"board {step}"}, {"role": "assistant", "content": "up"}]
        line = {"global_step": [step], "trajectory_data": [json.dumps(known)], "messages": [json.dumps(talk)]}
        append(tmp_path / f"rollout_dump_data.step_{step}.jsonl", json.dumps(line).encode() + b"\n")
    assert remarks(tmp_path) == []
    scalars = [{"step": step, "val/score/mean": 0.5} for step in (2, 3, 4)]
    (tmp_path / "scalars.jsonl").write_text("".join(json.dumps(row) + "\n" for row in scalars))
    assert remarks(tmp_path) == [("evaluation", (2,))]
    with rlpanel.open_run(tmp_path, follow=False) as run:
        assert run.splits == {"train": 3, "eval": 1}


# -- where it is said --------------------------------------------------------------------------------


@pytest.fixture
def evaluated(tmp_path: Path) -> Path:
    write_trl(tmp_path / "run", EVALUATED)
    write_state(tmp_path / "run", {"step": 2, "eval_reward": 0.25}, {"step": 4, "eval_reward": 0.25})
    return tmp_path / "run"


def run_command(*arguments: str) -> tuple[str, str]:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    return result.stdout, result.stderr


@pytest.mark.parametrize("command", ["index", "steps", "findings"])
def test_commands_say_it_beside_their_output_and_in_json(evaluated: Path, command: str) -> None:
    output, said = run_command(command, str(evaluated))
    assert "Steps 2, 4 may hold evaluation samples" in said
    output, _ = run_command(command, str(evaluated), "--json")
    document = json.loads(output)
    (remark,) = document["remarks"] if command == "index" else document["about"]["remarks"]
    assert (remark["kind"], remark["steps"]) == ("evaluation", [2, 4])


def test_the_list_of_runs_says_it_of_its_last_reward(evaluated: Path) -> None:
    output, _ = run_command("runs", str(evaluated.parent), "--json")
    (row,) = json.loads(output)["rows"]
    assert (row["step"], row["split"], row["doubt"]) == (4, "train", "evaluation")


@pytest.mark.parametrize(("steps", "added"), [((3, 4), " (step 4 may hold evaluation samples)"), ((3,), "")])
def test_a_finding_about_a_marked_step_says_so(
    evaluated: Path, monkeypatch: pytest.MonkeyPatch, steps: tuple[int, ...], added: str
) -> None:
    found = Finding(severity="info", sentence="The reward falls.", steps=steps)
    monkeypatch.setitem(RULES, "told", Rule("told", "Told", lambda context: iter([found]), (), ""))
    with rlpanel.open_run(evaluated, follow=False) as run:
        results = check.findings(run.view, FindingSettings(), 1e12)
    (sentence,) = [finding.sentence for finding in results if finding.rule == "" and finding.steps == steps]
    assert sentence == f"The reward falls{added}."


@pytest.mark.parametrize(
    ("groups", "marked"),
    [
        ("AABBCCDD", ()),  # groups of one prompt
        ("ABCDABCD", (1,)),  # pairs of neighbours, though the batch is repeated as a whole
        ("ABCDEFGH", ()),  # each prompt once: agents or turns of one task may differ like this
        ("AAAABBCD", ()),  # some groups are right
    ],
)
def test_groups_that_mix_prompts_of_other_groups_are_marked(
    tmp_path: Path, groups: str, marked: tuple[int, ...]
) -> None:
    lines = [
        {"step": 1, "prompt": prompt, "response": f"r{at}", "reward": 1.0, "group": f"g{at // 2}"}
        for at, prompt in enumerate(groups)
    ]
    append(tmp_path / "rank_0.jsonl", "".join(json.dumps(line) + "\n" for line in lines).encode())
    assert remarks(tmp_path) == ([("groups", marked)] if marked else [])


@pytest.mark.parametrize(
    ("trainer", "advice"),
    [
        ("OnlineDPOTrainer", "Earlier recorders did this with OnlineDPOTrainer: record such a run again."),
        ("AReaL", "Log one group id for all samples of a prompt, or log each prompt whole."),
        ("", "Log one group id for all samples of a prompt, or log each prompt whole."),
    ],
)
def test_advice_on_groups_that_mix_prompts_is_that_of_the_trainer(
    tmp_path: Path, trainer: str, advice: str
) -> None:
    lines = [
        {"step": 1, "prompt": prompt, "response": f"{at}", "group": str(at // 2), "reward": 0.0}
        for at, prompt in enumerate("ABAB")
    ]
    append(tmp_path / "rank_0.jsonl", "".join(json.dumps(line) + "\n" for line in lines).encode())
    if trainer:
        (tmp_path / "run.json").write_text(json.dumps({"trainer": trainer}))
    with rlpanel.open_run(tmp_path, follow=False) as run:
        (remark,) = (each for each in run.snapshot.remarks if each.kind == "groups")
    assert remark.sentence.endswith(advice)
