"""Searching the menu of curves; training constants."""

from __future__ import annotations

from pathlib import Path

import rlpanel
from rlpanel.panels.curves import curve_menu
from rlpanel.panels.sidebar import training_constants
from rlpanel.store.snapshot.run_view import RunView
from tests.factories import write_run


def found(options: dict[str, str], text: str) -> list[str]:
    return [name for label, name in options.items() if text in label]


def test_a_number_is_found_under_the_trainers_name(ppo_run: Path) -> None:
    options = curve_menu.options(rlpanel.open_run(ppo_run, follow=False).view)
    names = ("objective/kl", "objective/rlhf_reward", "ppo/val/var_explained", "val/num_eos_tokens")
    assert [found(options, f"{name}")[0] for name in names] == [
        "log_ratio_sum", "rlhf_reward", "var_explained", "ended_count",
    ]  # fmt: skip


def test_no_two_numbers_have_one_label(ppo_run: Path, grpo_run: Path) -> None:
    for run in (ppo_run, grpo_run):
        snapshot = rlpanel.open_run(run, follow=False).snapshot
        options = curve_menu.options(RunView(snapshot))
        columns = {name for name in snapshot.numbers if snapshot.has_number(name)}
        assert set(options.values()) == RunView(snapshot).step_metrics | columns


def test_constants_are_listed_if_a_metric_uses_them(ppo_run: Path, tmp_path: Path) -> None:
    told = training_constants.lines(rlpanel.open_run(ppo_run, follow=False).view)
    assert [text.partition(" <b>")[0] for text, _ in told] == ["KL coefficient β", "discount γ", "GAE λ"]
    assert "R² ≥ 1.0000" in told[0][1]
    plain = write_run(tmp_path / "run", tokens=False, drop=["group", "prompt"])
    assert training_constants.lines(rlpanel.open_run(plain, follow=False).view) == []


def test_a_constant_from_a_file_is_never_html(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    (run / "run.json").write_text('{"algo": "<img src=x onerror=alert(1)>"}')
    told = training_constants.lines(rlpanel.open_run(run, follow=False).view)
    assert "<img" not in told[0][0]
