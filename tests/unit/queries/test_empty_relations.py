"""A table of SQL without rows says so, with the reason and the command that says more."""

from __future__ import annotations

import json
from pathlib import Path

import rlpanel


def test_a_table_without_rows_is_named_with_its_reason(tmp_path: Path) -> None:
    line = {"step": 1, "prompt": "p", "response": "r", "reward": 1.0}
    (tmp_path / "rollout_data_rank_0.jsonl").write_text(json.dumps(line) + "\n")
    with rlpanel.open_run(tmp_path) as run:
        [said] = run.sql("select count(*) from reward_parts").attrs["remarks"]
        assert said.startswith(f"{run.name}: the table reward_parts has no rows. No parts are logged")
        assert said.endswith(" See rlpanel reward-parts RUN.")
        table = run.ask("sql", query="select * from samples join update using (step)")
        assert [each.split(" has no rows.")[0] for each in table.about["remarks"]] == [
            f"{run.name}: the table update"
        ]
        assert run.sql("select * from samples").attrs["remarks"] == []
