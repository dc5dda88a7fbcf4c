"""The linter reads each line once while a run grows, can be stopped, and names what it cannot do."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlpanel.api.open_run import open_run
from rlpanel.api.run import Run
from rlpanel.lint.lint_rows import StepTallies
from rlpanel.lint.lint_rule import LintRule
from rlpanel.lint.linter import LINT_RULES, Linter, linter_of
from tests.unit.lint.linted_runs import (
    LATER,
    Lines,
    by_name,
    faulty_run,
    linted,
    recorded,
    tokenizer_of,
    write,
)


def broken(lines: Lines, step: int) -> Lines:
    """Put a logprob above 0 into the first samples of a step."""
    for line in [line for line in lines if line["step"] == step][:3]:
        line["logprobs"][2] = 1.5
    return lines


def test_growing_run_is_read_once(tmp_path: Path) -> None:
    lines = broken(broken(recorded("grpo_couplets", range(1, 7)), 2), 6)
    later, now = [line for line in lines if line["step"] > 3], [line for line in lines if line["step"] <= 3]
    write(tmp_path, now)
    with open_run(tmp_path, follow=False) as run:
        linter = Linter(run.index)
        first = list(linter.update(run.view, LATER))
        assert first[0].total == len(now)
        assert list(linter.update(run.view, LATER))[-1].results == first[-1].results
        assert len(list(linter.update(run.view, LATER))) == 1
        with (tmp_path / "rollout_data_rank_0.jsonl").open("a") as file:
            file.writelines(json.dumps(line) + "\n" for line in later)
        while run.snapshot.samples < len(lines):
            run.index.read()
        grown = list(linter.update(run.view, LATER))
    assert grown[0].total == len(later)
    whole = linted(tmp_path)
    assert [result.as_dict() for result in grown[-1].results] == [r.as_dict() for r in whole.results]
    found = by_name(grown[-1])["logprob_negative"]
    assert (found.failed, found.first, found.samples) == (6, 2, len(lines))


def grow(run: Run, folder: Path, lines: Lines, total: int) -> None:
    """Append lines and read them."""
    with (folder / "rollout_data_rank_0.jsonl").open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    while run.snapshot.samples < total:
        run.index.read()


def divided(lines: Lines) -> Lines:
    """Log half of a group in the next step, for each second step."""
    for step in {line["step"] for line in lines}:
        group = next(line["group_id"] for line in lines if line["step"] == step)
        for line in [line for line in lines if line["group_id"] == group][4:]:
            line["step"] += step % 2
    return lines


@pytest.mark.parametrize("block_rows", [1, 150, 4096])
def test_rules_of_steps_find_the_same_in_a_run_that_grows(block_rows: int, tmp_path: Path) -> None:
    lines = divided(recorded("grpo_couplets", range(1, 9)))
    rules = [rule for rule in LINT_RULES.values() if rule.scope == "steps"]
    write(tmp_path, lines[:100])
    with open_run(tmp_path, follow=False) as run:
        grown, whole = (StepTallies(rules, block_rows) for _ in range(2))
        for start in range(100, len(lines), 64):
            grow(run, tmp_path, lines[start : start + 64], min(start + 64, len(lines)))
            grown.update(run.view, int(run.snapshot.steps.values[-1]))
        whole.update(run.view, int(run.snapshot.steps.values[-1]))
    assert grown.totals() == whole.totals()
    assert whole.totals()["one_step"][""].failed == 4 * 8


def test_changed_run_json_marks_all_steps_again(tmp_path: Path) -> None:
    lines = recorded("grpo_couplets", range(1, 4))
    write(tmp_path, lines, {"num_generations": 8})
    with open_run(tmp_path, follow=False) as run:
        linter = Linter(run.index, ["one_size"])
        *_, before = linter.update(run.view, LATER)
        write(tmp_path, lines, {"num_generations": 4})
        run.index.rescan()
        while run.snapshot.constants.logged["num_generations"] == 8:
            run.index.read()
        *_, after = linter.update(run.view, LATER)
    assert (before.results[0].failed, after.results[0].failed) == (0, len(lines))


@pytest.mark.parametrize(("begun", "steps"), [(100, (8, 8)), (1000, (32, 16))])
@pytest.mark.parametrize("per_step", [16, 64])
def test_page_reads_one_step_of_many_samples(
    per_step: int, begun: int, steps: tuple[int, int], tmp_path: Path
) -> None:
    """The first steps are all read: 32 of those that are there when the page is opened, or 8 of a new run."""
    lines = [
        {
            "step": at // per_step,
            "prompt": f"{at}?",
            "response": "a b",
            "logprobs": [-0.5, 0.5 * (at % 9 == 0)],
        }
        for at in range(6400)
    ]
    write(tmp_path, lines[:begun])
    with open_run(tmp_path, follow=False) as run:
        grown, whole = (Linter(run.index, ["logprob_negative"], most=8, spread=1024) for _ in range(2))
        list(grown.update(run.view, LATER))
        for start in range(begun, len(lines), 900):
            grow(run, tmp_path, lines[start : start + 900], min(start + 900, len(lines)))
            *_, last = grown.update(run.view, LATER)
        *_, once = whole.update(run.view, LATER)
    for found, early in ((once, 32), (last, steps[per_step == 64])):
        assert found.read == 8 * (early + (len(lines) - early * per_step) // 1024)
        assert found.samples == len(lines)
        assert found.results[0].checked == found.read
        assert found.failed


@pytest.mark.slow
def test_processes_find_the_same(tmp_path: Path) -> None:
    folder = write(tmp_path, faulty_run())
    with open_run(folder, follow=False) as run:
        linters = (Linter(run.index, jobs=jobs, least_parallel=1) for jobs in (0, 2))
        alone, two = (list(linter.update(run.view, LATER)) for linter in linters)
    assert alone[-1].failed
    assert [result.as_dict() for result in two[-1].results] == [r.as_dict() for r in alone[-1].results]
    assert two[-1].read == alone[-1].read == 512


def test_stopped_lint_goes_on_where_it_was(tmp_path: Path) -> None:
    lines = broken(recorded("grpo_couplets", range(1, 5)), 3)
    write(tmp_path, lines)
    with open_run(tmp_path, follow=False) as run:
        linter = Linter(run.index, ["logprob_negative"])
        iterator = linter.update(run.view, LATER)
        next(iterator), next(iterator)
        iterator.close()
        rest = list(linter.update(run.view, LATER))
    assert rest[0].total == 3 * 64
    assert by_name(rest[-1])["logprob_negative"].failed == 3
    assert by_name(rest[-1])["logprob_negative"].samples == len(lines)


def test_replaced_file_is_read_again(tmp_path: Path) -> None:
    write(tmp_path, broken(recorded("grpo_couplets", range(1, 4)), 2))
    with open_run(tmp_path, follow=False) as run:
        linter = Linter(run.index, ["logprob_negative"])
        *_, before = linter.update(run.view, LATER)
        assert before.failed
        (tmp_path / "rollout_data_rank_0.jsonl").unlink()
        write(tmp_path, recorded("grpo_couplets", range(1, 4)))
        run.index.rescan()
        while run.index.read() or not run.snapshot.samples:
            pass
        *_, after = linter.update(run.view, LATER)
    assert not after.failed
    assert by_name(after)["logprob_negative"].samples == 3 * 64


def test_limit_reads_the_first_samples_of_each_step_and_says_so(tmp_path: Path) -> None:
    write(tmp_path, recorded("grpo_couplets", range(1, 5)))
    with open_run(tmp_path, follow=False) as run:
        assert linter_of(run.index, "train", 10) is linter_of(run.index, "train", 10)
        *_, last = linter_of(run.index, "train", 10).update(run.view, LATER)
        assert (last.read, last.samples) == (40, 256)
        results = by_name(last)
        assert results["tokens_are_text"].samples == 40
        assert results["one_size"].samples == 256
        frame = run.lint(per_step=10)
        assert set(frame.state) == {"passed", "not checkable"}


def test_named_algorithm_is_held_to_its_formula(tmp_path: Path) -> None:
    lines = recorded("grpo_couplets", range(1, 5))
    fits = by_name(linted(write(tmp_path / "fits", lines, {"algorithm": "grpo"})))["advantage_formula"]
    other = by_name(linted(write(tmp_path / "other", lines, {"algorithm": "dr_grpo"})))["advantage_formula"]
    assert fits.state == "passed"
    assert fits.remark == "std of the group, n − 1, as named"
    assert other.state == "failed"
    assert other.remark == "mean of the group, as named"


@pytest.mark.parametrize(
    ("algorithm", "formula"),
    [
        ("rloo", lambda r: r - (r.sum() - r) / (len(r) - 1)),
        ("dr_grpo", lambda r: r - r.mean()),
        ("grpo", lambda r: (r - r.mean()) / (r.std() + 1e-6)),
    ],
)
def test_formulas_against_numpy(algorithm: str, formula: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = []
    for group in range(12):
        rewards = rng.random(6)
        for reward, advantage in zip(rewards, formula(rewards), strict=True):
            lines.append({"step": group // 4, "prompt": f"{group}?", "response": f"{reward}", "group": group})
            lines[-1] |= {"reward": float(reward), "advantage": float(advantage)}
    for run in ({}, {"algorithm": algorithm}):
        result = by_name(linted(write(tmp_path / str(bool(run)), lines, run)))["advantage_formula"]
        assert (result.state, result.checked) == ("passed", 72)


def test_loss_aggregation_says_what_a_long_response_weighs(tmp_path: Path) -> None:
    lines = recorded("grpo_calculator", range(1, 5))
    run = {"loss_type": "grpo"}
    result = by_name(linted(write(tmp_path, lines, run)))["loss_weights"]
    assert result.state == "passed"
    assert result.remark.startswith("grpo: a token of a response of ")


@pytest.mark.parametrize(
    ("file", "text", "remark"),
    [
        ("config.yaml", "loss_fn:\n  token_level_loss: false\n", "token_level_loss = False: a token of a"),
        ("config.yaml", "loss_fn:\n  token_level_loss: true\n", "token_level_loss = True: all tokens"),
        ("run.sh", "python train.py --calculate-per-token-loss\n", "calculate_per_token_loss = True: all"),
        (
            "config.yaml",
            "calculate_token_sum_loss: true\ncalculate_per_token_loss: false\n",
            "calculate_token_sum_loss = True: all tokens weigh the same, so",
        ),
        (
            "config.yaml",
            "calculate_per_prompt_loss: true\ncalculate_per_token_loss: false\n",
            "calculate_per_prompt_loss = True: all tokens of a prompt's responses",
        ),
        ("config.json", '{"loss_denominator": "token"}', "loss_denominator = token: all tokens weigh"),
        ("config.yaml", "trainer:\n  algorithm:\n    loss_reduction: sequence_mean\n", "sequence_mean: a"),
        (
            "config.yaml",
            "critic:\n  loss_agg_mode: token-mean\nactor:\n  loss_agg_mode: seq-mean-token-mean\n",
            "seq-mean-token-mean: a token",
        ),
        ("config.json", '{"loss_type": "policy_loss"}', ""),
    ],
)
def test_loss_aggregation_is_read_from_the_settings_of_trainers(
    file: str, text: str, remark: str, tmp_path: Path
) -> None:
    write(tmp_path, recorded("grpo_calculator", [1, 2]))
    (tmp_path / file).write_text(text)
    result = by_name(linted(tmp_path))["loss_weights"]
    assert result.state == ("passed" if remark else "not checkable")
    assert result.remark.startswith(remark)
    assert remark or "calculate_per_token_loss" in result.log


def test_tokenizer_decodes_ids_without_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = recorded("grpo_calculator", range(1, 4))
    path = tokenizer_of(lines, tmp_path)
    for line in lines:
        del line["response_tokens"]
        line["prompt_token_ids"] = line["response_token_ids"]
        del line["messages"], line["prompt_messages"]
        line["prompt"] = "".join(["<tool_call>", "\n"])
    for line in lines[::7]:
        line["response_token_ids"] = lines[1]["response_token_ids"][:-9]
        for name in ("loss_mask", "logprobs", "ref_logprobs", "entropy"):
            line.pop(name)
    write(tmp_path / "run", lines)
    assert by_name(linted(tmp_path / "run"))["tokens_are_text"].state == "not checkable"
    monkeypatch.setenv("RLPANEL_TOKENIZER", str(path))
    last = linted(tmp_path / "run")
    result = by_name(last)["tokens_are_text"]
    assert result.state == "failed"
    assert {example.line % 7 for example in result.examples} == {1}
    assert by_name(last)["prompt_ids_are_text"].checked > 0


def test_prompt_ids_of_another_prompt_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = recorded("grpo_calculator", range(1, 4))
    monkeypatch.setenv("RLPANEL_TOKENIZER", str(tokenizer_of(lines, tmp_path)))
    for line in lines:
        # The ids of a text that the tokenizer knows, as the prompt.
        line["prompt"], line["prompt_token_ids"] = (
            "".join(line["response_tokens"]),
            line["response_token_ids"],
        )
        del line["messages"], line["prompt_messages"]
    faulty = set()
    for number, (line, other) in list(enumerate(pairwise(lines), start=1))[70::2]:
        line["prompt_token_ids"] = other["response_token_ids"]
        if "".join(other["response_tokens"]) != line["prompt"]:
            faulty.add(number)
    result = by_name(linted(write(tmp_path / "run", lines), ["prompt_ids_are_text"]))["prompt_ids_are_text"]
    assert result.state == "failed"
    assert result.checked > 50
    assert {example.line for example in result.examples} <= faulty
    assert result.failed == len(faulty) > 5


def test_tokenizer_that_is_not_installed_is_named(tmp_path: Path) -> None:
    lines = recorded("grpo_calculator", [1])
    for line in lines:
        del line["response_tokens"]
    found = linted(write(tmp_path, lines, {"model": "someone/never-installed"}))
    assert "someone/never-installed" in found.tokenizer
    assert "--tokenizer" in found.tokenizer
    results = by_name(found)
    assert "someone/never-installed" in results["tokens_are_text"].log


def test_rule_that_fails_says_so_and_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def check(batch: Any) -> Any:
        raise ValueError("a fault of the rule")

    rule = LintRule("faulty", "Faulty", "", "logprobs", "samples", (), "", check)
    monkeypatch.setitem(LINT_RULES, "faulty", rule)
    results = by_name(linted(write(tmp_path, recorded("grpo_couplets", [1])), ["faulty", "logprob_negative"]))
    assert results["faulty"].state == "not checkable"
    assert "a fault of the rule" in results["faulty"].log
    assert results["faulty"].error
    assert results["logprob_negative"].state == "passed"


def test_a_rule_of_steps_alone_names_no_field_that_is_logged(tmp_path: Path) -> None:
    """No line is read for it, so that the fields of the samples are not known."""
    lines = recorded("grpo_couplets", range(1, 3))
    for at, line in enumerate(lines):
        line["group_id"] = f"{line['prompt_id']}-{at % 2}"
    result = by_name(linted(write(tmp_path, lines), ["one_group"]))["one_group"]
    assert (result.state, result.remark) == ("not checkable", f"{len(lines)} of {len(lines)} samples")
    assert result.log == result.rule.otherwise


@pytest.mark.parametrize(("without", "state"), [(8, "passed"), (128, "not checkable")])
def test_a_rule_of_steps_alone_names_all_that_it_may_lack(without: int, state: str, tmp_path: Path) -> None:
    """Where it checks some samples, it asks for no field; where it checks none, for all that it reads."""
    lines = recorded("grpo_couplets", range(1, 3))
    for line in lines[:without]:
        line["prompt"] = ""
    run = {"num_generations": 8}
    result = by_name(linted(write(tmp_path, lines, run), ["one_group"]))["one_group"]
    assert (result.state, result.rule.otherwise in result.log) == (state, state != "passed")
    assert result.checked == (len(lines) - without if state == "passed" else 0)
    assert bool(result.log) == (state != "passed")
