"""The stack of reward parts: areas add up to the contributions, and names stay text."""

from __future__ import annotations

import numpy as np

from rlpanel.analysis.reward_parts import RewardPart
from rlpanel.panels.update.part_stack import MAX_PARTS, PartStack, legend_html, part_stack, stack_plot


def part(name: str, step: int | None, contribution: float | None) -> RewardPart:
    return RewardPart(name, step, 4, 0, 0.5, 1.0, "declared", contribution, 0.5)


def stack_of(values: dict[str, list[float | None]], reward: dict[int, float] | None = None) -> PartStack:
    parts = [part(name, step, each) for name, found in values.items() for step, each in enumerate(found)]
    return part_stack([part("right", None, 9.0), *parts], reward or {})


def test_positive_parts_stand_above_zero_and_negative_ones_below() -> None:
    found = stack_of({"right": [1.0, 2.0], "format": [0.5, 0.5], "length": [-0.25, -1.0]}, {0: 1.25, 1: 1.5})
    assert found.names == ("right", "length", "format")
    assert found.steps.tolist() == [0, 1]
    assert [list(map(float, each)) for each in (found.low[0], found.high[0])] == [[0, 0], [1, 2]]
    assert [list(map(float, each)) for each in (found.low[1], found.high[1])] == [[-0.25, -1], [0, 0]]
    assert [list(map(float, each)) for each in (found.low[2], found.high[2])] == [[1, 2], [1.5, 2.5]]
    assert np.allclose((found.high - found.low) * np.sign(found.contribution), found.contribution)
    assert found.reward.tolist() == [1.25, 1.5]


def test_parts_without_a_weight_are_named_and_not_drawn_as_zero() -> None:
    found = stack_of({"right": [1.0, 1.0], "constant": [None, None]})
    assert (found.names, found.unknown) == (("right",), ("constant",))
    assert np.isnan(found.reward).all()


def test_many_parts_share_the_last_area() -> None:
    found = stack_of({f"part {at}": [10.0 - at] for at in range(MAX_PARTS + 3)})
    assert found.names[-1] == "others"
    assert len(found.names) == MAX_PARTS
    assert found.contribution[-1, 0] == sum(10.0 - at for at in range(MAX_PARTS - 1, MAX_PARTS + 3))
    assert found.high[-1, 0] == sum(10.0 - at for at in range(MAX_PARTS + 3))


def test_names_of_parts_stay_text_in_the_legend() -> None:
    legend = legend_html(stack_of({"<img src=x>": [1.0]}), dark=False)
    assert "<img" not in legend
    assert "&lt;img" in legend


def test_one_step_has_no_plot() -> None:
    assert stack_plot(stack_of({"right": [1.0]}), None, dark=True) is None
    assert stack_plot(stack_of({"right": [1.0, 2.0]}), 1, dark=True) is not None
