"""Images of a sample: found again in its line or in the run's folder, and nowhere else."""

from __future__ import annotations

import base64
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rlpanel import Run, open_run
from rlpanel.sources.records.embedded_media import Image
from rlpanel.store.query.sample_media import MediumUnavailable, image_bytes

PIXELS = bytes(range(256)) * 12


def url(data: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(data).decode()}"


def part(source: Any) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": source}}


@contextmanager
def run_with(folder: Path, *content: Any, **fields: Any) -> Iterator[tuple[Run, list[Image]]]:
    """A run of one sample whose question has this content, and the images that its messages name."""
    messages = [{"role": "user", "content": list(content)}, {"role": "assistant", "content": "seen"}]
    line = {"step": 1, "messages": messages, "reward": 1.0, **fields}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rank_0.jsonl").write_text(json.dumps(line) + "\n")
    with open_run(folder, follow=False) as run:
        yield run, list(run.sample(uid_of(run)).messages[0].get("images", ()))


def uid_of(run: Run) -> str:
    return str(run.samples().uid.iloc[0])


def read(run: Run, image: Image) -> bytes:
    return image_bytes(run.index, run.snapshot, uid_of(run), image)


def test_embedded_images_are_found_by_their_content(tmp_path: Path) -> None:
    first, second = PIXELS, PIXELS[::-1]
    with run_with(
        tmp_path, part(url(first)), {"type": "image", "image": base64.b64encode(second).decode()}
    ) as (
        run,
        images,
    ):
        assert [read(run, image) for image in images] == [first, second]


def test_an_image_inside_of_json_text_is_found(tmp_path: Path) -> None:
    """ROLL writes its messages as JSON into a column of text."""
    with run_with(tmp_path, part(url(PIXELS)), copy=json.dumps([url(PIXELS[:200])])) as (run, images):
        assert read(run, images[0]) == PIXELS


@pytest.mark.parametrize("dump", [json.dumps, repr])
def test_an_image_in_messages_that_are_a_text_is_found(tmp_path: Path, dump: Callable[[Any], str]) -> None:
    """Anthropic's and Gemini's parts hold base64 without an address around it."""
    data = base64.b64encode(PIXELS).decode()
    anthropic = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    gemini = {"inlineData": {"mimeType": "image/png", "data": data}}
    asked = dump([{"role": "user", "content": [anthropic, gemini]}])
    with run_with(tmp_path, messages=asked, response="seen") as (run, images):
        assert [read(run, image) for image in images] == [PIXELS, PIXELS]


def test_files_below_the_run_are_read(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "one.png").write_bytes(b"one")
    absolute = str(tmp_path / "images" / "one.png")
    names = ("images/one.png", "./images/one.png", absolute, f"file://{absolute}")
    with run_with(tmp_path, *map(part, names)) as (run, images):
        assert [read(run, image) for image in images] == [b"one"] * len(names)


def test_an_address_is_relative_to_the_log_file_or_to_the_run(tmp_path: Path) -> None:
    shutil.copytree("tests/data/upstream/prime-rl-559b44772/rollouts", tmp_path / "rollouts")
    (tmp_path / "top.png").write_bytes(b"top")
    with open_run(tmp_path, follow=False) as run:
        beside = tmp_path / run.sample(uid_of(run)).file
        beside.with_name("beside.png").write_bytes(b"beside")
        assert read(run, {"url": "beside.png"}) == b"beside"
        assert read(run, {"url": "top.png"}) == b"top"


def test_nothing_outside_of_the_run_is_read(tmp_path: Path) -> None:
    (tmp_path / "secret.png").write_bytes(b"secret")
    (tmp_path / "run" / "images").mkdir(parents=True)
    (tmp_path / "run" / "link.png").symlink_to(tmp_path / "secret.png")
    (tmp_path / "run" / "folder").symlink_to(tmp_path)
    outside = (
        *("../secret.png", "../../secret.png", str(tmp_path / "secret.png"), "link.png", "folder/secret.png"),
        *("https://outside.invalid/x.png", "s3://bucket/x.png", "/etc/passwd", "file:///etc/passwd", "", "."),
        *("images/../../secret.png", f"{tmp_path}/run/../secret.png"),
    )
    with run_with(tmp_path / "run", *map(part, outside)) as (run, images):
        assert len(images) == len(outside)
        for image in images:
            with pytest.raises(MediumUnavailable):
                read(run, image)


def test_a_pipe_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    with run_with(tmp_path, part("pipe.png")) as (run, images), pytest.raises(MediumUnavailable):
        read(run, images[0])


def test_damaged_base64_is_reported(tmp_path: Path) -> None:
    damaged = f"data:image/png;base64,{'A' * 101}"
    with (
        run_with(tmp_path, part(damaged)) as (run, images),
        pytest.raises(MediumUnavailable, match="damaged"),
    ):
        read(run, images[0])
