"""Where an index is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlpanel.store.place import lock


def test_a_folder_that_is_away_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    held = lock(tmp_path / "disk" / "run")
    assert held is not None
    held.release()
    assert [path.name for path in tmp_path.iterdir()] == ["home"]
