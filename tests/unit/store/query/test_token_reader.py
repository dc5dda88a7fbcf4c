"""Published tallies are shared by threads: reading one does not change it."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from rlpanel.api.open_run import open_run
from rlpanel.store.query.fetch_sample import TallyProgress, TokenReader
from tests.factories import append, sample


@pytest.mark.parametrize("pulse", [-1.0, 60.0], ids=["with progress", "at once"])
def test_reading_a_published_tally_does_not_change_it(tmp_path: Path, pulse: float) -> None:
    lines = (sample(1, index=index) for index in range(3))
    append(tmp_path / "rank_0.jsonl", *(json.dumps(line).encode() + b"\n" for line in lines))
    index = open_run(tmp_path, follow=False).index
    reader = TokenReader(index, "kl_k3", "", pulse)
    for progress in reader.read(index.snapshot, np.arange(3), TallyProgress()):
        published = pickle.dumps(progress.tally)
        rankings = [progress.tally.ranking(name) for name in progress.tally.measures]
        assert all(rankings)
        progress.tally.copy()
        assert pickle.dumps(progress.tally) == published
