"""The page about a folder without runs: what it offers can be copied and works."""

from __future__ import annotations

import html
import tomllib
from pathlib import Path

from rlpanel.panels.status.empty_state import getting_started_html
from rlpanel.sources.adapters.key_mapping import create_mapping, parse_mapping
from rlpanel.sources.discovery.diagnose import diagnose
from rlpanel.sources.discovery.directory import Directory
from tests.factories import append


def test_the_option_and_the_file_that_are_offered_mean_the_same(tmp_path: Path) -> None:
    append(tmp_path / "log.jsonl", b'{"question": "2 + 2?", "output": "4"}\n')
    found = diagnose(Directory(tmp_path))
    page = html.unescape(getting_started_html("runs", found))
    assert f"--map {found.mapping}</pre>" in page
    offered = tomllib.loads(page[page.index("[map]") :].partition("</pre>")[0])
    assert create_mapping(offered["map"]) == parse_mapping(found.mapping)
    assert offered["map"]["step"] == 0
