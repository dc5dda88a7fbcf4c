"""Thumbnails: the first image of a sample, or a sign of its audio or video; its line is read once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rlpanel
from rlpanel.panels.samples.grid_cells import NONE, SIGNS, thumbnail_of
from rlpanel.sources.readers.jsonl import JsonlFile
from tests.conversations import data_url, picture, write_agent_run

IMAGE = {"type": "image_url", "image_url": {"url": data_url(picture())}}
AUDIO, VIDEO = ({"type": kind, kind: f"a.{kind}"} for kind in ("audio", "video"))


def thumbnail(folder: Path, *content: Any) -> str:
    write_agent_run(
        folder, {"step": 1, "messages": [{"role": "user", "content": list(content)}], "response": "r"}
    )
    with rlpanel.open_run(folder, follow=False) as run:
        return thumbnail_of(run.index, run.snapshot, run.snapshot.uid(0))


@pytest.mark.parametrize(
    ("content", "expected"),
    [(["text"], NONE), ([AUDIO], SIGNS["audio"]), ([AUDIO, VIDEO], SIGNS["video"])],
)
def test_samples_without_an_image_show_what_they_have(
    tmp_path: Path, content: list[Any], expected: str
) -> None:
    assert thumbnail(tmp_path, *content) == expected


def test_an_image_comes_first_and_its_line_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[int] = []
    read_bytes = JsonlFile._read_bytes

    def counted(self: JsonlFile, length: int, offset: int) -> bytes:
        reads.append(offset)
        return read_bytes(self, length, offset)

    monkeypatch.setattr(JsonlFile, "_read_bytes", counted)
    assert thumbnail(tmp_path, AUDIO, IMAGE).startswith(("data:image/png", "data:image/jpeg"))
    assert reads == [0]
