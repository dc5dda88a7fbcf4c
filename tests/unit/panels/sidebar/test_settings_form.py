"""Settings: messages from the browser are checked before they change anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rlpanel
from rlpanel.panels.session.context import Context
from rlpanel.panels.sidebar.settings_form import SettingsForm
from tests.factories import write_run


@pytest.fixture
def form(tmp_path: Path) -> SettingsForm:
    run = rlpanel.open_run(write_run(tmp_path / "run", steps=2), follow=False)
    return SettingsForm(Context(index=run.index, view=run.view))


def fields(form: SettingsForm) -> dict[str, dict[str, Any]]:
    return {field["name"]: field for group in form._form.groups for field in group["fields"]}


def test_every_field_says_what_it_does(form: SettingsForm) -> None:
    for name, field in fields(form).items():
        assert field["label"], name
        assert field["kind"] == "fact" or field["help"], name


def test_a_change_is_applied_and_shown(form: SettingsForm) -> None:
    form._on_change(["max_samples", 50])
    assert form.context.display.max_samples == 50
    assert fields(form)["max_samples"]["value"] == 50


def test_a_change_elsewhere_is_shown(form: SettingsForm) -> None:
    form.context.display.pad_token = "<pad>"
    assert fields(form)["pad_token"]["value"] == "<pad>"


@pytest.mark.parametrize(
    "message",
    [
        None,
        "max_samples",
        ["max_samples"],
        [1, 2],
        ["max_samples", "many"],
        ["max_samples", -5],
        ["band", "no such band"],
        ["band", ["std"]],
        ["curves", ["no such column"]],
        ["name", "x"],
        ["__class__", "x"],
        ["run", "../elsewhere"],
        ["dark", False],
    ],
    ids=str,
)
def test_a_message_that_is_not_valid_changes_nothing(form: SettingsForm, message: Any) -> None:
    display, selection = form.context.display.param.values(), form.context.selection.param.values()
    form._on_change(message)
    assert form.context.display.param.values() == display
    assert form.context.selection.param.values() == selection
