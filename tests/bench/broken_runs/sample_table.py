"""`SampleTable`: all samples of a synthetic run as columns, and their token arrays in one flat array each."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tests.bench.broken_runs.run_setup import Setup


@dataclass
class SampleTable:
    """Samples in the order of step, rank and group. N samples, M tokens in total.

    Attributes
    ----------
    setup : Setup
    draw : Generator
        Source of all random numbers of the run.
    at : ndarray of int, shape (N,)
        Position of the sample's step in ``setup.steps``.
    rank, group, prompt : ndarray of int, shape (N,)
        ``group`` counts within the step, ``prompt`` is a number of ``prompt_ids``.
    labels : dict of str to ndarray of object, shape (N,)
    prompt_ids : list of ndarray of int
        Tokens of each prompt.
    script : ndarray of object, shape (N,)
        Script of the response, a key of `vocabulary.START`.
    solve : ndarray, shape (N,)
        Logit of the chance that the response is right.
    luck : ndarray, shape (N,)
        The response is right if this is below that chance.
    length : ndarray of int, shape (N,)
        Tokens before the limit is applied, later the tokens of the response.
    truncated : ndarray of bool, shape (N,)
    template : ndarray of int, shape (N,)
        Responses of the same script, length and template (0 or more) have the same text; -1 for a free text.
    restates : ndarray of bool, shape (N,)
        Whether the response begins with its prompt.
    surprisal, kl : ndarray, shape (N,)
        Expected surprisal and KL per token.
    right : ndarray of bool, shape (N,)
    ids, arrays
        Token ids, and token arrays by name, shape (M,).
    numbers : dict of str to ndarray, shape (N,)
        Logged numbers. NaN is written as ``NaN``, and left out where ``absent`` has the name.
    written : ndarray of bool, shape (N,)
        Whether the sample's line is written.
    absent : dict of str to ndarray of bool, shape (N,)
        Samples whose line lacks a key.
    null : dict of str to ndarray of bool, shape (N,)
        Samples whose line has null at a key, or at all tokens of it.
    short : dict of str to ndarray of bool, shape (N,)
        Samples whose token array lacks its last item.
    copy_of : ndarray of int, shape (N,)
        The sample whose line, but for step and rank, is written instead.
    constants : dict
        Content of ``run.json``.
    """

    setup: Setup
    draw: np.random.Generator
    at: np.ndarray
    rank: np.ndarray
    group: np.ndarray
    prompt: np.ndarray
    labels: dict[str, np.ndarray]
    prompt_ids: list[np.ndarray]
    script: np.ndarray
    solve: np.ndarray
    luck: np.ndarray
    length: np.ndarray
    surprisal: np.ndarray
    kl: np.ndarray
    truncated: np.ndarray
    template: np.ndarray
    restates: np.ndarray
    written: np.ndarray
    copy_of: np.ndarray
    right: np.ndarray = field(default_factory=lambda: np.zeros(0, bool))
    ids: np.ndarray = field(default_factory=lambda: np.zeros(0, int))
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    numbers: dict[str, np.ndarray] = field(default_factory=dict)
    absent: dict[str, np.ndarray] = field(default_factory=dict)
    null: dict[str, np.ndarray] = field(default_factory=dict)
    short: dict[str, np.ndarray] = field(default_factory=dict)
    constants: dict[str, object] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.at)

    @property
    def owner(self) -> np.ndarray:
        """Sample of each token, shape (M,)."""
        return np.repeat(np.arange(len(self)), self.length)

    @property
    def bounds(self) -> np.ndarray:
        """First token of each sample, and M; shape (N + 1,)."""
        return np.concatenate([[0], np.cumsum(self.length)])

    @property
    def position(self) -> np.ndarray:
        """Position of each token in its response, shape (M,)."""
        return np.arange(int(self.length.sum())) - np.repeat(self.bounds[:-1], self.length)

    @property
    def group_key(self) -> np.ndarray:
        """A number for each group of each step, from 0; shape (N,)."""
        return self.at * self.setup.groups + self.group

    def chance(self, probability: np.ndarray | float) -> np.ndarray:
        """Return True for each sample with a probability."""
        return self.draw.random(len(self)) < probability

    def token_chance(self, probability: np.ndarray) -> np.ndarray:
        """Return True for each token with the probability of its sample."""
        return self.draw.random(len(self.ids)) < np.repeat(probability, self.length)
