"""A small language model in numpy that samples as an engine would, with a known difference to the trainer.

The next token's logits depend on the token before it, on the prompt, and on the position. Both sides compute
an exact softmax, so that temperature, support and weights differ as they do in a real engine.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

WORDS, LENGTH, STEPS, SAMPLES = 40, 80, 10, 24


@dataclass(frozen=True)
class Place:
    """Where the tokens of B samples are sampled.

    Attributes
    ----------
    step, position : int
    rank, age : ndarray of int, shape (B,)
    """

    step: int
    rank: np.ndarray
    age: np.ndarray
    position: int


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Return the log-probabilities along the last axis."""
    shifted = logits - logits.max(-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(-1, keepdims=True)))


@dataclass
class Bigrams:
    """A model of tokens with weights that drift by step."""

    seed: int = 0

    def __post_init__(self) -> None:
        """Draw the weights."""
        rng = np.random.default_rng(1000 + self.seed)
        self.rng = np.random.default_rng(self.seed)
        self.table = rng.normal(0, 2, (WORDS, WORDS))
        self.drift = rng.normal(0, 0.03, (WORDS, WORDS))
        self.other = rng.normal(0, 0.25, (WORDS, WORDS))
        self.prompt = rng.normal(0, 1, WORDS)

    def logits(self, before: np.ndarray, step: int, position: int) -> np.ndarray:
        """Return the logits of the tokens after ``before``, shape (B, WORDS)."""
        return np.asarray(self.table[before] + step * self.drift[before] + self.prompt / (1 + position / 4))

    def noise(self, scale: float) -> np.ndarray:
        """Return the noise of logits, shape (B, WORDS)."""
        return self.rng.normal(0, scale, (SAMPLES, WORDS))


#: Takes the model, the logits of the trainer, the tokens before, and the place; returns the engine's logits.
Engine = Callable[[Bigrams, np.ndarray, np.ndarray, Place], np.ndarray]


def rounding(scale: float = 0.01) -> Engine:
    """Return an engine with rounded logits."""
    return lambda model, logits, before, place: logits + model.noise(scale)


def sharpened(temperature: float) -> Engine:
    """Return an engine at another temperature."""
    return lambda model, logits, before, place: logits / temperature + model.noise(0.01)


def nucleus(model: Bigrams, logits: np.ndarray, before: np.ndarray, place: Place) -> np.ndarray:
    """Return the logits of an engine that samples from 90% of the probability."""
    order = np.argsort(-logits, -1)
    mass = np.cumsum(np.exp(np.take_along_axis(log_softmax(logits), order, -1)), -1)
    outside = np.concatenate([np.zeros((len(logits), 1)), mass[:, :-1]], -1) >= 0.9
    cut = np.where(outside, -np.inf, np.take_along_axis(logits, order, -1))
    found = np.empty_like(logits)
    np.put_along_axis(found, order, cut, -1)
    return found


def old_weights(model: Bigrams, logits: np.ndarray, before: np.ndarray, place: Place) -> np.ndarray:
    """Return the logits of an engine with older weights."""
    return np.asarray(logits - place.age[:, None] * model.drift[before] + model.noise(0.01))


def old_and_rounded(model: Bigrams, logits: np.ndarray, before: np.ndarray, place: Place) -> np.ndarray:
    """Return the logits of an engine with older weights and rounding of the same size."""
    return np.asarray(logits - place.age[:, None] * model.drift[before] + model.noise(0.1))


def stuck(first: int, rank: int | None = None) -> Engine:
    """Return an engine that gets no new weights from a step on, on one rank or on all."""

    def engine(model: Bigrams, logits: np.ndarray, before: np.ndarray, place: Place) -> np.ndarray:
        there = np.ones(SAMPLES) if rank is None else place.rank == rank
        missed = max(place.step - first + 1, 0) * there[:, None]
        return np.asarray(logits - missed * model.drift[before] + model.noise(0.01))

    return engine


def broken(first: int) -> Engine:
    """Return an engine with wrong weights from a step on."""
    return lambda model, logits, before, place: (
        logits + (place.step >= first) * model.other[before] + model.noise(0.01)
    )


def on_rank(rank: int) -> Engine:
    """Return an engine whose one rank has other weights."""
    return lambda model, logits, before, place: (
        logits + (place.rank == rank)[:, None] * model.other[before] + model.noise(0.01)
    )


