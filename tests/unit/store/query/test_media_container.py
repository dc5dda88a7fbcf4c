"""Containers of audio and video: known ones get a fixed type, everything else none."""

from __future__ import annotations

import pytest

from rlpanel.store.query.sample_media import HEAD, content_type
from tests.media import CLIP, IMPOSTORS, polyglot, sound


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (sound(0.01), "audio/wav"),
        (polyglot(), "audio/wav"),
        (CLIP, "video/webm"),
        (b"fLaC\x00\x00\x00\x22", "audio/flac"),
        (b"ID3\x04\x00\x00\x00", "audio/mpeg"),
        (b"\xff\xfb\x90\x64", "audio/mpeg"),
        (b"OggS\x00\x02", "video/ogg"),
        (b"\x00\x00\x00\x20ftypisom", "video/mp4"),
    ],
)
def test_each_container_has_one_type(head: bytes, expected: str) -> None:
    assert content_type(head[:HEAD], "video") == expected
    assert content_type(head[:HEAD], "audio") == expected.replace("video", "audio")


@pytest.mark.parametrize("name", IMPOSTORS)
def test_what_only_claims_to_be_one_has_none(name: str) -> None:
    assert content_type(IMPOSTORS[name][:HEAD], "video") is None


@pytest.mark.parametrize(
    "head",
    [
        b"\xff\xfb\xf0\x00",  # a bit rate that does not exist
        b"\xff\xfb\x9c\x00",  # a sampling rate that does not exist
        b"ID3\x09\x00",
        b"\xff\xff\xff\xffftypisom",
        b"\x00\x00\x00\x00ftypisom",
        b"OggS\x01",
    ],
)
def test_a_damaged_head_has_none(head: bytes) -> None:
    assert content_type(head, "audio") is None
