"""The choice of the best step: which step it is, and that it does not bias the comparison."""

from __future__ import annotations

import numpy as np

from rlpanel.metrics.win_rate import win_rate_of
from rlpanel.store.snapshot.prompt_pairs import best_step, choosing_half

#: Keys of prompts that take part in the choice, and of prompts that do not.
CHOOSING, HELD_OUT = (1, 3), (2, 4)


def best(samples: list[tuple[int, int, float]]) -> int:
    """Return the best step of samples given as step, key and reward."""
    steps, keys, reward = (np.array(column) for column in zip(*samples, strict=True))
    keys = keys.astype(np.uint64)
    return best_step(steps, keys, reward.astype(float), choosing_half(keys))


def test_each_prompt_counts_once_however_many_samples_it_has() -> None:
    """Of the prompts that choose, step 1 has the means 1 and 0, step 2 has 0.6 and 0.6."""
    first = [(1, 1, 1.0)] * 9 + [(1, 3, 0.0), (1, 2, 0.0), (1, 4, 0.0)]
    second = [(2, key, 0.6) for key in (*CHOOSING, *HELD_OUT)]
    assert best(first + second) == best(second + first) == 2


def test_the_first_of_equal_steps_is_chosen() -> None:
    assert best([(step, key, 1.0) for step in (9, 4, 7) for key in (*CHOOSING, *HELD_OUT)]) == 4


def test_a_step_with_one_prompt_of_either_half_is_chosen_only_if_all_steps_are_like_it() -> None:
    full = [(1, key, 0.0) for key in (*CHOOSING, *HELD_OUT)]
    assert best([*full, (2, 1, 5.0), (2, 2, 5.0), (2, 4, 5.0), (3, 1, 5.0), (3, 3, 5.0), (3, 2, 5.0)]) == 1
    assert best([(2, 1, 5.0), (3, 1, 7.0), (4, 2, 9.0)]) == 3


def test_all_prompts_choose_if_the_run_has_none_of_the_choosing_half() -> None:
    assert choosing_half(np.array([2, 4], np.uint64)).all()
    assert best([(1, 2, 0.0), (2, 4, 1.0)]) == 2


def test_the_best_step_of_pure_noise_does_not_beat_another_run() -> None:
    """Two runs of 60 steps and 16 prompts, whose rewards are noise: the true difference is 0.

    Chosen and compared on the same prompts, the best step's interval is above 0 in over a quarter of runs.
    """
    chance = np.random.default_rng(20)
    steps = np.repeat(np.arange(60), 16)
    above, wrong, intervals = 0, 0, 0
    for _ in range(400):
        keys = np.tile(chance.integers(0, 2**63, 16).astype(np.uint64), 60)
        here, there = chance.normal(size=60 * 16), chance.normal(size=16)
        half = choosing_half(keys)
        at = steps == best_step(steps, keys, here, half)
        held_out = win_rate_of((here[at] - there)[~half[at]])
        intervals += not held_out.no_interval
        wrong += abs(held_out.mean) > held_out.half
        everything = win_rate_of(here[steps == here.reshape(60, 16).mean(1).argmax()] - there)
        above += everything.mean > everything.half
    assert intervals >= 399
    assert 0.92 <= 1 - wrong / intervals <= 0.98
    assert above > 0.25 * 400
