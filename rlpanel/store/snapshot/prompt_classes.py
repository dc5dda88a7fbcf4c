"""Class of each prompt over training, by its pass rate: learnt, forgotten, flickers, never, always or steady.

Passes of a visit are binomial, so a prompt that is a coin flip varies from visit to visit without any change.
A change must exceed that noise before a prompt counts as learnt, forgotten or flickering.
"""

from __future__ import annotations

import numpy as np

from rlpanel.store.snapshot.prompt_grid import PromptGrid

#: Classes; `SELDOM` are prompts at too few steps. Their positions are the codes.
LEARNT, FORGOTTEN, FLICKERS, NEVER, ALWAYS, STEADY, SELDOM = (
    *("learnt", "forgotten", "flickers", "never", "always", "steady", "seldom"),
)
CLASSES = (LEARNT, FORGOTTEN, FLICKERS, NEVER, ALWAYS, STEADY, SELDOM)
#: Pass rates up to which a prompt without a change is never, and from which on it is always solved.
LOW, HIGH = 0.05, 0.95
#: A move of the pass rate counts from here on, and if it is as many standard errors, but at most `MAX_MOVE`.
MIN_MOVE, MAX_MOVE, ERRORS = 0.3, 0.75, 3.0
#: Standard normal quantiles of the tests: 0.1 % of the prompts without a change exceed either.
DISPERSION_Z, DIFFERENCE_Z = 3.09, 3.29
#: Most blocks of consecutive visits in which moves are sought.
BLOCKS = 12
#: Cells whose prompts are classified at once.
_CELLS = 1 << 20
#: Least standard deviation of the pass rate between visits, beyond chance, of a prompt that flickers.
_SPREAD = 0.15


def prompt_classes(grid: PromptGrid, least: int) -> np.ndarray:
    """Return the position in `CLASSES` of each prompt's class, shape (P,).

    A visit is a step at which the prompt has a sample with a reward. The pass rate of a prompt *changes* if
    one of three tests of a constant rate fails: Pearson's χ² over the visits, the same over at most 12
    blocks of consecutive visits (both above the 99.9 % quantile), or the difference between the first and
    last third of the visits (beyond 3.29 standard errors). Variances are those of a rate between 5 % and 95
    %: a few passes of many attempts are no change. χ² is compared by the cube root of Wilson and Hilferty.

    A *move* is a difference of the pass rate between two turning points of the blocks of at least 30 points.
    It must also be three standard errors, but need not exceed 75 points.

    - **learnt**: changes, by one move up.
    - **forgotten**: changes, and the last move is the first one down.
    - **flickers**: changes, by more moves; or without a move, if the rates of visits have a standard
      deviation of 15 points or more beyond chance.
    - **never**, **always**: else, and at most 5 %, or at least 95 %, of the samples passed.
    - **steady**: else. Passes are in between, and chance explains how they vary.
    - **seldom**: fewer visits than ``least``, or than two.

    References
    ----------
    Pearson 1900, X² of a homogeneous binomial; Wilson, Hilferty 1931, The Distribution of Chi-Square.
    """
    found = []
    edges = np.append(grid.firsts, len(grid.prompt))
    first = 0
    while first < len(grid):
        last = max(int(np.searchsorted(edges, edges[first] + _CELLS, side="right")) - 1, first + 1)
        part = slice(int(edges[first]), int(edges[last]))
        found.append(
            _classes(grid.prompt[part] - first, grid.samples[part], grid.passed[part], last - first, least)
        )
        first = last
    return np.concatenate(found) if found else np.empty(0, np.int8)


