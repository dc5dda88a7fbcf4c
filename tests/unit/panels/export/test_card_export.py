"""Export of a card: values compared with pandas on the raw lines, names as plain text."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rlpanel.api.open_run import open_run
from rlpanel.api.run import Run
from rlpanel.display_settings import Display
from rlpanel.panels.curves.curves import Curves
from rlpanel.panels.export.card_export import Exporter, file_name
from rlpanel.panels.groups.group_strip import GroupStrip
from rlpanel.panels.prompts.prompt_history import PromptHistory
from rlpanel.panels.session.context import Context, Selection
from rlpanel.panels.session.context_parts import OverlayRun
from rlpanel.panels.step.reward_distribution import RewardDistribution, RewardGap
from tests.factories import write_run
from tests.page_parts import parts_of, send

STEPS = [2, 5, 9]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("runs") / "run", steps=STEPS, samples=12)


@pytest.fixture(scope="module")
def run(folder: Path) -> Iterator[Run]:
    with open_run(folder, follow=False) as opened:
        yield opened


@pytest.fixture(scope="module")
def raw(folder: Path) -> pd.DataFrame:
    return pd.concat(pd.read_json(file, lines=True) for file in folder.glob("*.jsonl"))


def context_of(run: Run, display: dict[str, Any] | None = None, **selected: Any) -> Context:
    selection = Selection(step=9, follow=False, run=run.name, **selected)
    return Context(index=run.index, view=run.view, selection=selection, display=Display(**(display or {})))


def asked(view: Any, kind: str) -> dict[str, Any]:
    """Return the message that the first card's export menu sends to the browser."""
    [answer] = send(parts_of(view, Exporter)[0], kind)
    return answer


def numbers(view: Any) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(asked(view, "csv")["text"]))


def test_a_curve_is_a_row_a_step_with_its_band(run: Run, raw: pd.DataFrame) -> None:
    found = numbers(Curves(context_of(run, {"band": "std", "variance_scale": 0.5}, curves=["reward"])))
    assert found.columns.tolist() == ["run", "curve", "step", "mean", "lo", "hi", "band", "n"]
    reward = raw.groupby("step").reward
    ours = found[found.curve == "reward"]
    assert ours.step.tolist() == STEPS
    assert ours["mean"].tolist() == pytest.approx(reward.mean().tolist())
    assert ours.hi.tolist() == pytest.approx((reward.mean() + 0.5 * reward.std()).tolist())
    assert ours.n.tolist() == reward.size().tolist()
    assert set(ours.band) == {"0.5 std"}
    reference = raw.groupby("step").ref_reward.mean()
    assert found[found.curve == "ref_reward"]["mean"].tolist() == pytest.approx(reference.tolist())


def test_a_smoothed_curve_keeps_the_raw_means(run: Run, raw: pd.DataFrame) -> None:
    found = numbers(Curves(context_of(run, curves=["reward"], smooth=0.5)))
    ours = found[found.curve == "reward"]
    assert ours["mean"].tolist() == pytest.approx(raw.groupby("step").reward.mean().tolist())
    assert ours["smoothed"].tolist() != pytest.approx(ours["mean"].tolist())


def test_an_exported_curve_contains_the_overlay_runs(run: Run, raw: pd.DataFrame) -> None:
    context = context_of(run, curves=["reward"])
    context.overlays = [OverlayRun("other", "the other", 0, run.index, run.view)]
    view = Curves(context)
    found = numbers(view)
    assert found[found.run == "the other"]["mean"].tolist() == pytest.approx(
        raw.groupby("step").reward.mean().tolist()
    )
    assert [name for name, _ in asked(view, "svg")["legend"]] == ["run", "the other"]
    context.hidden_runs = frozenset({"", "other"})
    assert len(numbers(view)) == 0


