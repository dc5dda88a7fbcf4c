"""The rows of a step that are shown, and the message about the others."""

from __future__ import annotations

from pathlib import Path

from rlpanel.api.open_run import open_run
from rlpanel.display_settings import Display
from rlpanel.panels.samples.visible_rows import attempt_column, excluded_html, subset_html, visible_rows
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Snapshot
from tests.factories import append, line, write_run

UNLIKELY = {"logprobs": [-3.5] * 20}


def read(folder: Path) -> Snapshot:
    return open_run(folder, follow=False).snapshot


def restarted(folder: Path) -> Snapshot:
    """Steps 1 to 10, then 6 to 12 again, four samples each; one line of the last step stands twice."""
    twice = line(12, **UNLIKELY)
    for first, last in ((1, 10), (6, 12)):
        write_run(folder, steps=range(first, last + 1), samples=4)
    append(folder / "rollout_data_rank_0.jsonl", twice, twice)
    return read(folder)


def test_a_plain_run_says_nothing(tmp_path: Path) -> None:
    found = read(write_run(tmp_path))
    assert (excluded_html(found), subset_html(found, 1, Display())) == ("", "")


def test_what_does_not_count_is_counted(tmp_path: Path) -> None:
    html = excluded_html(restarted(tmp_path))
    assert "21 excluded (restarts, duplicates)" in html
    assert "<b>20 samples of older attempts</b>: the job was restarted at step 6," in html
    assert "<b>1 duplicate left out</b>" in html


def test_older_attempts_are_shown_when_asked_for_and_told_apart(tmp_path: Path) -> None:
    found = restarted(tmp_path)
    newest, both = (visible_rows(RunView(found), 8, Display(older_attempts=older)) for older in (False, True))
    assert (len(newest), attempt_column(found, newest)) == (4, {})
    assert attempt_column(found, both) == {"attempt": ["older"] * 4 + ["newest"] * 4}


def test_a_draw_says_of_how_many(tmp_path: Path) -> None:
    found, display = read(write_run(tmp_path, samples=30)), Display(max_samples=8)
    assert len(visible_rows(RunView(found), 2, display)) == 8
    assert "8 of 30 shown, statistics over all" in subset_html(found, 2, display)
