"""What is left out of the gap's tokens is counted."""

from __future__ import annotations

from pathlib import Path

import rlpanel
from rlpanel.drift.gap_tokens import GapTokens, chosen_rows, read_gap_tokens
from tests.unit.drift import bigrams


def test_lines_that_changed_meanwhile_are_counted(tmp_path: Path) -> None:
    folder = bigrams.write(tmp_path / "run", bigrams.rounding())
    with rlpanel.open_run(folder, follow=False) as run:
        rows = chosen_rows(run.snapshot)
        log = folder / "rank_1.jsonl"
        log.write_text(log.read_text().replace('"p"', '"q"'))
        *_, tokens = read_gap_tokens(run.index, run.snapshot, rows)
    assert isinstance(tokens, GapTokens)
    assert (tokens.read, tokens.unreadable, len(tokens.rows)) == (len(rows), len(rows) // 2, len(rows) // 2)
