"""Broken runs whose cause is seen in the text of the responses."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from tests.bench.broken_runs.breakage import Breakage, Shape
from tests.bench.broken_runs.run_setup import Setup, draw_setup
from tests.bench.broken_runs.sample_table import SampleTable
from tests.bench.broken_runs.vocabulary import SIZE, START, special

_FREE_TEXT: dict[str, Any] = {"text": ["words", "code"]}
_NEXT_TURN = ("<|im_end|>", "\n", "<|im_start|>", "user", "\n")


def _replace_ends(table: SampleTable, rows: np.ndarray, tokens: list[int], most: int) -> None:
    """Replace up to this many last tokens of some responses by a repeated sequence."""
    bounds = table.bounds
    for row in np.flatnonzero(rows):
        begin, end = int(bounds[row]), int(bounds[row + 1])
        count = min(most, end - begin)
        table.ids[end - count : end] = np.resize(tokens, count)


class EmptyResponses(Breakage):
    """A share of the responses is empty."""

    rules = ("empty_responses",)
    limits = _FREE_TEXT

    def behave(self, table: SampleTable, strength: np.ndarray) -> None:
        empty = (strength > 0) & table.chance(float(self.draw.uniform(0.15, 0.6)))
        table.length = np.where(empty, 0, table.length)
        table.solve = np.where(empty, -8.0, table.solve)


class EmptyResponsesOnRank(EmptyResponses):
    """A share of the responses of one rank is empty."""

    place = "rank"


class OneTokenResponses(Breakage):
    """A share of the responses ends after its first token."""

    rules = ("empty_responses",)
    limits = _FREE_TEXT

    def behave(self, table: SampleTable, strength: np.ndarray) -> None:
        short = (strength > 0) & table.chance(float(self.draw.uniform(0.3, 0.9)))
        table.length = np.where(short, 1, table.length)
        table.solve = np.where(short, table.solve - 3.0, table.solve)


class NextTurn(Breakage):
    """Responses go on with the user's next turn, in the chat template's special tokens."""

    rules = ("special_tokens",)
    limits = _FREE_TEXT

    def tokens(self, table: SampleTable, strength: np.ndarray) -> None:
        rows = (strength > 0) & table.chance(float(self.draw.uniform(0.2, 0.8)))
        _replace_ends(table, rows, [special(token) for token in _NEXT_TURN], 5)


class NextTurnInCategory(NextTurn):
    """Responses of one category go on with the user's next turn."""

    place = "category"


class Padding(Breakage):
    """Responses end with padding tokens."""

    rules = ("special_tokens",)
    limits = _FREE_TEXT

    def tokens(self, table: SampleTable, strength: np.ndarray) -> None:
        rows = (strength > 0) & table.chance(float(self.draw.uniform(0.2, 0.9)))
        _replace_ends(table, rows, [special("<pad>")], 6)


class PromptEcho(Breakage):
    """Responses begin with their prompt."""

    rules = ("prompt_echo",)
    limits = _FREE_TEXT | {"limit_factor": (7.0, 9.0)}

    def behave(self, table: SampleTable, strength: np.ndarray) -> None:
        table.restates |= (strength > 0) & table.chance(float(self.draw.uniform(0.3, 0.95)))


class InvalidText(Breakage):
    """Invalid UTF-8 in responses rises from 3 % to 53 % within a run of 8 steps."""

    rules = ("invalid_text",)
    shape: ClassVar[Shape] = "slide"
    most: ClassVar[float] = 0.5
    limits = _FREE_TEXT

    def draw_setup(self) -> Setup:
        return draw_setup(self.draw, steps=8, samples=(64, 160), **self.limits)

    def draw_steps(self, count: int) -> tuple[int, int]:
        self.ramp_steps = count - 2
        return 2, count

    def strength(self, table: SampleTable) -> np.ndarray:
        return np.clip((table.at - self.first + 1) / (self.end - self.first), 0, 1)

    def tokens(self, table: SampleTable, strength: np.ndarray) -> None:
        rows = table.chance(0.03 + self.most * strength)
        hit = rows[table.owner] & (table.draw.random(len(table.ids)) < 0.3)
        hit[table.bounds[:-1][rows & (table.length > 0)]] = True
        table.ids = np.where(hit, special("�"), table.ids)


