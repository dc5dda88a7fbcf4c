"""A mapping as an option and as ``rlpanel.toml``: both mean the same, and what the file says is kept."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from rlpanel.errors import SettingError, UnsafePath
from rlpanel.settings import Reading
from rlpanel.sources.adapters.key_mapping import create_mapping, parse_mapping
from rlpanel.sources.discovery.directory import Directory
from rlpanel.sources.files.file_access import path_of
from rlpanel.sources.mapping.mapping_text import option_text, save, toml_text

FILE = "rlpanel.toml"


@pytest.mark.parametrize(
    "keys",
    [
        {"prompt": "question", "response": "scores.text", "step": 0},
        {"response": "output", "step": "epoch"},
        {"response": "output", "step": "12"},
        {"response": "a b", "rewards/format": "parts.format"},
        {"messages": "对话", "ground_truth": 'say "no"'},
    ],
)
def test_option_and_file_mean_the_same(keys: dict[str, Any]) -> None:
    assert parse_mapping(option_text(keys)) == create_mapping(keys)
    assert tomllib.loads(toml_text(keys)) == {"map": keys}


@pytest.mark.parametrize("key", ["a,b", " padded ", "x\x7f\\\n"])
def test_a_key_that_an_option_cannot_hold_is_only_written_to_the_file(key: str) -> None:
    keys = {"response": key}
    assert tomllib.loads(toml_text(keys)) == {"map": keys}
    assert option_text(keys) == "" or parse_mapping(option_text(keys)) == create_mapping(keys)
    assert option_text({"response": "a,b"}) == ""


def test_what_the_file_says_beside_the_map_stays(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(
        '# ours\n[reward_weights] # two\nformat = 0.5\n\n[map]\n# old\nprompt = "q"\n\n[other]\n'.replace(
            "[other]\n", ""
        )
    )
    assert save(path_of(tmp_path), {"response": "output", "step": 3}) == str(tmp_path / FILE)
    text = (tmp_path / FILE).read_text()
    assert tomllib.loads(text) == {
        "reward_weights": {"format": 0.5},
        "map": {"response": "output", "step": 3},
    }
    assert "# ours" in text
    assert "# two" in text
    assert "# old" not in text


@pytest.mark.parametrize("before", ['map = {prompt = "q"}\n', "[map.deep]\nx = 1\n", "[map\n"])
def test_a_file_that_cannot_be_merged_is_left_as_it_is(tmp_path: Path, before: str) -> None:
    (tmp_path / FILE).write_text(before)
    with pytest.raises(SettingError, match=FILE):
        save(path_of(tmp_path), {"response": "output"})
    assert (tmp_path / FILE).read_text() == before


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    target, folder = tmp_path / "target.toml", tmp_path / "run"
    target.write_text("[map]\n")
    folder.mkdir()
    os.symlink(target, folder / FILE)
    with pytest.raises(UnsafePath):
        save(path_of(folder), {"response": "output"})
    assert target.read_text() == "[map]\n"


def test_a_mapping_that_a_form_opens_comes_before_the_file(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('[map]\nresponse = "a"\n[reward_weights]\nformat = 0.5\n')
    reading = Reading()
    configs = Directory(tmp_path, reading).folder_configs
    reading.opened_with[str(tmp_path)] = {"response": "b"}
    found = configs.for_folder(tmp_path / "run")
    assert found.mapped == create_mapping({"response": "b"})
    assert found.weights == (("format", 0.5),)
    reading.opened_with[str(tmp_path)] = {}
    assert configs.for_folder(tmp_path / "run").mapped == create_mapping({"response": "a"})
