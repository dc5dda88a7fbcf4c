"""The place's own series tells where a change ends; a change of two places is one of the whole run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rlpanel.api.open_run import open_run
from rlpanel.findings import rules  # noqa: F401  (importing them registers them)
from rlpanel.findings.engine.change import Change
from rlpanel.findings.engine.change_tests import sustained
from rlpanel.findings.engine.rule import RuleContext
from rlpanel.findings.engine.signal import SIGNALS
from rlpanel.settings import FindingSettings
from tests.factories import append, line, write_run

STEPS = 30


def change_of(
    folder: Path, label_of: Callable[[int, int], str], is_empty: Callable[[int, str], bool], least: float
) -> Change:
    """Return the change of the share of empty responses in a run of 64 samples a step.

    Parameters
    ----------
    folder : Path
    label_of : callable
        Step and index to the sample's data source.
    is_empty : callable
        Step and data source to whether the response is empty.
    least : float
        Smallest difference of interest.
    """
    write_run(folder, steps=0)
    lines = [
        line(
            step,
            index=index,
            tokens=False,
            data_source=label,
            **{"response": ""} if is_empty(step, label) else {},
        )
        for step in range(1, STEPS + 1)
        for index in range(64)
        for label in [label_of(step, index)]
    ]
    append(folder / "rollout_data_rank_0.jsonl", *lines)
    with open_run(folder, follow=False) as run:
        context = RuleContext(run.view, FindingSettings(), run.snapshot.newest_line + 60)
        change = sustained(context, SIGNALS["empty_response"], least)
    assert change is not None
    return change


def test_a_change_of_one_category_goes_on_while_others_dilute_it(tmp_path: Path) -> None:
    def label_of(step: int, index: int) -> str:
        return "web" if index % 16 < (8 if step < 20 else 2) else "books"

    change = change_of(tmp_path / "run", label_of, lambda step, label: step >= 10 and label == "web", 0.1)
    assert change.place.category == "data_source = web"
    assert change.ongoing
    assert (change.onset, change.last) == (9, STEPS - 1)


def test_a_change_of_two_of_many_categories_is_one_of_the_whole_run(tmp_path: Path) -> None:
    def label_of(_: int, index: int) -> str:
        return f"source {index % 16}"

    def is_empty(step: int, label: str) -> bool:
        return step >= 10 and label in {"source 3", "source 8"}

    # An eighth of all samples: less than is told of the whole run by itself.
    change = change_of(tmp_path / "run", label_of, is_empty, 0.2)
    assert not change.place
    assert change.onset == 9
    alone = change_of(tmp_path / "other", label_of, lambda *at: is_empty(*at) and at[1] == "source 3", 0.2)
    assert alone.place.category == "data_source = source 3"
