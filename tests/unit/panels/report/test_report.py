from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path

import numpy as np
import pytest

from rlpanel.api.open_run import open_run
from rlpanel.api.run import Run
from rlpanel.app.run_export import report_of
from rlpanel.display_settings import Display
from rlpanel.errors import FilterError, SettingError
from rlpanel.panels.report.carried_samples import collect_samples, jsonable
from rlpanel.panels.report.report import board_html, frozen, select_rows
from rlpanel.panels.session.context import Context
from rlpanel.panels.ui.html_document import document
from rlpanel.store.query.query import QueryResult
from tests.factories import append, line, write_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return open_run(
        write_run(tmp_path_factory.mktemp("runs") / "run", steps=[2, 4], samples=12), follow=False
    )


@pytest.fixture(scope="module")
def page(run: Run) -> bytes:
    """The report of a step, which takes half a second."""
    return report_of(run, step=2)


def context_of(run: Run, **selected: object) -> Context:
    return frozen(Context(index=run.index, view=run.view), **selected)


def data_of(page: bytes) -> dict:
    """Return the JSON data of a page."""
    return json.loads(re.search(rb'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1])


def test_only_the_scripts_of_the_page_may_run_and_nothing_may_load() -> None:
    page = document("t", "", "", {}, ["one()", "two()"]).decode()
    policy = re.search(r'Content-Security-Policy" content="(.*?)"', page)[1].replace("&#x27;", "'")
    hashes = [base64.b64encode(hashlib.sha256(code).digest()).decode() for code in (b"one()", b"two()")]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["script-src"] == " ".join(f"'sha256-{code}'" for code in hashes)
    assert rules["default-src"] == "'none'"


def test_no_text_ends_the_script_that_holds_it() -> None:
    page = document("</title><b>", "", "", {"text": "</script><!-- <script>"}, ["x('</script>')"]).decode()
    assert page.count("</script>") == 2
    assert "</title><b>" not in page
    assert data_of(page.encode()) == {"text": "</script><!-- <script>"}


def test_values_without_a_json_form_are_encoded_as_objects() -> None:
    values = {"b": b"\x00\xff", "n": [float("nan"), float("-inf"), 0.5], "t": "NaN", "i": 3}
    assert jsonable(values) == {
        "b": {"bytes": "AP8="},
        "n": [{"number": "NaN"}, {"number": "-Infinity"}, 0.5],
        "t": "NaN",
        "i": 3,
    }


def test_the_newest_step_is_shown_where_none_is_asked_for(run: Run) -> None:
    page = report_of(run, step=None).decode()
    assert "<title>run · step 4 · rlpanel</title>" in page


def test_a_step_that_is_not_there_is_refused_with_the_nearest(run: Run) -> None:
    with pytest.raises(SettingError, match="step 9 is not in run 'run'; step 4 is the nearest"):
        report_of(run, step=9)


def test_a_filter_that_is_none_is_refused(run: Run) -> None:
    with pytest.raises(FilterError, match="rewart"):
        report_of(run, step=2, filter="rewart < 1")


def test_the_selected_sample_is_always_included(run: Run) -> None:
    rows = run.snapshot.rows_of(2)
    last = run.snapshot.uid(rows[-1])
    found = select_rows(context_of(run, step=2, sort="-reward", uid=last), QueryResult(rows, len(rows)), 3)
    assert found.tolist() == [*rows[:2], rows[-1]]


def test_a_report_of_few_samples_has_the_same_ones_each_time(run: Run) -> None:
    outcome = QueryResult(run.snapshot.rows_of(2), 12)
    drawn = [select_rows(context_of(run, step=2), outcome, 4).tolist() for _ in range(2)]
    assert drawn[0] == drawn[1]
    assert len(set(drawn[0])) == 4


def test_samples_that_would_make_the_page_too_large_are_counted(run: Run) -> None:
    rows = run.snapshot.rows_of(2)
    carried = collect_samples(context_of(run, step=2), rows, QueryResult(rows, len(rows)), most=10_000)
    assert 0 < len(carried.samples) < 12
    assert carried.too_long == 12 - len(carried.samples)
    assert carried.table.count("<tr data-sample") == len(carried.samples)


def test_a_report_says_that_densities_stand_for_ridges(run: Run) -> None:
    for band, said in {"ridge": True, "density": False}.items():
        shown = Context(index=run.index, view=run.view, display=Display(band=band))
        page = board_html(frozen(shown, step=2), samples=1)
        assert (b"ridges, which are replaced by densities" in page) is said
        assert '"name": "density"' in json.dumps(data_of(page)["plots"])


def test_a_report_shows_each_curve_once(page: bytes) -> None:
    titles = re.findall(r'<div class="card"><div class="head" title="([^(:]+)', page.decode())
    assert "reward" in titles
    assert len(titles) == len(set(titles))


def test_a_sample_whose_line_is_gone_is_counted(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", samples=4)
    run = open_run(folder, follow=False)
    log = folder / "rollout_data_rank_0.jsonl"
    log.write_bytes(log.read_bytes()[:-40])
    rows = np.array([0, run.snapshot.rows - 1])
    carried = collect_samples(context_of(run, step=1), rows, QueryResult(rows, 2))
    assert (len(carried.samples), carried.unread) == (1, 1)


def test_a_report_holds_what_both_themes_differ_in(page: bytes) -> None:
    data = data_of(page)
    assert '["#ff9d5c", "#b84c0a"]' in json.dumps(data["colors"])
    models = re.findall(r'"id": "(p\d+)"', json.dumps(data["plots"]))
    assert set(data["colors"]) <= set(models)


def test_a_report_folds_prompts_and_shows_what_was_found_in_them(tmp_path: Path) -> None:
    prompt = "[system] Be <b>kind</b>.\n[user] What is 2 + 2?"
    folder = tmp_path / "run"
    folder.mkdir()
    append(folder / "rollout_data_rank_0.jsonl", line(1, prompt=prompt, response="so <kind> of you<pad>"))
    made = open_run(folder, follow=False)
    page = board_html(context_of(made, step=1)).decode()
    assert "<details><summary>system · 15 characters</summary>" in page
    assert "so &lt;kind&gt; of you</p>" in page
    assert '<td data-column="prompt">What is 2 + 2?</td>' in page
    found = board_html(context_of(made, step=1, search="kind")).decode()
    assert "<details open><summary>system · 15 characters" in found
    assert "Be &lt;b&gt;<mark>kind</mark>&lt;/b&gt;." in found
    assert "so &lt;<mark>kind</mark>&gt; of you</p>" in found
    assert '<td data-column="prompt">…&lt;b&gt;kind&lt;/b&gt;.' in found
