"""Names of runs are the part of their path that says which run it is."""

from __future__ import annotations

import pytest

from rlpanel.panels.sidebar.run_list import places, short_names


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        (["held/rloo/run", "held/areal/run", "held/eval/run"], ["held/rloo", "held/areal", "held/eval"]),
        (["a/out/run", "b/out/run"], ["a", "b"]),
        (["a/run", "a/other"], ["a/run", "a/other"]),
        (["a/seed1", "b/seed2"], ["a/seed1", "b/seed2"]),
        (["a/run", "b/run", "a"], ["a/run", "b/run", "a"]),
        (["run"], ["run"]),
        (["exp/seed1", "exp/seed2", "new/run"], ["exp/seed1", "exp/seed2", "new/run"]),
    ],
)
def test_an_end_that_all_share_says_nothing(labels: list[str], found: list[str]) -> None:
    assert [*places({label: label for label in labels}).values()] == found


def test_a_short_name_has_no_folder_that_all_runs_are_in() -> None:
    labels = {name: name for name in ("team/exp/a/run", "team/exp/b/run", "team/exp/c/d/run")}
    assert [*short_names(labels).values()] == ["a", "b", "c/d"]
    assert short_names({"x": "team/exp/a"}) == {"x": "a"}
    assert short_names({}) == {}
