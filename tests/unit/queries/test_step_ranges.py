"""Steps are named in one way everywhere; what the run lacks is an error, never an empty table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlpanel
from rlpanel import Run, SettingError
from rlpanel.errors import FilterError
from rlpanel.queries.step_ranges import span_of
from tests.factories import write_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder: Path = write_run(tmp_path_factory.mktemp("runs") / "run", steps=8, ranks=2, samples=4)
    with rlpanel.open_run(folder, follow=False) as opened:
        yield opened


@pytest.mark.parametrize(
    ("steps", "span"),
    [
        (3, (3, 3)),
        (np.int64(3), (3, 3)),
        ((2, 4), (2, 4)),
        (slice(2, 4), (2, 4)),
        (slice(2, None), (2, None)),
        (range(2, 5), (2, 4)),
        ("3", (3, 3)),
        ("2..4", (2, 4)),
        ("..4", (None, 4)),
        ("-2..4", (-2, 4)),
    ],
)
def test_all_ways_to_name_steps(steps: Any, span: tuple[int | None, int | None]) -> None:
    assert span_of(steps) == span


@pytest.mark.parametrize(
    "steps", [True, 2.5, (1, 2, 3), range(0), range(1, 9, 2), slice(1, 9, 2), "1,2", "", None, ("a", "b")]
)
def test_what_names_no_steps_is_an_error(steps: Any) -> None:
    with pytest.raises(SettingError, match="is no range of steps"):
        span_of(steps)


def test_a_range_that_runs_backwards_is_an_error() -> None:
    with pytest.raises(SettingError, match="the first one is after the last one"):
        span_of((4, 2))


@pytest.mark.parametrize("steps", [(3, 5), slice(3, 5), range(3, 6), "3..5"])
def test_samples_groups_and_tokens_take_the_same_steps(run: Run, steps: Any) -> None:
    everything = run.samples()
    inside = everything[everything.step.between(3, 5)]
    assert run.samples(steps).uid.tolist() == inside.uid.tolist()
    assert run.groups(steps).step.unique().tolist() == [3, 4, 5]
    assert run.tokens(steps=steps)["count"].sum() > run.tokens(steps=4)["count"].sum()


def test_an_open_range_ends_with_the_run(run: Run) -> None:
    assert run.samples("7..").step.unique().tolist() == [7, 8]


@pytest.mark.parametrize(("steps", "said"), [(99, "step 8 is the nearest"), ((90, 99), "it has steps 1–8")])
def test_steps_that_the_run_lacks_are_an_error(run: Run, steps: Any, said: str) -> None:
    for asked in (run.samples, run.groups, lambda steps: run.tokens(steps=steps)):
        with pytest.raises(SettingError, match=said):
            asked(steps)


def test_columns_and_a_limit_of_samples(run: Run) -> None:
    found = run.samples("2..3", columns=["reward"], limit=3, sort="-reward")
    assert set(found) == {"uid", "step", "rank", "reward"}
    whole = run.samples((2, 3)).reward.sort_values(ascending=False)
    assert found.reward.tolist() == whole.tolist()[:3]
    with pytest.raises(SettingError, match="similar ones are reward"):
        run.samples(columns="rewrad")


def test_steps_with_a_dash_are_no_filter_of_a_contrast(run: Run) -> None:
    with pytest.raises(FilterError, match=r"write 3\.\.5 for these steps"):
        run.contrast("3-5")


def test_an_unknown_option_of_a_question_is_named(run: Run) -> None:
    with pytest.raises(SettingError, match="'steps' has no option 'clumns'; similar ones are columns"):
        run.ask("steps", clumns="loss")
    assert set(run.ask("steps", columns="reward_mean, reward_std").frame()) >= {"reward_mean", "reward_std"}


def test_the_trainers_scalars_are_columns_of_the_steps(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", steps=3)
    (folder / "scalars.jsonl").write_text(
        '{"step": 1, "loss": 0.5}\n{"step": 3, "loss": 0.25, "reward_mean": 7}\n{"step": 9, "loss": 0.125}\n'
    )
    with rlpanel.open_run(folder, follow=False) as run:
        np.testing.assert_array_equal(run.steps.loss, [0.5, np.nan, 0.25])
        assert 7 not in run.steps.reward_mean.tolist()  # the column of the samples keeps its name
        assert run.ask("steps", columns=["loss"]).rows[1]["loss"] is None
        logged = run.ask("scalars")
        assert [(row["step"], row["loss"], row["reward_mean"]) for row in logged.rows] == [
            (1, 0.5, None),
            (3, 0.25, 7),
            (9, 0.125, None),
        ]
        assert run.ask("scalars", columns="loss", last=1).rows == [{"step": 9, "loss": 0.125}]
        assert run.sql("select sum(loss) as all_steps from scalars").all_steps.tolist() == [0.875]
