"""A run as a dataset: its numbers are those of the run, in every engine, and what is missing is said."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import rlpanel
from rlpanel.dataset.dataset_files import write_dataset
from rlpanel.dataset.dataset_parts import parts_of
from rlpanel.errors import SettingError
from tests.factories import append, line, write_run

STEPS = 6


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> rlpanel.Run:
    folder = write_run(tmp_path_factory.mktemp("dataset") / "run", steps=STEPS, ranks=2)
    append(folder / "rollout_data_rank_0.jsonl", line(3, index=50, reward=None, language="zh"))
    return rlpanel.open_run(folder, follow=False)


@pytest.fixture(scope="module")
def folder(run: rlpanel.Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The dataset in parts of few samples, some of which are less than a step."""
    made = tmp_path_factory.mktemp("made") / "dataset"
    write_dataset(parts_of(run.index, run.view, 3000), made, run=run.name)
    return made


def equal(found: pd.DataFrame, expected: pd.DataFrame) -> bool:
    """Return True if two frames have the same values, whatever their types and order."""
    found = found.set_index("uid").loc[expected["uid"]]
    for name in expected.columns.drop("uid"):
        a, b = found[name], expected[name]
        if pd.api.types.is_numeric_dtype(b):
            same = np.array_equal(a.to_numpy(float, na_value=np.nan), b.to_numpy(float), equal_nan=True)
        else:
            same = a.astype(object).fillna("").tolist() == b.astype(object).fillna("").tolist()
        if not same:
            return False
    return list(expected.columns.drop("uid")) == list(found.columns)


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # dask with pandas 3.1
def test_samples_are_those_of_the_run_in_pandas_duckdb_and_dask(run: rlpanel.Run, folder: Path) -> None:
    import duckdb
    from dask import dataframe

    files, expected = folder / "samples", run.samples()
    assert len(list(files.iterdir())) > STEPS
    assert equal(pd.read_parquet(files), expected)
    assert equal(duckdb.sql(f"from '{files}/*.parquet'").df(), expected)
    assert equal(dataframe.read_parquet(files).compute(scheduler="sync"), expected)
    assert equal(run.dask().compute(scheduler="sync"), expected)


def test_tokens_are_those_of_sql(run: rlpanel.Run, folder: Path) -> None:
    expected = run.sql(f"from tokens(0, {STEPS})", rows=10**6)
    keys = ["uid", "position"]
    expected = expected.sort_values(keys).reset_index(drop=True)
    for found in (pd.read_parquet(folder / "tokens"), run.dask("tokens").compute(scheduler="sync")):
        found = found.sort_values(keys).reset_index(drop=True)
        assert list(found) == list(expected)
        for name in found.columns.drop(["uid", "token"]):
            a, b = (frame[name].to_numpy(float, na_value=np.nan) for frame in (found, expected))
            assert np.array_equal(a, b, equal_nan=True), name
        assert found["token"].tolist() == expected["token"].tolist()


def test_all_files_of_a_table_have_one_schema_and_the_ranges_of_their_steps(folder: Path) -> None:
    from pyarrow import parquet

    for table in ("samples", "tokens"):
        files = sorted((folder / table).iterdir())
        assert len({str(parquet.read_schema(file)) for file in files}) == 1
        for file in files:
            _, first, last, _ = file.stem.split("-")
            steps = parquet.read_table(file, columns=["step"])["step"].to_numpy()
            assert (steps.min(), steps.max()) == (int(first), int(last))


def test_the_summary_says_what_the_dataset_holds(run: rlpanel.Run, folder: Path) -> None:
    summary = json.loads((folder / "_rlpanel.json").read_text())
    assert (summary["samples"], summary["unread"], summary["complete"]) == (len(run.samples()), 0, True)


def test_a_folder_with_files_is_refused(run: rlpanel.Run, folder: Path) -> None:
    with pytest.raises(SettingError, match="has files"):
        write_dataset(parts_of(run.index, run.view), folder, run=run.name)


def test_samples_whose_line_changed_are_counted_with_the_reason(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", steps=2, ranks=1)
    run = rlpanel.open_run(path, follow=False)
    log = path / "rollout_data_rank_0.jsonl"
    log.write_bytes(log.read_bytes().replace(b"prompt 0", b"tpmorp 0", 1))
    written = write_dataset(parts_of(run.index, run.view), tmp_path / "out", run="run")
    assert (written.unread, written.samples) == (1, len(run.samples()))
    assert "rollout_data_rank_0.jsonl:1" in written.reason


def test_an_interrupted_export_has_no_summary(run: rlpanel.Run, tmp_path: Path) -> None:
    def stop(done: int, *_: object) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_dataset(parts_of(run.index, run.view, 3000), tmp_path / "out", run="run", progress=stop)
    assert not (tmp_path / "out" / "_rlpanel.json").exists()
    assert not list((tmp_path / "out").glob("*/.*"))
