"""The selection and its query string."""

from __future__ import annotations

import subprocess
import sys

import param
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlpanel import display_settings
from rlpanel.app.page import run_pages
from rlpanel.board_url import BANDS, KEYS, MAX_QUERY, MODES, PAGES, QUESTIONS, TABS, board_link, read_query
from rlpanel.display_settings import Display
from rlpanel.panels.conversation import conversation_view
from rlpanel.panels.sample import sample_tabs
from rlpanel.panels.session.context import Context, Selection

selections = st.builds(
    dict,
    run=st.text(min_size=1, max_size=20),
    split=st.text(max_size=9),
    step=st.integers(0, 10**6),
    uid=st.text(min_size=1, max_size=20),
    token=st.integers(0, 10**5),
    metric=st.sampled_from(["kl_k3", "value"]),
    curves=st.lists(st.text("abc_/ü,%2C", max_size=9), max_size=3),
    search=st.text(max_size=20),
    filter=st.sampled_from(["", "reward < 0", 'tag == "月 &=%"']),
    scope=st.sampled_from(["step", "run"]),
    sort=st.sampled_from(["", "reward", "-kl_k3_mean"]),
    overlay_runs=st.lists(st.text("ab,/%@ü月 ", min_size=1, max_size=9), max_size=8, unique=True),
    overlay_splits=st.lists(st.text("ab,/%@ü月 ", min_size=1, max_size=9), max_size=8, unique=True),
    align=st.sampled_from(["step", "samples", "time"]),
    smooth=st.integers(0, 99).map(lambda share: share / 100),
    compared_run=st.text(max_size=20),
    samples_here=st.sampled_from(["newest", "best", "0", "1200"]),
    samples_there=st.sampled_from(["newest", "best", "-5"]),
    turn=st.integers(0, 10**4),
    page=st.sampled_from(["", *PAGES]),
    tab=st.sampled_from(["", *TABS]),
    mode=st.sampled_from(MODES),
    band=st.sampled_from(["", *BANDS]),
    explain=st.sampled_from(["", *QUESTIONS, "contrast:1..2 & 3", "shares:kl_k3"]),
    finding=st.sampled_from(["", "sustained_change:rewards/a & b", "truncated:"]),
    columns=st.dictionaries(st.text("ab,:%ü ", max_size=5), st.text("ab,:%ü <", max_size=5), max_size=3),
)


@given(selections)
def test_a_selection_survives_writing_and_reading_the_query(values: dict[str, object]) -> None:
    selection = Selection(follow=False, **values)
    read, problems = read_query(Context(selection=selection).query)
    again = Selection(**{**read, "follow": False})
    assert problems == []
    assert {name: getattr(again, name) for name in values} == values


def test_the_default_selection_has_no_query() -> None:
    assert Context().query == ""


def test_a_followed_step_is_not_in_the_address() -> None:
    followed = Selection(run="a", step=7, uid="x:0", follow=True)
    assert Context(selection=followed).query == "?run=a"


def test_a_run_named_by_a_number_is_text() -> None:
    assert read_query("?run=123")[0] == {"run": "123"}


@pytest.mark.parametrize(
    "bad",
    [
        "step=x",
        "token=1.5",
        "scope=all",
        "theme=pink",
        "align=x",
        "smooth=1",
        "here_at=x",
        "here_at=20..10",
        "there_at=1..2..3",
        "tab=x",
        "page=nosuch",
        "mode=x",
        "turn=-1",
        "turn=x",
        "band=x",
        "columns=x",
        "kl=x",
        "stuck_steps=0",
        "explain=x:contrast",
        "over=a,b,c,d,e,f,g,h,i",
    ],
)
def test_a_bad_value_is_ignored_alone(bad: str) -> None:
    values, problems = read_query(f"?run=a&{bad}")
    assert values == {"run": "a"}
    assert len(problems) == 1
    assert bad == f"{problems[0].key}={problems[0].text}"


def test_a_named_step_or_sample_ends_following() -> None:
    assert read_query("step=3")[0] == {"step": 3, "follow": False}
    assert read_query("sample=f:0")[0] == {"uid": "f:0", "follow": False}


def test_unknown_keys_are_left_alone() -> None:
    assert read_query("?utm=1&__proto__=2") == ({}, [])


def test_an_endless_query_is_not_read() -> None:
    values, problems = read_query("?run=" + "a" * MAX_QUERY)
    assert values == {}
    assert [problem.key for problem in problems] == [""]


def test_every_default_of_the_selection_is_left_out() -> None:
    defaults = {
        name: Selection.param[name].default for name in Selection.param if name not in ("name", "follow")
    }
    settings = {name: Display.param[name].default for name in Display.param if name not in ("name", "band")}
    assert {key.parameter: key.default for key in KEYS.values()} == defaults | settings


def test_each_display_setting_survives_writing_and_reading() -> None:
    for name in Display.param:
        parameter = Display.param[name]
        if name in ("name", "band"):
            continue
        values = {
            param.Boolean: lambda it: [True, False],
            param.Selector: lambda it: list(it.objects),
            param.Integer: lambda it: list(it.bounds),
            param.Number: lambda it: list(it.bounds),
            param.String: lambda it: ["", "<|im_end|>&x=%"],
        }[type(parameter)](parameter)
        for value in values:
            read, problems = read_query(Context(display=Display(**{name: value})).query)
            assert problems == []
            assert read.get(name, parameter.default) == value


def test_the_theme_of_an_old_link_is_read_and_never_written() -> None:
    assert read_query("theme=light") == ({"dark": False}, [])
    assert Context(selection=Selection(dark=False)).query == ""


def test_a_shared_link_names_the_followed_step_and_the_shown_sample() -> None:
    context = Context(selection=Selection(run="a", step=7))
    assert (context.query, context.shared_query) == ("?run=a", "?run=a&step=7")


def test_a_link_is_written_without_the_board() -> None:
    code = "import sys, rlpanel.board_url; print(sorted({'panel', 'numpy', 'pandas'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_name_that_is_not_unicode_is_replaced() -> None:
    assert board_link("a\udcff", filter="x") == "http://localhost:5006/?run=a%3F&filter=x&scope=run"


def test_the_address_names_each_tab_page_mode_and_band_of_the_board() -> None:
    assert [tab.key for tab in sample_tabs.TABS] == list(TABS)
    assert {*run_pages.BOARD[1:], *(page.key for page in run_pages.PAGES)} <= set(PAGES)
    assert conversation_view.MODES == MODES
    assert sorted(display_settings.BANDS.values()) == sorted(BANDS)


def test_another_sample_or_step_leaves_the_turn() -> None:
    selection = Context().selection
    for change in ({"uid": "b"}, {"step": 3}):
        selection.turn = 5
        selection.param.update(**change)
        assert selection.turn is None
    selection.param.update(uid="c", turn=7)
    assert selection.turn == 7


def test_the_band_of_the_address_and_of_the_settings_are_one() -> None:
    context = Context(selection=Selection(band="density"))
    assert context.display.band == "density"
    context.display.band = "std"
    assert context.selection.band == "std"
    context.selection.band = ""
    assert context.display.band == "auto"
    context.display.band = "auto"
    assert context.query == ""