def far(model: Bigrams, logits: np.ndarray, before: np.ndarray, place: Place) -> np.ndarray:
    """Return the logits of an engine whose error grows with the position."""
    return logits + model.noise(0.002 + 0.002 * place.position)


def without_prompt(model: Bigrams, logits: np.ndarray, before: np.ndarray, place: Place) -> np.ndarray:
    """Return the logits of an engine that gets another prompt."""
    return np.asarray(logits - 0.5 * model.prompt / (1 + place.position / 4) + model.noise(0.01))


def half_without_prompt(model: Bigrams, logits: np.ndarray, before: np.ndarray, place: Place) -> np.ndarray:
    """Return the logits of an engine that gets another prompt for half of the samples: few tokens differ."""
    half = (np.arange(SAMPLES) % 10 < 5)[:, None]
    return np.asarray(logits - half * model.prompt * (place.position < 6) + model.noise(0.01))


def routed(model: Bigrams, logits: np.ndarray, before: np.ndarray, place: Place) -> np.ndarray:
    """Return the logits of an engine that now and then takes another expert."""
    other = model.rng.random((SAMPLES, 1)) < 0.02
    return np.asarray(logits + other * model.noise(0.8) + model.noise(0.004))


def write(
    folder: Path,
    engine: Engine,
    seed: int = 0,
    *,
    entropy: bool = True,
    versions: bool = True,
    ages: int = 1,
    filled: int = 0,
    masked: bool = True,
    shifted: bool = False,
) -> Path:
    """Write a run.

    Parameters
    ----------
    entropy, versions : bool
        Whether the entropy and the policy's versions are logged.
    ages : int
        Number of ages of the weights.
    filled : int
        Tokens of a tool in the middle of each response, with an engine's logprob of 0.
    masked : bool
        Whether the loss mask leaves them out.
    shifted : bool
        Whether the engine's logprobs are shifted by one token.
    """
    model, samples = Bigrams(seed), np.arange(SAMPLES)
    lines: dict[int, list[str]] = {0: [], 1: []}
    for step in range(STEPS):
        place = Place(step, samples % 2, np.minimum(samples % ages, step), 0)
        columns = _columns(model, engine, place, filled)
        for sample in samples.tolist():
            tokens, trainer, engine_logprobs, entropies, mask = (column[sample] for column in columns)
            line: dict[str, object] = {"step": step, "prompt": "p", "reward": 1.0}
            line["response_tokens"] = [f"w{token}" for token in tokens.tolist()]
            line["response"] = " ".join(line["response_tokens"])
            line["logprobs"] = trainer.tolist()
            line["rollout_logprobs"] = np.roll(engine_logprobs, -1 if shifted else 0).tolist()
            line["loss_mask"] = mask.tolist() if masked else [1] * len(mask)
            line |= {"entropy": entropies.tolist()} if entropy else {}
            age = int(place.age[sample])
            line |= {"policy_version": step - age, "trainer_version": step} if versions else {}
            lines[sample % 2].append(json.dumps(line))
    folder.mkdir(parents=True)
    for rank, texts in lines.items():
        (folder / f"rank_{rank}.jsonl").write_text("\n".join(texts) + "\n")
    return folder


def _columns(model: Bigrams, engine: Engine, place: Place, filled: int) -> list[np.ndarray]:
    """Return tokens, both logprobs, entropy and mask of a step, shape (B, LENGTH) each."""
    before, columns, at = model.rng.integers(WORDS, size=SAMPLES), [], np.arange(SAMPLES)
    for position in range(LENGTH):
        logits = model.logits(before, place.step, position)
        trainer = log_softmax(logits)
        sampled = log_softmax(engine(model, logits, before, replace(place, position=position)))
        is_tool = LENGTH // 2 <= position < LENGTH // 2 + filled
        # The largest of logprobs with Gumbel noise is a sample of the distribution.
        token = np.argmax(sampled + model.rng.gumbel(size=sampled.shape), -1)
        token = model.rng.integers(WORDS, size=SAMPLES) if is_tool else token
        of_engine = np.zeros(SAMPLES) if is_tool else sampled[at, token]
        entropy = -(np.exp(trainer) * trainer).sum(-1)
        columns.append((token, trainer[at, token], of_engine, entropy, np.full(SAMPLES, int(not is_tool))))
        before = token
    return [np.stack(column, 1) for column in zip(*columns, strict=True)]
