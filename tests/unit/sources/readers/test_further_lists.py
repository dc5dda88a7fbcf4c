"""Documents with a list for each of several models, of which a mapping may name one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlpanel import open_run
from rlpanel.sources.adapters import NATIVE
from rlpanel.sources.readers.document_items import ItemsFile


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    document = {
        model: {"count": 3, "results": [{"said": f"{model} says {at}", "grade": at} for at in range(3)]}
        for model in ("small", "large", "huge")
    }
    (tmp_path / "bench.json").write_text(json.dumps(document), encoding="utf-8")
    return tmp_path


def test_lists_that_are_not_read_are_counted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLPANEL_MAP", "response=said,reward=grade,step=0")
    with open_run(folder, follow=False, jobs=0) as run:
        assert len(run.samples()) == 3
        assert run.stats().bad_lines == 1
    part = ItemsFile(str(folder / "bench.json"), "bench.json", NATIVE, keys=("small", "results"))
    bad = [line.reason for chunk in part.poll(1 << 20) for line in chunk.bad]
    assert bad[-1] == "2 more lists under 'results' are not read; --map with *.results.*.KEY reads them all"


def test_the_mapping_that_is_named_reads_them_all(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLPANEL_MAP", "response=*.results.*.said,reward=*.results.*.grade,step=0")
    with open_run(folder, follow=False, jobs=0) as run:
        assert list(run.samples(text=True)["response"][2:4]) == ["small says 2", "large says 0"]
        assert len(run.samples()) == 9


def test_the_only_list_is_read_whole(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = {"small": {"results": [{"said": "yes", "grade": 1, "parts": {"results": [{"a": 1}]}}]}}
    (folder / "bench.json").write_text(json.dumps(document), encoding="utf-8")
    monkeypatch.setenv("RLPANEL_MAP", "response=said,reward=grade,step=0")
    with open_run(folder, follow=False, jobs=0) as run:
        assert len(run.samples()) == 1
        assert run.stats().bad_lines == 0
