"""Settings of a synthetic run, drawn at random from realistic ranges."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

#: Answers of these kinds have one to three tokens.
SHORT_TEXTS = ("numbers", "choice")


@dataclass(frozen=True)
class Setup:
    """Settings of a run.

    Attributes
    ----------
    algorithm : str
        grpo, dr_grpo, rloo or ppo; only ppo has values and no groups.
    steps : tuple of int
        Logged steps, ascending.
    ranks, groups, group_size : int
        Number of processes, of groups in a step, and of samples in a group.
    reward : str
        binary, graded, model (a reward model's unbounded score), parts (a sum of components) or heavy
        (lognormal).
    curve : str
        Shape of the learning curve: rise, plateau, late or stationary.
    start, gain : float
        Logit of the chance to solve a prompt of mean difficulty, at first, and its growth.
    difficulty : float
        Standard deviation of that logit over prompts.
    step_noise, wander : float
        Standard deviations of that logit over steps: independent, and correlated from step to step.
    curriculum : float
        Growth of the mean difficulty of prompts over the run, in standard deviations.
    text : str
        words, code, numbers or choice (one letter).
    languages : tuple of str
        Languages of the prompts; a label ``lang`` is logged if ``labels`` has it.
    labels : tuple of str
        Labels that are logged: lang, data_source, difficulty.
    prompts : int
        Number of different prompts.
    length, growth, limit : float, float, int
        Mean tokens of a response at first, factor on it over the run, and most tokens of a response.
    surprisal, surprisal_fall : float
        Mean surprisal per token at first, in nats, and factor on it over the run.
    kl : float
        KL per token at the end, in nats.
    engine : float
        Size of the engine's deviations; 0 if its logprobs are not logged.
    step_size : float
        Deviation of logprobs after an update; 0 if these are not logged.
    kl_coef : float
        β of the KL penalty, for PPO.
    logs : tuple of str
        Optional fields that are logged: tokens, ref, entropy, finish, valid, run_json.
    ending : str
        Text at the end of each response, such as an end token.
    restated : float
        Share of responses that begin with their prompt.
    """

    algorithm: str
    steps: tuple[int, ...]
    ranks: int
    groups: int
    group_size: int
    reward: str
    curve: str
    start: float
    gain: float
    difficulty: float
    step_noise: float
    wander: float
    curriculum: float
    text: str
    languages: tuple[str, ...]
    labels: tuple[str, ...]
    prompts: int
    length: float
    growth: float
    limit: int
    surprisal: float
    surprisal_fall: float
    kl: float
    engine: float
    step_size: float
    kl_coef: float
    logs: tuple[str, ...]
    ending: str = ""
    restated: float = 0.0

    @property
    def samples(self) -> int:
        """Number of samples in a step."""
        return self.groups * self.group_size


#: One item of each list is drawn.
_CHOICES: dict[str, list[Any]] = {
    "algorithm": ["grpo", "grpo", "dr_grpo", "rloo", "ppo"],
    "every": [1, 1, 1, 2, 5, 10],
    "first": [0, 1, 1],
    "ranks": [1, 1, 2, 4, 8],
    "group_size": [4, 8, 8, 16],
    "reward": ["binary", "binary", "graded", "model", "parts", "heavy"],
    "curve": ["rise", "plateau", "late", "stationary"],
    "curriculum": [0.0, 0.0, 0.0, 0.6],
    "text": ["words", "words", "words", "code", "numbers", "choice"],
    "languages": [("en",), ("en",), ("en", "zh"), ("en", "zh", "ru"), ("zh",)],
    "labels": [(), ("lang",), ("lang", "data_source"), ("data_source", "difficulty"), ("lang", "difficulty")],
    "engine": [0.0, 0.01, 0.03],
    "step_size": [0.0, 0.0, 0.03],
    "kl_coef": [0.01, 0.05],
    "ref": [True, True, False],
    "tokens": [True, True, False],
    "entropy": [True, False],
    "finish": [True, False],
    "valid": [True, False],
    "run_json": [True, False],
    "ending": ["", "", "", "<|im_end|>"],
}
#: Low, high, and whether the logarithm is uniform.
_RANGES: dict[str, tuple[float, float, bool]] = {
    "steps": (16, 100, True),
    "samples": (16, 256, True),
    "start": (-1.5, 0.3, False),
    "gain": (0.8, 2.2, False),
    "difficulty": (0.8, 1.5, False),
    "step_noise": (0.0, 0.15, False),
    "wander": (0.0, 0.1, False),
    "prompts_factor": (2, 30, True),
    "length": (8, 24, False),
    "growth": (0.55, 1.9, True),
    "limit_factor": (1.5, 4.0, False),
    "surprisal": (0.5, 1.3, False),
    "surprisal_fall": (0.5, 1.05, False),
    "kl": (0.005, 0.25, True),
}


def draw_setup(draw: np.random.Generator, **given: Any) -> Setup:
    """Draw the settings of a run.

    Parameters
    ----------
    draw : Generator
    **given
        A list: one of its items is drawn. A pair of numbers for a range: its limits. Else the value itself.
    """
    values = {name: _choice(draw, given.get(name, options)) for name, options in _CHOICES.items()}
    values |= {
        name: _number(draw, given.get(name, bounds[:2]), bounds[2]) for name, bounds in _RANGES.items()
    }
    if values["curve"] != "rise":  # a policy that no longer learns would get worse at harder prompts
        values["curriculum"] = 0.0
    group_size = 1 if values["algorithm"] == "ppo" else int(values["group_size"])
    groups = max(1, round(values["samples"] / group_size / values["ranks"])) * values["ranks"]
    short = values["text"] in SHORT_TEXTS
    length = {"choice": 1.0, "numbers": 1.0}.get(values["text"], values["length"])
    peak = length * max(1.0, values["growth"])
    count = round(values["steps"])
    logs = [name for name in ("tokens", "ref", "entropy", "finish", "valid", "run_json") if values[name]]
    return Setup(
        **{
            name: values[name]
            for name in (
                *(
                    "algorithm",
                    "ranks",
                    "reward",
                    "curve",
                    "start",
                    "gain",
                    "difficulty",
                    "step_noise",
                    "wander",
                ),
                *("curriculum", "text", "languages", "labels", "surprisal", "surprisal_fall", "kl"),
                *("engine", "step_size", "kl_coef", "ending"),
            )
        },
        steps=tuple(values["first"] + values["every"] * at for at in range(count)),
        groups=groups,
        group_size=group_size,
        prompts=round(groups * values["prompts_factor"]),
        length=length,
        growth=1.0 if short else values["growth"],
        limit=8 if short else max(12, round(peak * values["limit_factor"])),
        logs=tuple(logs),
        restated=float(given.get("restated", 0.0)),
    )


def stationary(setup: Setup) -> Setup:
    """Return the setup of a run whose samples all come from the same distribution."""
    return replace(
        setup, curve="stationary", growth=1.0, surprisal_fall=1.0, step_noise=0.0, wander=0.0, curriculum=0.0
    )


def _choice(draw: np.random.Generator, options: Any) -> Any:
    """Return an item of a list; any other value is returned itself."""
    position = float(draw.random())
    return options[int(position * len(options))] if isinstance(options, list) else options


def _number(draw: np.random.Generator, bounds: Any, logarithmic: bool) -> float:
    share = float(draw.random())
    if not isinstance(bounds, tuple):
        return float(bounds)
    low, high = bounds
    return float(low * (high / low) ** share) if logarithmic else float(low + (high - low) * share)
