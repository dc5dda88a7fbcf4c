"""When the rows of an episode begin and end in a replay, also where they overlap or have no times."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlpanel.analysis.episode_tree import EpisodeTree, tree_of
from rlpanel.panels.tree.tree_tab import node_row, tree_score
from rlpanel.schema import Sample


def episode(*times: tuple[float, float] | None) -> EpisodeTree:
    """Return the tree of rows that begin and last like this; the first is the parent of all."""
    samples = []
    for at, pair in enumerate(times):
        fields: dict[str, Any] = {"parent": "n0", "branch_kind": "sub-agent"} if at else {}
        if pair is not None:
            fields |= {"timing": {"start": pair[0]}, "columns": {"seconds": pair[1]}}
        message = {"role": "assistant", "content": f"row {at}"}
        samples.append(
            Sample(
                uid=f"a:{at}",
                step=1,
                episode="e",
                branch=f"n{at}",
                messages=[message],
                prompt_messages=0,
                **fields,
            )
        )
    return tree_of(samples, "e")


def test_overlapping_rows_are_said_and_their_ends_are_moments() -> None:
    score = tree_score(episode((2e9, 10.0), (2e9 + 1, 4.0), (2e9 + 3, 5.0)))
    assert (score["episode"], score["start"]) == ("e", 2e9)
    np.testing.assert_allclose(score["recorded"], [0, 1, 3, 5, 8, 10])
    assert "Up to 3 rows run at the same time; each is marked while it runs." in score["notes"]


def test_rows_one_after_another_do_not_overlap() -> None:
    score = tree_score(episode((2e9, 2.0), (2e9 + 2, 4.0)))
    assert not any("at the same time" in note for note in score["notes"])


def test_rows_without_a_start_are_said_and_an_episode_without_times_has_no_score() -> None:
    score = tree_score(episode((2e9, 2.0), None, (2e9 + 2, 4.0)))
    assert "1 row has no start in the log; it is always shown." in score["notes"]
    assert tree_score(episode(None, None)) == {}
    assert [node_row(node)["start"] for node in episode(None, (2e9, 1.0)).nodes] == [None, 2e9]
