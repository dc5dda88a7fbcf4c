"""Finds the step of training that an evaluation belongs to, by the folders above its log."""

from __future__ import annotations

import re

_FOLDER = re.compile(r"(?:^|/)step_(\d{1,15})/")


def folder_step(path: str) -> int:
    """Return the step that a folder of a path names, as in ``step_40/log.eval``; 0 if none does."""
    match = _FOLDER.search(path)
    return int(match[1]) if match else 0
