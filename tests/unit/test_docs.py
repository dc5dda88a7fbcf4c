"""The documentation matches the code."""

from __future__ import annotations

import re
from dataclasses import fields
from importlib import import_module
from xml.etree import ElementTree

from latex2mathml.converter import convert

from docs import generate
from rlpanel import schema
from rlpanel.metrics.engine import column_info
from rlpanel.metrics.engine.definition import COLUMNS
from rlpanel.recording import Options
from rlpanel.store.query.filter import LABEL, NUMBER, TEXT, Filter


def test_the_generated_pages_tell_what_the_code_declares() -> None:
    pages = generate.pages()
    assert len(pages) >= 13
    for path, text in pages.items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: run `make docs`"


def test_the_page_on_the_log_names_every_key_of_a_line() -> None:
    text = generate.log_page()
    assert [f.name for f in schema.FIELDS if f"`{f.name}`" not in text] == []


def _letters(formula: str) -> str:
    """Return the text of a formula as the site draws it."""
    return "".join(ElementTree.fromstring(convert(formula)).itertext())


def test_every_computed_metric_has_a_formula() -> None:
    without = {m.name for m in column_info.visible_metrics() if not m.formula}
    logged = {"token_reward", "token_entropy", "logprob", "ref_logprob", "engine_logprob", "value"}
    assert without == logged | {"correction_weight", "token_masked", "token_routing_mismatch"}


def test_the_site_can_draw_every_formula() -> None:
    drawn = {m.formula: _letters(m.formula) for m in column_info.visible_metrics() if m.formula}
    assert {
        formula for formula, letters in drawn.items() if not letters or re.search(r"[\\\\{}$]", letters)
    } == set()


def test_every_metric_has_an_entry_and_a_sentence() -> None:
    page = generate.metrics_page()
    missing = [
        m.name
        for m in column_info.visible_metrics()
        if f" · `{m.name}`\n" not in page or not m.help or not m.advice
    ]
    assert missing == []


def test_every_entry_says_what_a_number_compares_averages_and_leaves_undefined() -> None:
    sections = generate.metrics_page().split("\n### ")[1:]
    entries = {name: text for text in sections for name in re.findall(r"^.* · `(\w+)`\n", text)}
    assert entries.keys() == {*COLUMNS, *(m.name for m in column_info.visible_metrics())}
    for name, text in entries.items():
        said = column_info.describe(name).definition
        assert f"- **Averaged over:** {said.over}\n- **Not defined:** {said.undefined}\n" in text, name
        subject = f"- **Compares:** {said.pair}\n" if said.pair else f"- **Quantity:** {said.quantity}\n"
        assert subject in text, name


def test_every_setting_of_recording_is_told_of() -> None:
    page = (generate.FOLDER / "recording.md").read_text("utf-8")
    assert [field.name for field in fields(Options) if f"`{field.name}`" not in page] == []


def test_the_code_in_the_page_on_recording_names_what_is_there() -> None:
    page = (generate.FOLDER / "recording.md").read_text("utf-8")
    taken = re.findall(r"from (rlpanel[.\w]*) import (\w+)", page)
    assert [(module, name) for module, name in taken if not hasattr(import_module(module), name)] == []
    assert len(taken) == 6
    # What trainers and Ray import by its name.
    named = set(re.findall(r"(rlpanel\.recording\.\w+)\.(\w+)", page)) - set(taken)
    assert [name for name in named if not hasattr(import_module(name[0]), name[1])] == []
    assert {name[1] for name in named} >= {"log", "log_eval", "runtime_env", "install"}


def test_every_filter_in_the_page_on_finding_is_one() -> None:
    page = (generate.FOLDER / "find.md").read_text("utf-8")
    filters = [
        first or second for first, second in re.findall(r"^\| (?:``(.+?)``|`(.+?)`) \|", page, re.MULTILINE)
    ]
    kinds = dict.fromkeys(["group_reward", "copies", "judge_score", "rewards/format", "kl_k3_mean"], NUMBER)
    kinds |= dict.fromkeys(["reward", "ref_reward", "reward_gap", "response_tokens", "truncated"], NUMBER)
    kinds |= {"finish_reason": LABEL, "tag": LABEL, "response": TEXT, "answer": TEXT, "match": TEXT}
    named = {name for text in filters for name in Filter(text, kinds).columns}
    assert {*kinds} - named == {"response", "answer", "match"}


def test_every_picture_of_the_readme_is_carried() -> None:
    root = generate.FOLDER.parent
    pictures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", (root / "README.md").read_text("utf-8"))
    assert [picture for picture in pictures if not (root / picture).is_file()] == []
    assert pictures