@pytest.mark.parametrize("band", ["density", "ridge"])
def test_a_density_or_ridge_plot_replaces_the_exported_curve(run: Run, raw: pd.DataFrame, band: str) -> None:
    found = numbers(Curves(context_of(run, {"band": band}, curves=["reward"])))
    assert found.from_step.min() == 2
    if band == "density":
        assert found.groupby(["from_step", "to_step"]).samples.sum().to_dict() == {
            (2, 4): 12,
            (5, 7): 12,
            (8, 10): 12,
        }
        one, counted = raw[raw.step == 5].reward, found[found.from_step == 5]
        expected = [
            ((one >= low) & (one < high)).sum()
            for low, high in zip(counted["from"], counted["to"], strict=True)
        ]
        assert counted.samples.tolist() == expected
    else:
        assert found.height.max() == 1.0


def test_a_distribution_is_a_row_a_bin(run: Run, raw: pd.DataFrame) -> None:
    found = numbers(RewardDistribution(context_of(run)))
    step = raw[raw.step == 9]
    for column in ("reward", "ref_reward"):
        edges = [*found["from"], found["to"].iloc[-1]]
        assert found[column].tolist() == np.histogram(step[column], bins=edges)[0].tolist()


def test_a_gap_is_a_row_a_sample(run: Run, raw: pd.DataFrame) -> None:
    step = raw[raw.step == 9]
    found = numbers(RewardGap(context_of(run)))
    assert found.reward_gap.tolist() == pytest.approx(sorted(step.reward - step.ref_reward))


def test_a_group_strip_is_a_row_a_group(run: Run, raw: pd.DataFrame) -> None:
    found = numbers(GroupStrip(context_of(run))).set_index("group")
    groups = raw[raw.step == 9].groupby("group").reward
    assert found["mean"].is_monotonic_increasing
    for ours, theirs in {"mean": "mean", "best": "max", "worst": "min", "samples": "size"}.items():
        expected = groups.agg(theirs)
        assert found[ours].to_dict() == pytest.approx(expected.to_dict()), ours


def test_a_picture_has_the_words_and_colours_of_its_theme(run: Run) -> None:
    context = context_of(run)
    view = RewardDistribution(context)
    for dark, surface in ((True, "#151a21"), (False, "#ffffff")):
        context.selection.dark = dark
        told = asked(view, "png")
        assert told["look"]["surface"] == surface
    assert told["file"] == "run-reward-distribution-step-9.png"
    assert (told["title"], told["words"]) == ("Reward", f"run, step 9, n = {len(run.samples(step=9))}")
    assert asked(Curves(context), "svg")["file"] == "run-reward-to-step-9.svg"


def test_an_unknown_export_format_is_refused(run: Run) -> None:
    with pytest.raises(ValueError, match="not enough values"):
        asked(RewardDistribution(context_of(run)), "exe")


def test_a_name_that_begins_like_a_formula_is_defused_unless_asked_for_raw(tmp_path: Path) -> None:
    with open_run(write_run(tmp_path / "=1+1", steps=STEPS), follow=False) as opened:
        view = Curves(context_of(opened, curves=["reward"]))
        assert set(numbers(view).run) == {"'=1+1"}
        raw = asked(view, "csv-raw")
    assert raw["file"].endswith("-reward-to-step-9.csv")
    assert set(pd.read_csv(io.StringIO(raw["text"])).run) == {"=1+1"}


@pytest.mark.parametrize("message", [["csv"], {"kind": "csv"}, None, 1], ids=str)
def test_a_message_that_is_no_kind_is_not_answered(run: Run, message: Any) -> None:
    with pytest.raises(ValueError, match="not enough values"):
        asked(RewardDistribution(context_of(run)), message)


def test_a_name_is_no_path() -> None:
    assert file_name("../a/<b>\n" + "c" * 300) == ".._a__b__" + "c" * 91


def test_a_prompts_history_is_a_row_a_sample(run: Run, raw: pd.DataFrame) -> None:
    context = context_of(run)
    context.sample = run.sample(run.samples(9).uid.iloc[0])
    view = PromptHistory(context, lambda said: None)
    view.active = True
    found = numbers(view)
    same = raw[raw.prompt == context.sample.prompt].sort_values("step", kind="stable")
    assert len(same) > 1
    assert found.step.tolist() == same.step.tolist()
    assert sorted(found.reward) == pytest.approx(sorted(same.reward))
    assert [run.sample(uid).reward for uid in found.uid] == pytest.approx(found.reward.tolist())
