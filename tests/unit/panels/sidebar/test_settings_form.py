"""Settings: messages from the browser are checked before they change anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rlpanel
from rlpanel.api.run import Run
from rlpanel.app.demo import write_recording
from rlpanel.panels.session.context import Context
from rlpanel.panels.sidebar.settings_form import SettingsForm
from tests.factories import append, line, write_run
from tests.page_parts import send


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return rlpanel.open_run(write_run(tmp_path / "run", steps=2), follow=False)


@pytest.fixture
def form(run: Run) -> SettingsForm:
    return SettingsForm(Context(index=run.index, view=run.view))


def show_appended(form: SettingsForm, run: Run, *lines: bytes) -> None:
    append(run.path / "rollout_data_rank_0.jsonl", *lines)
    run.index.rescan()
    while run.index.read():
        pass
    form.context.view = run.view


def fields(form: SettingsForm) -> dict[str, dict[str, Any]]:
    return {field["name"]: field for group in form.groups for field in group["fields"]}


def test_every_field_says_what_it_does(form: SettingsForm) -> None:
    for name, field in fields(form).items():
        assert field["label"], name
        assert field["kind"] == "fact" or field["help"], name


def test_a_change_is_applied_and_shown(form: SettingsForm) -> None:
    send(form, ["max_samples", 50, 1])
    assert form.context.display.max_samples == 50
    assert fields(form)["max_samples"]["value"] == 50


def test_a_change_elsewhere_is_shown(form: SettingsForm) -> None:
    form.context.display.pad_token = "<pad>"
    assert fields(form)["pad_token"]["value"] == "<pad>"


@pytest.mark.parametrize(
    "message",
    [
        ["max_samples", "many"],
        ["max_samples", -5],
        ["kl_estimator", "no such estimator"],
        ["kl_estimator", ["kl_k3"]],
        ["curves", ["no such column"]],
        ["name", "x"],
        ["__class__", "x"],
        ["run", "../elsewhere"],
        ["dark", False],
    ],
    ids=str,
)
def test_a_value_that_is_not_valid_changes_nothing(form: SettingsForm, message: Any) -> None:
    display, selection = form.context.display.param.values(), form.context.selection.param.values()
    send(form, [*message, 1])
    assert form.context.display.param.values() == display
    assert form.context.selection.param.values() == selection
    assert form.answered == 1


def test_a_step_is_no_reason_to_draw_the_form(form: SettingsForm, run: Run) -> None:
    drawn: list[Any] = []
    form.param.watch(drawn.append, "groups")
    show_appended(form, run, line(3), line(3, index=1))
    assert not drawn
    show_appended(form, run, line(4, novelty=0.5))
    assert "novelty" in [name for name, *_ in fields(form)["curves"]["options"]]


def test_a_step_changes_the_note_of_an_inferred_constant(tmp_path: Path) -> None:
    write_recording("ppo_couplets", tmp_path / "run")
    (log,) = (tmp_path / "run").glob("rollout*")
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:160]))
    run = rlpanel.open_run(tmp_path / "run", follow=False)
    form = SettingsForm(Context(index=run.index, view=run.view))
    drawn: list[Any] = []
    form.param.watch(drawn.append, "groups")
    before = form.facts["constant:kl_coef"]
    show_appended(form, run, *lines[160:256])
    value, note = form.facts["constant:kl_coef"]
    assert value == before[0] == "0.03 (inferred)"
    assert "in 2 of 3 steps" in before[1]
    assert note != before[1]
    assert not drawn


def test_the_menu_of_curves_is_grouped_sorted_and_says_what_each_means(form: SettingsForm) -> None:
    options = fields(form)["curves"]["options"]
    headings = list(dict.fromkeys(heading for *_, heading, _ in options))
    assert headings[0] == "Rewards"
    assert len(headings) == len({heading for *_, heading, _ in options}), "each heading stands once"
    for heading in headings:
        labels = [label.lower() for _, label, of, _ in options if of == heading]
        assert labels == sorted(labels)
    [meaning] = [meaning for name, *_, meaning in options if name == "kl_k3_mean"]
    assert "divergence" in meaning.lower() or "KL" in meaning
