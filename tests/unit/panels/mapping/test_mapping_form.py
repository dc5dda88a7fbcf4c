"""The form that maps keys to fields: what it proposes, shows and opens, and what it refuses."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from rlpanel.panels.mapping.mapping_form import MappingForm
from rlpanel.panels.session.context import Context
from rlpanel.sources.discovery.diagnose import Diagnosis
from rlpanel.sources.discovery.directory import RunInfo
from rlpanel.sources.files.file_access import AnyPath, path_of
from tests.factories import append
from tests.page_parts import send
from tests.unknown_files import FILES, write_unknown

SCRIPT = "<img src=x onerror=alert(1)>"


class Page:
    """A form for a folder, and what it opened."""

    def __init__(self, folder: Path, *, read_only: bool = False) -> None:
        self.context = Context(root=str(folder), root_diagnosis=Diagnosis("", ""), read_only=read_only)
        self.opened: list[tuple[AnyPath, dict[str, Any]]] = []
        self.form = MappingForm(self.context, lambda at, keys: self.opened.append((at, dict(keys))))
        self._sent = 0

    def send(self, *message: Any) -> None:
        self._sent += 1
        send(self.form, [*message, self._sent])

    def choose(self, keys: dict[str, str | int]) -> None:
        for name, key in keys.items():
            if isinstance(key, int):
                self.send("step", key)
            else:
                self.send("field", name, key)

    @property
    def draft(self) -> dict[str, Any]:
        return self.form.draft

    def key(self, name: str) -> str:
        (found,) = (field["key"] for field in self.draft["fields"] if field["name"] == name)
        return found


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_mapped_previewed_and_opened(tmp_path: Path, name: str) -> None:
    write_unknown(tmp_path, name)
    page = Page(tmp_path)
    page.context.mapping_form = "open"
    page.choose(FILES[name].keys)
    assert len(page.draft["samples"]) == 3, page.draft["problem"]
    assert page.draft["opens"]
    page.send("open")
    (opened,) = page.opened
    assert opened[0] == tmp_path
    assert FILES[name].keys.items() <= opened[1].items()
    assert tomllib.loads(page.draft["toml"])["map"].items() <= opened[1].items()


def test_the_form_opens_by_itself_where_a_file_looks_like_rollouts(tmp_path: Path) -> None:
    write_unknown(tmp_path, "plain.jsonl")
    page = Page(tmp_path)
    assert page.form.visible
    response = next(field for field in page.draft["fields"] if field["name"] == "response")
    assert (response["key"], response["level"], response["sure"]) == ("completion", "high", "96%")
    assert response["reason"]
    page.send("close")
    assert not page.form.visible
    page.context.mapping_form = "open"
    assert page.form.visible


def test_a_change_is_previewed_and_marked_as_ones_own(tmp_path: Path) -> None:
    write_unknown(tmp_path, "plain.jsonl")
    page = Page(tmp_path)
    page.send("field", "reward", "")
    assert ["reward", "1"] not in page.draft["samples"][0]["facts"]
    page.send("field", "reward", "passed")
    assert ["reward", "1"] in page.draft["samples"][0]["facts"]
    page.send("step", 5)
    assert ["step", "5"] in page.draft["samples"][0]["facts"]
    page.send("field", "prompt", "completion")
    prompt = next(field for field in page.draft["fields"] if field["name"] == "prompt")
    assert (prompt["key"], prompt["level"]) == ("completion", "own")
    page.send("add", "ref_reward")
    assert page.key("ref_reward") == ""
    assert page.draft["option"].startswith("rlpanel serve ")


def test_without_a_text_nothing_opens(tmp_path: Path) -> None:
    write_unknown(tmp_path, "plain.jsonl")
    page = Page(tmp_path)
    page.choose({"prompt": "", "response": ""})
    assert (page.draft["opens"], page.draft["samples"]) == (False, [])
    assert "prompt" in page.draft["problem"]


def test_saving_writes_the_file_that_opens_the_folder(tmp_path: Path) -> None:
    write_unknown(tmp_path, "plain.jsonl")
    page = Page(tmp_path)
    page.send("save")
    assert tomllib.loads((tmp_path / "rlpanel.toml").read_text())["map"]["response"] == "completion"
    assert page.opened == [(tmp_path, {})]


def test_a_file_that_cannot_be_written_is_said_and_its_text_stays(tmp_path: Path) -> None:
    write_unknown(tmp_path, "plain.jsonl")
    (tmp_path / "rlpanel.toml").mkdir()
    page = Page(tmp_path)
    page.send("save")
    assert page.draft["failure"].startswith("cannot be saved: ")
    assert page.opened == []
    assert "[map]" in page.draft["toml"]


@pytest.mark.parametrize(
    "message",
    [
        ["field", "prompt", "nosuch"],
        ["field", "nosuch", "completion"],
        ["field", "rank", "completion"],
        ["field", ["prompt"], "completion"],
        ["step", 2**53],
        ["step", True],
        ["step", 1.5],
        ["add", "nosuch"],
        ["file", 7],
        ["file", -1],
        ["file", "../other.jsonl"],
        ["open", "now"],
        [],
        "open",
        {"do": "open"},
    ],
    ids=repr,
)
def test_what_the_browser_may_not_ask_for_changes_nothing(tmp_path: Path, message: Any) -> None:
    write_unknown(tmp_path, "plain.jsonl")
    page = Page(tmp_path)
    before = {name: value for name, value in page.draft.items() if name != "answered"}
    send(page.form, [*message, 1] if isinstance(message, list) else message)
    assert {name: value for name, value in page.draft.items() if name != "answered"} == before
    assert page.opened == []


def test_a_viewer_who_may_write_nothing_sees_no_file(tmp_path: Path) -> None:
    write_unknown(tmp_path, "plain.jsonl")
    page = Page(tmp_path, read_only=True)
    page.context.mapping_form = "open"
    for message in (["file", 0], ["open"], ["save"]):
        page.send(*message)
    assert not page.form.visible
    assert (page.form.found, page.opened) == ({}, [])
    assert not (tmp_path / "rlpanel.toml").exists()


def test_links_hidden_files_and_configurations_are_not_listed(tmp_path: Path) -> None:
    folder = tmp_path / "root"
    folder.mkdir()
    write_unknown(folder, "plain.jsonl")
    write_unknown(tmp_path, "nested.jsonl")
    (folder / "link.jsonl").symlink_to(tmp_path / "nested.jsonl")
    append(folder / ".hidden.jsonl", b'{"prompt": "secret"}\n')
    append(folder / "credentials.json", b'{"password": "secret"}\n')
    page = Page(folder)
    assert page.form.found["files"] == ["plain.jsonl"]
    assert "secret" not in json.dumps([page.form.found, page.draft])


def test_another_file_of_the_folder_is_shown_when_it_is_chosen(tmp_path: Path) -> None:
    write_unknown(tmp_path, "plain.jsonl")
    write_unknown(tmp_path, "unnamed.jsonl")
    page = Page(tmp_path)
    page.send("file", page.form.found["files"].index("unnamed.jsonl"))
    assert {line["key"] for line in page.form.found["tree"]} == {"a", "b", "c"}


def test_a_huge_record_is_sent_as_a_small_one(tmp_path: Path) -> None:
    record = {"question": SCRIPT * 200_000, "completion": "x" * 10**6, "k" * 10**5: list(range(10**5))}
    record |= {f"key {at}": at for at in range(5000)}
    append(tmp_path / "log.jsonl", json.dumps(record).encode() + b"\n")
    page = Page(tmp_path)
    assert page.form.visible
    assert len(json.dumps([page.form.found, page.draft])) < 200_000


def test_the_form_leaves_when_a_run_appears(tmp_path: Path) -> None:
    write_unknown(tmp_path, "plain.jsonl")
    page = Page(tmp_path)
    page.context.mapping_form = "open"
    page.context.runs = [RunInfo("run", path_of(tmp_path / "run"), 1, 1, 0.0)]
    assert not page.form.visible
    assert page.context.mapping_form == "auto"
    page.send("open")
    assert page.opened == []
