"""The bar over the curves is visible only while a backlog is read."""

from __future__ import annotations

from rlpanel.panels.session.context import Context
from rlpanel.panels.status.notices import BacklogBar, bar_html
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.store.snapshot.snapshot import Progress, Snapshot


def shown(*reads: Progress) -> list[str]:
    """Return the bar's HTML after each snapshot; empty while it is hidden."""
    context, said = Context(), []
    bar = BacklogBar(context)
    for version, progress in enumerate(reads, 1):
        context.view = RunView(Snapshot("run", version, progress=progress))
        said.append(bar.html if bar.visible else "")
    return said


def test_it_tells_how_far_how_fast_and_how_long() -> None:
    bar = bar_html(Progress(500_000_000, 2_000_000_000, rate=100e6), "newest steps first")
    assert "Reading 25% of 2 GB · 100 MB/s · 15 s left" in bar
    assert 'role="progressbar" aria-valuenow="25"><i style="width:25.0%">' in bar
    assert "newest steps first" in bar


def test_it_goes_when_all_is_in() -> None:
    said = shown(Progress(1, 4), Progress(2, 4), Progress(4, 4, caught_up=True))
    assert [bool(words) for words in said] == [True, True, False]
    assert "Reading 50%" in said[1]


def test_a_few_lines_that_wait_are_no_backlog() -> None:
    assert shown(Progress(995, 1000)) == [""]


def test_a_run_that_is_read_shows_none() -> None:
    assert shown(Progress(4, 5, caught_up=True)) == [""]
