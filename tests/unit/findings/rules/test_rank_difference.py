from __future__ import annotations

import numpy as np

from rlpanel.findings.rules.ranks import differing_stretch


def test_a_rank_differs_until_half_of_the_difference_is_gone() -> None:
    gap = np.r_[np.zeros(10), np.full(6, -1.0), np.full(4, -0.6), np.zeros(6)]
    far = np.zeros(len(gap), bool)
    far[13:16] = True  # windows of four steps that are far from 0, compared with their errors
    assert np.flatnonzero(differing_stretch(far, gap, 4)).tolist() == list(range(10, 20))
    gap[20:] = -0.6
    assert np.flatnonzero(differing_stretch(far, gap, 4)).tolist() == list(range(10, 26))
