"""Searching the menu of curves; training constants."""

from __future__ import annotations

from pathlib import Path

import rlpanel
from rlpanel.panels.sidebar import settings_form
from rlpanel.store.snapshot.run_view import RunView
from tests.factories import write_run


def found(options: dict[str, str], text: str) -> list[str]:
    return [name for label, name in options.items() if text in label]


def test_a_number_is_found_under_the_trainers_name(ppo: rlpanel.Run) -> None:
    options = settings_form.options(ppo.view)
    names = ("objective/kl", "objective/rlhf_reward", "critic/values/mean", "reward_std")
    assert [found(options, name) for name in names] == [
        ["log_ratio_sum", "kl_k3_sum"], ["rlhf_reward"], ["value_pooled"], ["reward:std"],
    ]  # fmt: skip


def test_no_two_numbers_have_one_label(ppo_run: Path, grpo_run: Path) -> None:
    for run in (ppo_run, grpo_run):
        snapshot = rlpanel.open_run(run, follow=False).snapshot
        options = settings_form.options(RunView(snapshot))
        columns = {name for name in snapshot.numbers if snapshot.has_number(name)}
        with_statistics = {"reward", "response_tokens", *(c for c in columns if c.startswith("rewards/"))}
        statistics = {f"{c}:{s}" for c in with_statistics & columns for s in ("std", "min", "max")}
        assert set(options.values()) == RunView(snapshot).step_metrics | columns | statistics


def test_constants_are_listed_if_a_metric_uses_them(ppo: rlpanel.Run, tmp_path: Path) -> None:
    view = ppo.view
    told = settings_form.constant_rows(view)
    assert [row["label"] for row in told] == [
        "KL coefficient β", "discount γ", "GAE λ", "pass threshold",
    ]  # fmt: skip
    assert "R² ≥ 1.0000" in settings_form.constant_facts(view)[told[0]["name"]][1]
    plain = write_run(tmp_path / "run", tokens=False, drop=["group", "prompt", "reward"])
    assert settings_form.constant_rows(rlpanel.open_run(plain, follow=False).view) == []
