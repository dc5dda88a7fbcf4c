"""The head of the sample panel."""

from __future__ import annotations

from pathlib import Path

import rlpanel
from rlpanel.panels.sample.sample_detail import SampleDetail, SampleHead
from rlpanel.panels.session.context import Context
from tests.factories import append, line


def test_a_row_of_all_steps_names_the_step_of_the_curves(tmp_path: Path) -> None:
    append(tmp_path / "rollout_data_rank_0.jsonl", line(1), line(2))
    run = rlpanel.open_run(tmp_path, follow=False)
    context = Context(index=run.index, view=run.view)
    [head] = SampleDetail(context, active=False).__panel__().select(SampleHead)
    context.choose_sample(run.samples()["uid"].iloc[0])
    context.selection.step = 2
    assert "curves at" not in head.html, "the sample of the step is still read"
    context.selection.scope = "run"
    assert "step 1 ·" in head.html
    assert "curves at step 2" in head.html
    context.selection.step = 1
    assert "curves at" not in head.html
