"""A finding that was raised continues, is held while it is not found for some steps, and ends once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rlpanel.findings.engine.finding import Finding
from rlpanel.findings.engine.raised import HOLD, PATIENCE, UNLISTED, RaisedFindings, parse_raised

KEY = "sustained_change:reward"


def finding(severity: str = "warning", subject: str = "reward") -> Finding:
    return Finding(
        severity=severity,  # type: ignore[arg-type]
        sentence="The reward fell.",
        evidence=("By 0.3.",),
        steps=(8, 9, 11),
        ongoing=True,
        rule="sustained_change",
        subject=subject,
    )


def shown(*checks: str, state: RaisedFindings | None = None) -> tuple[RaisedFindings, list[str]]:
    """The state after a check of each step from 11 on, and the severity that each shows, ``-`` for none."""
    state = state or RaisedFindings()
    words: list[str] = []
    for at, severity in enumerate(checks):
        found = [finding(severity)] if severity else []
        state, held = state.update(found, np.arange(1, 12 + at), settled=False)
        words.append(held[0].severity if held else "-")
    return state, words


def test_a_gap_does_not_show_and_an_end_is_an_end() -> None:
    # It was found over more than two steps, so it is confirmed and held twice as long.
    hold = UNLISTED
    state, words = shown("warning", "", "", "warning", *[""] * (hold + 3))
    assert words == ["warning"] * (4 + hold - 1) + ["-"] * 4
    assert (state.by_key[KEY].first, state.by_key[KEY].last, state.by_key[KEY].ended) == (11, 14, 14 + hold)


def change(subject: str, at: int = 8) -> Finding:
    return Finding(
        severity="warning",
        sentence="It changed.",
        steps=(at, 9, 11),
        rule="something_changed",
        subject=subject,
    )


def test_a_change_of_several_numbers_stays_the_same_whichever_is_the_largest() -> None:
    state = RaisedFindings()
    for at, found in enumerate([change("kl"), change("length", 7), change("kl"), change("kl")]):
        state, held = state.update([found], np.arange(1, 12 + at), settled=False)
        assert [each.subject for each in held] == [found.subject]
    [entry] = state.by_key.values()
    assert (entry.first, entry.last, entry.confirmed, entry.returns) == (11, 14, True, 0)


def test_a_change_at_another_step_is_another_finding() -> None:
    state, _ = RaisedFindings().update([change("kl", 3)], np.arange(1, 12), settled=False)
    state, _ = state.update([change("length", 8)], np.arange(1, 13), settled=False)
    assert set(state.by_key) == {"something_changed:kl", "something_changed:length"}


def test_what_the_rules_call_ended_is_held_as_a_warning_before_it_is_an_info() -> None:
    _, words = shown("alarm", *["info"] * (HOLD + 1))
    assert words == ["alarm", *["warning"] * (HOLD - 1), "info", "info"]


def test_a_held_finding_says_up_to_which_step_it_was_found() -> None:
    state, _ = shown("warning")
    _, held = state.update([], np.arange(1, 13), settled=False)
    assert held[0].evidence[-1].startswith("It was found up to step 11")
    assert not held[0].ongoing


def test_late_lines_of_the_same_step_end_nothing() -> None:
    state, _ = shown("warning")
    for _ in range(20):
        state, held = state.update([], np.arange(1, 12), settled=False)
    assert len(held) == 1


def test_what_comes_back_is_an_info_until_it_lasts_and_is_held_twice_as_long() -> None:
    back = ["warning"] * (HOLD + 1)
    state, words = shown("warning", *[""] * HOLD, *back, *[""] * UNLISTED)
    assert words[: HOLD + 1] == ["warning"] * HOLD + ["-"]
    assert words[HOLD + 1 :] == [*["info"] * HOLD, *["warning"] * UNLISTED, "-"]
    entry = state.by_key[KEY]
    assert (entry.returns, entry.first) == (1, 11 + HOLD + 1)


def test_what_comes_back_for_a_moment_is_not_raised_again() -> None:
    state, words = shown(*["warning"] * 4, *[""] * UNLISTED, "alarm", *[""] * HOLD)
    assert words[4 + UNLISTED - 1 :] == ["-", "info", *["-"] * HOLD]
    entry = state.by_key[KEY]
    assert (entry.first, entry.ended, entry.returns) == (11, 14 + UNLISTED, 0)
    assert len(state.records([])) == 1


def test_the_other_edge_of_a_change_that_has_ended_does_not_raise_it_again() -> None:
    # Shorter in steps 8 to 11, then as before: for some steps, the rule finds "longer from step 12 on".
    state, _ = shown(*["warning"] * 4, *["info"] * 2 * HOLD)
    ended = state.by_key[KEY].ended
    assert ended == 14 + 2 * HOLD
    edge = replace(finding(), steps=(12, 13))
    for more in range(2 * HOLD):
        state, held = state.update([edge], np.arange(1, ended + 2 + more), settled=False)
        assert held[0].severity == "info"
        assert not state.by_key[KEY].confirmed
    later = np.arange(1, ended + 2 + 3 * HOLD)
    for more in range(HOLD):
        state, _ = state.update([], later[: len(later) - HOLD + more], settled=False)
    assert (state.by_key[KEY].ended, state.by_key[KEY].returns) == (ended, 0)


def test_a_change_after_the_end_is_confirmed_as_fast_as_a_new_one() -> None:
    state, _ = shown(*["warning"] * 4, *["info"] * 2 * HOLD)
    other = replace(finding(), steps=(30, 31))
    for step in (31, 32, 33):
        state, _ = state.update([other], np.arange(1, step + 1), settled=False)
        assert state.by_key[KEY].confirmed == (step == 33)


@pytest.mark.parametrize(
    ("onset", "words"), [(8, "It was raised before"), (40, "Again since step 40: it was raised before")]
)
def test_another_episode_says_so(onset: int, words: str) -> None:
    state, _ = shown("warning", *[""] * HOLD)
    later = replace(finding(), steps=(onset, onset + 1))
    for at in range(HOLD + 1):
        state, held = state.update([later], np.arange(1, 43 + at), settled=False)
    assert held[0].evidence[0] == f"{words}, and had ended in step {11 + HOLD}."


@pytest.mark.parametrize(("after", "hold"), [("", UNLISTED), ("info", 2 * HOLD)])
def test_what_is_confirmed_is_held_longer_unless_its_rule_says_that_it_ended(after: str, hold: int) -> None:
    _, words = shown(*["warning"] * 4, *[after] * 30)
    assert words[4:].count("warning") == hold - 1


def test_a_finding_is_confirmed_when_it_lasts_and_so_is_an_alarm() -> None:
    states = [shown(*["warning"] * count)[0].by_key[KEY].confirmed for count in range(1, PATIENCE + 2)]
    assert states == [False] * PATIENCE + [True]
    entry = shown(*["warning"] * 5, "alarm")[0].by_key[KEY]
    assert (entry.confirmed, entry.alarm_confirmed) == (True, False)
    assert shown("warning", *["alarm"] * (PATIENCE + 1))[0].by_key[KEY].alarm_confirmed


def test_a_run_without_further_steps_confirms_what_is_found_and_ends_what_is_not() -> None:
    state, _ = RaisedFindings().update([finding()], np.arange(1, 12), settled=True)
    assert state.by_key[KEY].confirmed
    state, held = state.update([], np.arange(1, 12), settled=True)
    assert (state.by_key[KEY].ended, held) == (11, [])


def test_a_restart_from_an_earlier_step_forgets_what_its_steps_showed() -> None:
    state, _ = shown("warning", "warning")
    state, held = state.update([], np.arange(1, 6), settled=False)
    assert (dict(state.by_key), held) == ({}, [])


def test_the_record_of_a_confirmed_finding_stays_and_that_of_another_does_not() -> None:
    long, _ = shown(*["warning"] * 4, *[""] * UNLISTED)
    (record,) = long.records([])
    assert (record.severity, record.ongoing) == ("info", False)
    assert "Raised in step 11 and found up to step 14" in record.evidence[-1]
    assert not long.records([finding("info")])
    assert not shown("warning", *[""] * HOLD)[0].records([])


def test_the_state_survives_as_text() -> None:
    state, _ = shown(*["alarm"] * 4, *[""] * UNLISTED)
    state, _ = state.update([finding(), finding(subject="accuracy")], np.arange(1, 50), settled=False)
    assert state.by_key[KEY].before is not None
    assert parse_raised(state.text()) == state


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"version": 2, "raised": [{}]}', '{"version": 0, "raised": []}', "nonsense"]
)
def test_other_text_is_an_empty_state(text: str) -> None:
    assert parse_raised(text) == RaisedFindings()


def test_a_saved_value_of_another_type_is_an_empty_state() -> None:
    text = shown("alarm")[0].text()
    assert parse_raised(text.replace('"The reward fell."', "7")) == RaisedFindings()
    assert parse_raised(text.replace('"alarm", "sentence"', '"odd", "sentence"')) == RaisedFindings()
