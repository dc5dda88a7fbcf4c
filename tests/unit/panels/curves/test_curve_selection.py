"""Which curves are shown by default."""

from __future__ import annotations

from pathlib import Path

import pytest

import rlpanel
from rlpanel.app.demo import write_recording
from rlpanel.panels.curves.curve_bar import curves_of
from rlpanel.panels.session.context import Context
from tests.factories import append, line, write_run


def titles(run: Path, **selection: object) -> list[str]:
    context = Context(view=rlpanel.open_run(run, follow=False).view)
    context.selection.param.update(**selection)
    return [curve.key for curve in curves_of(context)]


def test_a_run_with_a_critic_shows_what_the_critic_learns(tmp_path: Path) -> None:
    run = write_recording("ppo_couplets", tmp_path / "ppo")
    assert titles(run) == ["reward", "kl_k3_mean", "response_tokens", "var_explained", "value_error"]


def test_a_run_without_a_critic_shows_the_first_four_that_vary(tmp_path: Path) -> None:
    run = write_recording("grpo_couplets", tmp_path / "grpo")
    assert titles(run) == ["reward", "kl_k3_mean", "response_tokens", "surprisal_mean"]


def test_a_constant_column_is_no_default_but_the_reward_always_is(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", steps=6, tokens=False, reward=1.0, response="same", prompt="same")
    assert titles(run) == ["reward", "reward_gap"]
    assert titles(run, curves=["prompt_chars"]) == ["prompt_chars"]


@pytest.mark.parametrize(("drift", "is_default"), [(1e-6, False), (0.1, True)])
def test_centred_advantages_are_no_default(tmp_path: Path, drift: float, is_default: bool) -> None:
    """Their mean is a rounding error at each step."""
    folder = tmp_path / "run"
    folder.mkdir()
    lines = (
        line(step, index=at, tokens=False, prompt="same", response="same", advantage=sign + step * drift)
        for step in range(6)
        for at, sign in enumerate((1.0, -1.0))
    )
    append(folder / "rollout_data_rank_0.jsonl", *lines)
    assert ("advantage" in titles(folder)) is is_default
    assert titles(folder, curves=["advantage"]) == ["advantage"]


def test_with_few_steps_an_equal_value_may_be_chance(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", steps=2, tokens=False, response="same")
    assert "response_chars" in titles(run)


@pytest.mark.parametrize("names", [["reward"], ["reward", "no such column"]])
def test_a_curve_is_logarithmic_where_it_is_named(tmp_path: Path, names: list[str]) -> None:
    run = write_run(tmp_path / "run", tokens=False)
    context = Context(view=rlpanel.open_run(run, follow=False).view)
    context.selection.log_curves = names
    assert [curve.key for curve in curves_of(context) if curve.log] == ["reward"]
