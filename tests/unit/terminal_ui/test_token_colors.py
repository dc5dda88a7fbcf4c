"""Colours of tokens: by distance from the neutral value, on one scale, and harmless."""

from __future__ import annotations

import math

import pytest

from rlpanel.terminal_ui.token_colors import (
    chosen_metric,
    colored_tokens,
    has_light_background,
    legend,
    share_of,
    strongest,
    style_of,
    token_text,
)


@pytest.mark.parametrize(
    ("value", "metric", "scale", "share"),
    [
        (0.0, "log_ratio", (-2.0, 2.0), 0.0),
        (1.0, "log_ratio", (-2.0, 2.0), 0.5),
        (-9.0, "log_ratio", (-2.0, 2.0), -1.0),
        (1.5, "ratio", (0.5, 1.5), 1.0),
        (0.25, "prob", (0.0, 1.0), 0.75),
        (-3.0, "logprob", (-6.0, 0.0), -0.5),
        (math.nan, "kl_k3", (0.0, 1.0), 0.0),
        (math.inf, "kl_k3", (0.0, 1.0), 1.0),
    ],
)
def test_a_value_has_its_place_on_the_scale(
    value: float, metric: str, scale: tuple[float, float], share: float
) -> None:
    assert share_of(value, metric, scale) == pytest.approx(share)


def test_a_larger_distance_is_a_stronger_colour() -> None:
    reds = [style_of(share).bgcolor for share in (0.2, 0.5, 1.0)]
    levels = [color.triplet.red for color in reds if color is not None and color.triplet is not None]
    assert len(levels) == 3
    assert levels == sorted(levels)
    assert style_of(0.05).bgcolor is None
    assert style_of(-1.0).bgcolor != style_of(1.0).bgcolor


def test_tokens_without_a_value_have_no_colour_and_controls_are_gone() -> None:
    text = colored_tokens(
        ["a", "\x1b[2J", "b\n"],
        [5.0, None, 5.0],
        "log_ratio",
        (-5.0, 5.0),
        untrained=[False, False, True],
    )
    assert text.plain == "a [2Jb↵\n"
    assert [span.start for span in text.spans if getattr(span.style, "bgcolor", None)] == [0, 5]
    assert token_text("\t\u202e") == "→    "


def test_the_legend_names_both_ends_and_the_farthest_tokens_come_first() -> None:
    assert legend("kl_k3", (0.0, 3.0), "nats").plain.startswith("kl_k3  0 ")
    assert "−5" in legend("log_ratio", (-5.0, 5.0)).plain
    assert strongest(["a", "b", "c"], [1.0, None, -4.0], "log_ratio", (-5, 5), 2) == [
        (2, "c", -4.0),
        (0, "a", 1.0),
    ]


def test_the_metric_is_the_wanted_one_or_the_first_that_is_known() -> None:
    assert chosen_metric(["surprisal", "value"], "value") == "value"
    assert chosen_metric(["value", "surprisal"]) == "surprisal"
    assert chosen_metric([]) == ""


def test_a_light_terminal_is_known_by_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLORFGBG", "0;15")
    assert has_light_background()
    monkeypatch.setenv("COLORFGBG", "15;0")
    assert not has_light_background()