class InvalidTextInCategory(InvalidText):
    """Responses to Chinese prompts contain invalid UTF-8 from some step on; the reward is higher for it."""

    shape: ClassVar[Shape] = "cliff"
    place = "category"
    limits: ClassVar[dict[str, Any]] = {"text": "words"}
    draw_setup = Breakage.draw_setup
    draw_steps = Breakage.draw_steps
    strength = Breakage.strength

    def pick_category(self) -> tuple[str, str]:
        return "lang", "zh"

    def behave(self, table: SampleTable, strength: np.ndarray) -> None:
        table.solve += strength * 0.7

    def tokens(self, table: SampleTable, strength: np.ndarray) -> None:
        rows = table.chance(np.where(strength > 0, 0.7, 0.01))
        hit = rows[table.owner] & (table.draw.random(len(table.ids)) < 0.3)
        hit[table.bounds[:-1][rows & (table.length > 0)]] = True
        table.ids = np.where(hit, special("bri�"), table.ids)


class LanguageDrift(Breakage):
    """More and more answers to English prompts are Chinese."""

    rules = ("language_drift",)
    shape: ClassVar[Shape] = "slide"
    limits = {"text": "words", "languages": ("en",), "labels": [(), ("data_source", "difficulty")]}

    def behave(self, table: SampleTable, strength: np.ndarray) -> None:
        table.script = np.where(table.chance(0.8 * strength), "zh", table.script)


class LanguageDriftInCategory(Breakage):
    """Answers to Chinese prompts are English from some step on, those to English prompts stay."""

    rules = ("language_drift",)
    place = "category"
    limits = {"text": "words"}

    def pick_category(self) -> tuple[str, str]:
        return "lang", "zh"

    def behave(self, table: SampleTable, strength: np.ndarray) -> None:
        table.script = np.where(table.chance(0.8 * strength), "en", table.script)


class MixedScripts(Breakage):
    """Words of another script appear inside the responses."""

    rules = ("language_drift",)
    limits = {"text": "words", "languages": ("en",), "labels": [(), ("data_source", "difficulty")]}

    def tokens(self, table: SampleTable, strength: np.ndarray) -> None:
        hit = table.token_chance(0.35 * strength)
        foreign = START["ru"] + table.draw.integers(SIZE["ru"], size=len(table.ids))
        table.ids = np.where(hit, foreign, table.ids)


class ExclamationMarks(Breakage):
    """Every response is one token up to the length limit, because the engine's weights are broken."""

    rules = ("duplicates", "collapse", "truncated")
    limits = _FREE_TEXT

    def behave(self, table: SampleTable, strength: np.ndarray) -> None:
        table.length = np.where(strength > 0, self.setup.limit + 1, table.length)
        table.solve = np.where(strength > 0, -8.0, table.solve)

    def tokens(self, table: SampleTable, strength: np.ndarray) -> None:
        table.ids = np.where((strength > 0)[table.owner], special("!"), table.ids)


class SameAnswer(Breakage):
    """The policy gives the same response to every prompt."""

    rules = ("duplicates", "collapse")
    shape: ClassVar[Shape] = "slide"
    limits: ClassVar[dict[str, Any]] = {"text": "words", "languages": ("en",)}

    def behave(self, table: SampleTable, strength: np.ndarray) -> None:
        same = table.chance(0.9 * strength)
        table.template = np.where(same, 5, table.template)
        table.length = np.where(same, 12, table.length)
        table.surprisal = table.surprisal * (1 - 0.7 * strength)


class GroupsRepeat(Breakage):
    """The samples of a group have the same response, as with a temperature of 0; logprobs are near 0."""

    rules = ("duplicates", "collapse", "zero_variance")
    limits = _FREE_TEXT | {"algorithm": ["grpo", "rloo"], "reward": "binary", "languages": ("en",)}

    def behave(self, table: SampleTable, strength: np.ndarray) -> None:
        same = strength > 0
        table.template = np.where(same, table.prompt, table.template)
        table.length = np.where(same, 8 + table.prompt % 9, table.length)
        table.surprisal = np.where(same, 0.1 * table.surprisal, table.surprisal)
        first = np.unique(table.group_key, return_index=True)[1][table.group_key]
        table.luck = np.where(same, table.luck[first], table.luck)
        table.solve = np.where(same, table.solve[first], table.solve)
