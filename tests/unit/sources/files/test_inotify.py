"""Checking whether inotify can watch a folder leaves nothing open."""

from __future__ import annotations

import os
import resource
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from rlpanel.sources.files.mounts import shortage

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="inotify is Linux's")


def test_nothing_is_short_and_nothing_stays_open(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "link").symlink_to("/")
    before = os.listdir("/proc/self/fd")
    assert shortage(str(tmp_path)) == ""
    assert os.listdir("/proc/self/fd") == before


def test_a_process_without_open_files_is_told_apart_from_inotifys_limits(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as held:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, limits[0]), limits[1]))
        held.callback(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        with suppress(OSError):
            while True:
                held.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        reason = shortage(str(tmp_path))
    assert reason == "this process has too many open files; raise its limit with ulimit -n"