def _classes(
    prompt: np.ndarray, samples: np.ndarray, passed: np.ndarray, count: int, least: int
) -> np.ndarray:
    """Return the classes of some prompts from their cells."""
    visited = np.flatnonzero(samples > 0)
    owner = prompt[visited]
    samples, passed = samples[visited].astype(float), passed[visited].astype(float)
    visits = np.bincount(owner, minlength=count)
    order = np.arange(len(visited)) - np.repeat(
        np.cumsum(visits) - visits, visits
    )  # of a visit of its prompt
    total = np.bincount(owner, samples, count)
    rate = np.bincount(owner, passed, count) / np.maximum(total, 1)

    blocks = np.minimum(visits, BLOCKS)
    block = owner * BLOCKS + order * blocks[owner] // visits[owner]
    block_samples = np.bincount(block, samples, count * BLOCKS).reshape(count, BLOCKS)
    block_passed = np.bincount(block, passed, count * BLOCKS).reshape(count, BLOCKS)

    variance = np.clip(rate, LOW, HIGH) * (1 - np.clip(rate, LOW, HIGH))
    squares = (passed - samples * rate[owner]) ** 2 / (samples * variance[owner])
    by_visit = np.bincount(owner, squares, count)
    with np.errstate(all="ignore"):
        squares = (block_passed - block_samples * rate[:, None]) ** 2 / (block_samples * variance[:, None])
    by_block = np.nansum(squares, axis=1)
    changes = (_quantile(by_visit, visits - 1) > DISPERSION_Z) | (
        _quantile(by_block, blocks - 1) > DISPERSION_Z
    )
    changes |= np.abs(_difference(owner, order, visits, samples, passed, variance)) > DIFFERENCE_Z

    freedom = np.maximum(visits - 1, 1)
    beyond = np.maximum(by_visit / freedom - 1, 0) * variance * visits / np.maximum(total, 1)
    found = np.select([rate <= LOW, rate >= HIGH], [3, 4], 5)
    is_known = visits >= max(least, 2)
    for at in np.flatnonzero(changes & is_known).tolist():
        size = int(blocks[at])
        of_block = block_samples[at, :size]
        margin = ERRORS * np.sqrt(2 * variance[at] * size / of_block.sum())
        moves = moves_of(
            (block_passed[at, :size] / of_block).tolist(), float(np.clip(margin, MIN_MOVE, MAX_MOVE))
        )
        if moves == [1]:
            found[at] = 0
        elif moves in ([-1], [1, -1]):
            found[at] = 1
        elif moves or np.sqrt(beyond[at]) >= _SPREAD:
            found[at] = 2
    found[~is_known] = 6
    return found.astype(np.int8)


def moves_of(rates: list[float], margin: float) -> list[int]:
    """Return the directions, 1 or -1, of the moves of at least a margin between turning points."""
    moves: list[int] = []
    low = high = rates[0]
    for value in rates[1:]:
        last = moves[-1] if moves else 0
        low, high = min(low, value), max(high, value)
        if last <= 0 and value - low >= margin:
            moves.append(1)
            high = value
        elif last >= 0 and high - value >= margin:
            moves.append(-1)
            low = value
    return moves


def _quantile(squares: np.ndarray, freedom: np.ndarray) -> np.ndarray:
    """Return the standard normal quantile of values of χ², by Wilson and Hilferty's cube root."""
    part = 2 / (9 * np.maximum(freedom, 1))
    z = (np.cbrt(squares / np.maximum(freedom, 1)) - (1 - part)) / np.sqrt(part)
    return np.where(freedom > 0, z, -np.inf)


def _difference(
    owner: np.ndarray,
    order: np.ndarray,
    visits: np.ndarray,
    samples: np.ndarray,
    passed: np.ndarray,
    variance: np.ndarray,
) -> np.ndarray:
    """Return the pass rate of the last third of the visits minus that of the first, in standard errors."""
    third = np.maximum(visits // 3, 1)
    parts = []
    for inside in (order < third[owner], order >= (visits - third)[owner]):
        size = np.bincount(owner, samples * inside, len(visits))
        parts.append((np.bincount(owner, passed * inside, len(visits)), np.maximum(size, 1)))
    (first, first_size), (last, last_size) = parts
    error = np.sqrt(variance * (1 / first_size + 1 / last_size))
    return (last / last_size - first / first_size) / error
