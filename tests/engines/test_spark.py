"""Spark and polars open an exported dataset as pandas does: the same rows, columns and means."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import rlpanel
from rlpanel.dataset.dataset_files import write_dataset
from rlpanel.dataset.dataset_parts import parts_of
from tests.factories import write_run

pyspark = pytest.importorskip("pyspark.sql")
polars = pytest.importorskip("polars")
STEPS = 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of several parts."""
    path = tmp_path_factory.mktemp("spark")
    run = rlpanel.open_run(write_run(path / "run", steps=STEPS, ranks=2), follow=False)
    write_dataset(parts_of(run.index, run.view, 3000), path / "dataset", run=run.name)
    return path / "dataset"


@pytest.mark.parametrize("table", ["samples", "tokens"])
def test_spark_and_polars_read_what_pandas_reads(folder: Path, table: str) -> None:
    expected = pd.read_parquet(folder / table)
    means = expected.groupby("step")["reward" if table == "samples" else "kl_k3"].mean()
    name = means.name
    builder = pyspark.SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
    frame = spark.read.parquet(str(folder / table))
    assert (frame.columns, frame.count()) == (list(expected), len(expected))
    by_spark = dict(frame.groupBy("step").agg({name: "avg"}).collect())
    read = polars.scan_parquet(folder / table / "*.parquet").group_by("step").agg(polars.col(name).mean())
    by_polars = dict(read.collect().iter_rows())
    for found in (by_spark, by_polars):
        assert np.allclose([found[step] for step in means.index], means, equal_nan=True)
