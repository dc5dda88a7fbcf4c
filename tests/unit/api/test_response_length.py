"""The response length of a recorded tool run is that of the trainer's own log."""

from __future__ import annotations

import json
import math
from pathlib import Path

from rlpanel.api.open_run import open_run

#: Step 1 of a run of TRL 1.16.0 with a tool; prompts are shortened, and some arrays are left out.
TOOL_RUN = Path(__file__).parents[2] / "data" / "trl_tools"


def test_tokens_of_tools_are_not_part_of_the_response_length() -> None:
    logged = json.loads((TOOL_RUN / "scalars.jsonl").read_text())
    step = open_run(TOOL_RUN, follow=False).steps.iloc[0]
    for statistic in ("mean", "min", "max"):
        assert step[f"response_tokens_{statistic}"] == logged[f"completions/{statistic}_length"]
    assert step["response_tokens_mean"] == 48.0


def test_samples_with_a_loss_mask_also_have_the_length_with_tools() -> None:
    frame = open_run(TOOL_RUN, follow=False).samples()
    rows = frame.sort_values("line")[["response_tokens", "trajectory_tokens"]].values.tolist()
    assert rows[:2] == [[85.0, 109.0], [85.0, 109.0]]
    assert [(written, math.isnan(all_tokens)) for written, all_tokens in rows[2:]] == [(11.0, True)] * 2
