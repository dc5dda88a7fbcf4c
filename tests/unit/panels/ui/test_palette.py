"""Colours with different meanings differ for every reader, in both themes."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from rlpanel.panels.ui import theme
from tests.color_vision import EYES, distance

#: Smallest distance in CIELAB; 2.3 is the smallest that a trained eye notices on large areas.
APART = 25.0
_EYES = {"all cones": np.eye(3), **{name: EYES[name] for name in ("protanopia", "deuteranopia")}}


@pytest.mark.parametrize("eye", _EYES)
@pytest.mark.parametrize("dark", [True, False], ids=["dark", "light"])
def test_colours_of_different_meaning_are_apart_for_every_eye(dark: bool, eye: str) -> None:
    colors = theme.palette(dark)
    near = {
        pair: found
        for together in theme.TOLD_APART
        for pair in combinations(together, 2)
        if (found := distance(*(colors[name] for name in pair), _EYES[eye])) < APART
    }
    assert near == {}


@pytest.mark.parametrize("dark", [True, False], ids=["dark", "light"])
def test_no_colour_that_marks_the_worse_is_green(dark: bool) -> None:
    colors = theme.palette(dark)
    for name in ("bad", "entropy", "kl", "policy"):
        red, green, blue = (int(colors[name][at : at + 2], 16) for at in (1, 3, 5))
        assert not (green > red and green > blue), name


@pytest.mark.parametrize("eye", _EYES)
@pytest.mark.parametrize("dark", [True, False], ids=["dark", "light"])
def test_categories_are_apart_for_every_eye(dark: bool, eye: str) -> None:
    colors = theme.CATEGORIES[dark]
    apart = {pair: distance(*pair, _EYES[eye]) for pair in combinations(colors, 2)}
    assert min(apart.values()) > APART, apart
    surface = theme.palette(dark)["surface"]
    assert min(distance(surface, color, _EYES[eye]) for color in colors) > 10
