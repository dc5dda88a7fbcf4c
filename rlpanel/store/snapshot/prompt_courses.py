"""The course of each prompt's reward over training: learnt, forgotten, flaky, dead or steady."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlpanel.store.snapshot.prompts import best_possible, cell_means, numbers_at, prompt_cells
from rlpanel.store.snapshot.snapshot import Snapshot

#: Courses: each prompt has one. Dead: it never gained, and could have.
LEARNT, DEAD, FORGOTTEN, FLAKY, STEADY = "learnt", "dead", "forgotten", "flaky", "steady"
COURSES = (LEARNT, DEAD, FORGOTTEN, FLAKY, STEADY)
#: Not a course: prompts of any course whose mean reward never came up to the reference's.
BELOW = "below"
#: Least and most share of the rewards' range by which a mean must move so that it counts.
LEAST, MOST = 0.3, 0.75
#: A mean must also move by as many standard errors of the difference.
ERRORS = 3.0


@dataclass(frozen=True)
class PromptCourse:
    """One prompt over training.

    Attributes
    ----------
    row : int
        Row of its newest sample.
    course : str
        One of `COURSES`.
    samples : int
    steps : ndarray of int, shape (V,)
        The steps at which it was seen with a reward.
    means : ndarray of float, shape (V,)
        Its mean reward at each.
    moves : int
        Number of moves up and down that count.
    reference : float
        Mean reward of the reference's responses to it; NaN without one.
    """

    row: int
    course: str
    samples: int
    steps: np.ndarray
    means: np.ndarray
    moves: int
    reference: float

    @property
    def best(self) -> float:
        """Highest mean reward at a step."""
        return float(self.means.max())

    @property
    def gain(self) -> float:
        """Last mean reward minus the first."""
        return float(self.means[-1] - self.means[0])


@dataclass(frozen=True)
class PromptCourses:
    """The prompts of a run.

    Attributes
    ----------
    prompts : list of PromptCourse
        Those that were seen at enough steps.
    seen : int
        Number of prompts with a reward, at any number of steps.
    most : int
        Highest number of steps at which a prompt was seen.
    """

    prompts: list[PromptCourse]
    seen: int = 0
    most: int = 0

    def of(self, course: str) -> list[PromptCourse]:
        """Return the prompts of a course, those to look at first first; all for an empty course.

        `BELOW` stands for those that were at no step above the reference.
        """
        if course == BELOW:
            below = (prompt for prompt in self.prompts if prompt.best < prompt.reference)
            return sorted(below, key=lambda prompt: prompt.best - prompt.reference)
        found = [prompt for prompt in self.prompts if course in ("", prompt.course)]
        keys = {
            LEARNT: lambda prompt: -prompt.gain,
            DEAD: lambda prompt: (prompt.best, -len(prompt.means)),
            FORGOTTEN: lambda prompt: prompt.means[-1] - prompt.best,
            FLAKY: lambda prompt: -prompt.moves,
        }
        return sorted(found, key=keys.get(course, lambda prompt: prompt.gain))


def prompt_courses(snapshot: Snapshot, least: int) -> PromptCourses:
    """Return the course of each prompt that was seen at ``least`` or more steps with a reward.

    A move is a change of the mean reward, from a turning point to the next one, of at least 30 % of the range
    of the run's rewards. It must also be three times its standard error, by the spread of the rewards within
    a step, but need not exceed 75 % of the range. **Learnt**: one move, up. **Forgotten**: the last
    move is the first one down. **Flaky**: more moves. **Dead**: none, at no step a mean above that of the
    first, and below the best possible reward all the time. **Steady**: none, and not dead.
    """
    cells = prompt_cells(snapshot)
    if cells is None:
        return PromptCourses([])
    rewards = snapshot.counted("reward", cells.rows)
    sizes = np.diff(np.r_[cells.starts, len(cells.rows)])
    span = float(np.ptp(rewards))
    freedom = len(rewards) - len(cells.starts)
    squares = float(((rewards - np.repeat(cells.reward, sizes)) ** 2).sum())
    spread = np.sqrt(squares / freedom) if freedom > 0 else 0.0
    top = best_possible(snapshot, cells.rows)
    steps = snapshot.metadata("step")[cells.rows[cells.starts]]
    counts, samples, newest = cells.steps, cells.samples, cells.rows[cells.ends - 1]
    margins = np.clip(ERRORS * spread * np.sqrt(2.0 * counts / samples), LEAST * span, MOST * span)
    reference = cell_means(
        cell_means(numbers_at(snapshot, "ref_reward", cells.rows), cells.starts), cells.firsts
    )
    prompts = []
    for at in np.flatnonzero(counts >= max(least, 2)).tolist():
        visits = slice(cells.firsts[at], cells.firsts[at] + counts[at])
        means = cells.reward[visits]
        moves = _moves(means.tolist(), float(margins[at]))
        course = _course(moves, means, top)
        prompts.append(
            PromptCourse(
                int(newest[at]),
                course,
                int(samples[at]),
                steps[visits],
                means,
                len(moves),
                float(reference[at]),
            )
        )
    return PromptCourses(prompts, len(counts), int(counts.max()))


def _moves(means: list[float], margin: float) -> list[int]:
    """Return the directions, 1 or -1, of the moves of at least a margin between turning points."""
    if margin <= 0:
        return []
    moves: list[int] = []
    low = high = means[0]
    for value in means[1:]:
        up = moves[-1] if moves else 0
        low, high = min(low, value), max(high, value)
        if up <= 0 and value - low >= margin:
            moves.append(1)
            high = value
        elif up >= 0 and high - value >= margin:
            moves.append(-1)
            low = value
    return moves


def _course(moves: list[int], means: np.ndarray, top: float) -> str:
    if not moves:
        is_dead = means.max() <= means[0] and means.max() < top
        return DEAD if is_dead else STEADY
    if moves == [1]:
        return LEARNT
    return FORGOTTEN if moves in ([-1], [1, -1]) else FLAKY
