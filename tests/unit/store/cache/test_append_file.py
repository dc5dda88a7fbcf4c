"""Exported samples, read by pandas, equal the run's own table."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import rlpanel
from rlpanel.api.run import Run
from rlpanel.store.query.notes_beside_log import Notes
from rlpanel.store.query.samples_export import PIECE_ROWS, export_parts
from tests.factories import append, line, write_run

READ: dict[str, Callable[[io.BytesIO], pd.DataFrame]] = {
    "CSV": lambda file: undone(pd.read_csv(file)),
    "CSV, raw": pd.read_csv,
    "JSONL": lambda file: pd.read_json(file, lines=True, dtype={"group": str}, precise_float=True),
    "parquet": pd.read_parquet,
}


def undone(frame: pd.DataFrame) -> pd.DataFrame:
    """A defused table as it was: an apostrophe less before a text that begins like a formula."""
    return frame.map(lambda cell: cell.removeprefix("'") if isinstance(cell, str) else cell)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = write_run(tmp_path / "run", steps=3, samples=5)
    odd = line(4, response='=1+1, "quoted"\n<b>月</b>', reward=None, drop=["ground_truth"])
    append(folder / "rollout_data_rank_0.jsonl", odd)
    return rlpanel.open_run(folder, follow=False)


def taken(run: Run, rows: np.ndarray, kind: str, at_once: int = PIECE_ROWS) -> bytes:
    parts = export_parts(run.index, run.view, rows, Notes(run.path), kind, at_once)
    return b"".join(part.data for part in parts)


@pytest.mark.parametrize("kind", READ)
@pytest.mark.parametrize("at_once", [2, 500])
def test_a_file_holds_the_samples_in_their_order(run: Run, kind: str, at_once: int) -> None:
    rows = run.snapshot.alive_rows[::-1]
    whole = run.samples(text=True).iloc[::-1].reset_index(drop=True)
    Notes(run.path).write(whole.uid[3], "odd", "a note")
    found = READ[kind](io.BytesIO(taken(run, rows, kind, at_once)))
    assert set(whole.columns) <= set(found.columns)
    for name in whole.columns:
        expected = whole[name]
        if pd.api.types.is_numeric_dtype(expected):
            np.testing.assert_allclose(found[name].astype(float), expected, rtol=1e-14, err_msg=name)
        else:
            assert found[name].fillna("").astype(str).tolist() == expected.fillna("").tolist(), name
    assert found.tag.fillna("").tolist() == ["", "", "", "odd", *[""] * 12]
    assert found.note[3] == "a note"


@pytest.mark.parametrize("kind", READ)
def test_nothing_found_is_a_file_without_rows(run: Run, kind: str) -> None:
    data = taken(run, np.empty(0, int), kind)
    assert data == b"" if kind == "JSONL" else len(READ[kind](io.BytesIO(data))) == 0


def test_the_first_csv_is_safe_to_open_and_every_other_file_is_exact(run: Run) -> None:
    rows, text = run.snapshot.rows_of(4), '=1+1, "quoted"\n<b>月</b>'
    found = {kind: READ[kind](io.BytesIO(taken(run, rows, kind))) for kind in READ}
    safe = pd.read_csv(io.BytesIO(taken(run, rows, "CSV")))
    assert safe.response.tolist() == ["'" + text]
    assert {kind: frame.response.tolist() for kind, frame in found.items()} == {kind: [text] for kind in READ}


def test_the_last_piece_is_the_whole_of_it(run: Run) -> None:
    done = [
        piece.done
        for piece in export_parts(run.index, run.view, run.snapshot.alive_rows, Notes(run.path), "CSV")
    ]
    assert done[-1] == 1.0


def test_samples_whose_bytes_are_gone_keep_their_numbers(run: Run) -> None:
    rows, rewards = run.snapshot.alive_rows, run.samples().reward
    (run.path / "rollout_data_rank_0.jsonl").write_bytes(b"")
    found = pd.read_csv(io.BytesIO(taken(run, rows, "CSV")))
    np.testing.assert_allclose(found.reward, rewards)
    assert found.prompt.isna().all()
