"""Writes RESULTS.md: one section per benchmark, with its command and date."""

from __future__ import annotations

import os
import platform
import re
import time
from pathlib import Path

RESULTS = Path(__file__).with_name("RESULTS.md")


def record(title: str, command: str, text: str) -> None:
    """Write or replace a section; the others stay."""
    head, *sections = re.split(r"^(?=## )", RESULTS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    busy = f"load {os.getloadavg()[0]:.0f} at the end" if hasattr(os, "getloadavg") else ""
    where = f"Python {platform.python_version()}, {os.cpu_count()} cores, {busy}"
    new = f"## {title}\n\n{command} {time.strftime('%Y-%m-%d')}, {where}.\n\n{text}"
    known = [at for at, section in enumerate(sections) if section.startswith(f"## {title}\n")]
    if known:
        sections[known[0]] = new
    else:
        sections.append(new)
    RESULTS.write_text("\n\n".join(part.strip() for part in [head, *sections]) + "\n", encoding="utf-8")
