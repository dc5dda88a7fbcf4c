"""A change that nothing explains is dated again before the bad step; flags are shares in ranks and labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rlpanel.bisect.run_changes import RunChange, dated_later, slices
from rlpanel.findings.engine.rule import RuleContext
from rlpanel.findings.engine.streams import Stream
from rlpanel.settings import FindingSettings
from tests.bench.finding_scores import open_folder
from tests.factories import append, line


def falling() -> Stream:
    """A number that dips at step 20 for three steps, and falls for good at step 40."""
    values = np.ones(50) + 0.01 * np.cos(7.0 * np.arange(50))
    values[20:23] -= 0.2
    values[40:] -= 0.4
    return Stream("number", values, "level", 0.05, 0.0, 1.0, "number")


def cut(rank: int, step: int, index: int) -> float:
    """Return the flag of a sample: six of eight of the second rank have it from step 10 on."""
    return float(rank == 1 and step >= 10 and index < 6)


def test_the_later_fall_is_found_where_the_dip_was_named_first() -> None:
    dip = RunChange(falling(), 20, 8.0, 1.0, 0.8)
    found = dated_later(dip, 36, 44)
    assert found is not None
    assert found.at == 40
    assert found.before > 0.95
    assert found.after < 0.65


def test_a_change_right_before_the_bad_step_stays() -> None:
    fall = RunChange(falling(), 40, 8.0, 1.0, 0.6)
    assert dated_later(fall, 36, 42) is None


def test_a_rise_is_not_dated_where_the_number_falls() -> None:
    rise = RunChange(falling(), 23, 8.0, 0.8, 1.0)
    assert dated_later(rise, 36, 44) is None


def test_a_flag_that_no_sample_had_before_is_compared_between_ranks(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    for rank in range(2):
        rows = [
            line(
                step,
                rank=rank,
                index=index,
                group=f"{rank}-{index // 4}",
                cut=float(step in cut and index < 6),
            )
            for cut in [range(10, 13) if rank else ()]
            for step in range(1, 13)
            for index in range(8)
        ]
        append(tmp_path / "run" / f"rollout_data_rank_{rank}.jsonl", *rows)
    view = open_folder(tmp_path / "run").view
    context = RuleContext(view, FindingSettings(), view.snapshot.newest_line + 2)
    found = {each.name: each for each in slices(context, 0, 12, "reward") if each.column == "cut"}
    assert found
    stream = next(each for name, each in found.items() if "rank" in name and each.values[11] > 0)
    np.testing.assert_allclose(stream.values, [0.0] * 9 + [0.75] * 3)
    assert (np.broadcast_to(stream.floor, 12) > 0).all()
