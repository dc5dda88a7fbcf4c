"""A text that was selected on the screen is found in the log, or refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rlpanel
from rlpanel.errors import SettingError
from rlpanel.panels.investigations.claim_writer import quoted_place


def test_a_selection_is_found_where_the_log_has_it(tmp_path: Path) -> None:
    messages = [
        {"role": "user", "content": "Say 6."},
        {"role": "assistant", "content": 'It is {"a":6,"b":[1,2]}.\n\nSay 6.'},
    ]
    line = {"step": 1, "messages": messages, "prompt_messages": 1, "ground_truth": "seven"}
    (tmp_path / "rollout_data_rank_0.jsonl").write_text(json.dumps(line) + "\n")
    with rlpanel.open_run(tmp_path) as run:
        sample = run.sample(run.snapshot.uid(0))
    assert quoted_place(sample, "Say 6.") == ("messages.1", "Say 6."), "the response comes first"
    indented = '{\n  "a": 6,\n  "b": [\n    1'
    assert quoted_place(sample, indented) == ("messages.1", '{"a":6,"b":[1'), "as logged"
    assert quoted_place(sample, "seven") == ("ground_truth", "seven")
    with pytest.raises(SettingError, match="does not hold the selected text"):
        quoted_place(sample, "add(a=6)")
    with pytest.raises(SettingError, match="select a text first"):
        quoted_place(sample, " \n")
