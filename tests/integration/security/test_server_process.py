"""The child process of the security tests starts, answers and ends."""

from __future__ import annotations

import urllib.request
from pathlib import Path

from tests.integration.server_process import ServerProcess


def test_a_server_process_answers_and_ends(root: Path) -> None:
    with ServerProcess(root, fresh=True) as server:
        with urllib.request.urlopen(f"{server.url}health", timeout=30) as answer:
            assert answer.status == 200
        assert server.alive
    assert not server.alive
