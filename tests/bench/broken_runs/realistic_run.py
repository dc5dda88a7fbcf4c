"""Draws the samples of a run that nothing is wrong with: prompts, lengths, tokens, logprobs and rewards."""

from __future__ import annotations

import numpy as np

from tests.bench.broken_runs.run_setup import SHORT_TEXTS, Setup
from tests.bench.broken_runs.sample_table import SampleTable
from tests.bench.broken_runs.vocabulary import SIZE, START

_SOURCES = np.array(["gsm8k", "synthetic", "web"], dtype=object)
_LEVELS = np.array(["easy", "medium", "hard"], dtype=object)
#: Shape of the gamma distribution of surprisal: most tokens are nearly certain.
_SURPRISAL_SHAPE = 0.35


def draw_samples(
    setup: Setup, draw: np.random.Generator, data: np.random.Generator | None = None, order: int | None = None
) -> SampleTable:
    """Draw what the samples of a run depend on: their prompts, chances, lengths and expected surprisal.

    Parameters
    ----------
    setup : Setup
    draw : Generator
    data : Generator, optional
        Draws prompts, labels and the steps of prompts, so that two runs can share them; ``draw`` by default.
    order : int, optional
        Seed of the steps of prompts alone.
    """
    data = data or draw
    steps, samples = len(setup.steps), setup.samples
    at = np.repeat(np.arange(steps), samples)
    group = np.tile(np.repeat(np.arange(setup.groups), setup.group_size), steps)
    rank = group * setup.ranks // setup.groups
    hardness = data.normal(size=setup.prompts)
    prompt = _prompts_of_steps(setup, data, hardness)[at * setup.groups + group]
    if order is not None:
        other = np.random.default_rng(order)
        prompt = _prompts_of_steps(setup, other, hardness)[at * setup.groups + group]
    labels = _labels(setup, data, hardness)
    count = len(at)
    progress = at / max(1, steps - 1)
    solve = _skill(setup)[at] - setup.difficulty * hardness[prompt] + 0.3 * draw.normal(size=count)
    solve += (draw.normal(0, setup.step_noise, steps) + _wander(setup, draw))[at]
    for values in labels.values():
        solve += _offsets(data, values)[prompt]
    language = labels["lang"][prompt]
    script = language if setup.text == "words" else np.full(count, setup.text, dtype=object)
    spread = np.exp(data.normal(0, 0.15, setup.prompts)[prompt] + draw.normal(0, 0.25, count))
    length = np.rint(setup.length * setup.growth**progress * spread)
    if setup.text == "numbers":
        length = 1 + 2 * (draw.random(count) < 0.3)
    surprisal = setup.surprisal * setup.surprisal_fall**progress
    kl = np.full(count, setup.kl) if setup.curve == "stationary" else setup.kl * (1 - np.exp(-3 * progress))
    return SampleTable(
        setup=setup,
        draw=draw,
        at=at,
        rank=rank,
        group=group,
        prompt=prompt,
        labels={name: values[prompt] for name, values in labels.items()},
        prompt_ids=_prompt_texts(setup, data, labels["lang"]),
        script=script.astype(object),
        solve=solve,
        luck=draw.random(count),
        length=np.maximum(1, length).astype(int),
        surprisal=surprisal
        * np.exp(data.normal(0, 0.15, setup.prompts)[prompt] + draw.normal(0, 0.15, count)),
        kl=kl * np.exp(draw.normal(0, 0.4, count)),
        truncated=np.zeros(count, bool),
        template=np.full(count, -1),
        restates=draw.random(count) < setup.restated,
        written=np.ones(count, bool),
        copy_of=np.arange(count),
        constants=_constants(setup),
    )


def draw_tokens(table: SampleTable) -> None:
    """Draw which responses are right, and the tokens and logprobs of all responses."""
    setup, draw = table.setup, table.draw
    table.length = np.where(table.restates, table.length + _prompt_lengths(table), table.length)
    table.truncated |= table.length > setup.limit
    table.length = np.minimum(table.length, setup.limit)
    chance = 1 / (1 + np.exp(-table.solve))
    table.right = table.luck < chance * np.where(table.truncated, 0.3, 1.0)
    table.ids = _token_ids(table)
    size = len(table.ids)
    expected = np.repeat(table.surprisal, table.length)
    surprisal = expected * draw.standard_gamma(_SURPRISAL_SHAPE, size) / _SURPRISAL_SHAPE
    surprisal = np.minimum(surprisal, 15.0)
    logprobs = -surprisal
    table.arrays["logprobs"] = logprobs
    if "entropy" in setup.logs:
        blur = expected * draw.standard_gamma(1.5, size) / 1.5
        table.arrays["entropy"] = 0.4 * np.minimum(surprisal, 3.0) + 0.6 * blur
    if "ref" in setup.logs:
        table.arrays["ref_logprobs"] = _reference(table, surprisal)
    sway = np.sqrt(np.minimum(surprisal, 2.0) + 0.01)
    if setup.engine:
        table.arrays["rollout_logprobs"] = np.minimum(
            logprobs + setup.engine * sway * draw.normal(size=size), 0.0
        )
    if setup.step_size:
        table.arrays["new_logprobs"] = np.minimum(
            logprobs + setup.step_size * sway * draw.normal(size=size), 0.0
        )


def draw_rewards(table: SampleTable) -> None:
    """Draw the rewards, their components and the held-out reward of all samples."""
    setup, draw, count = table.setup, table.draw, len(table)
    chance = 1 / (1 + np.exp(-table.solve))
    right = table.right.astype(float)
    if setup.reward == "binary":
        reward = right
    elif setup.reward == "graded":
        reward = np.clip(chance + draw.normal(0, 0.15, count), 0, 1) * np.where(table.truncated, 0.5, 1.0)
    elif setup.reward == "model":
        reward = 1.5 * table.solve + draw.normal(0, 1, count) - 1.0 * table.truncated
    elif setup.reward == "heavy":
        reward = np.exp(np.log(1 + 3 * chance) + draw.normal(0, 0.6, count))
    else:
        progress = table.at / max(1, len(setup.steps) - 1)
        well_formed = table.chance(0.6 + 0.35 * (1 - np.exp(-5 * progress))).astype(float)
        brief = np.clip(1 - table.length / setup.limit, 0, 1)
        table.numbers["rewards/accuracy"] = right
        table.numbers["rewards/format"] = well_formed
        table.numbers["rewards/brevity"] = brief
        reward = right + 0.5 * well_formed + 0.2 * brief
    table.numbers["reward"] = reward
    if "valid" in setup.logs:
        table.numbers["valid_reward"] = np.clip(0.9 * chance + draw.normal(0, 0.2, count), 0, 1)


def _skill(setup: Setup) -> np.ndarray:
    """Return the logit of the chance to solve a prompt of mean difficulty, by step."""
    x = np.linspace(0, 1, len(setup.steps))
    shape = {
        "rise": x**0.7,
        "plateau": 1 - np.exp(-6 * x),
        "late": 1 / (1 + np.exp(-12 * (x - 0.5))),
        "stationary": np.full(len(x), 0.5),
    }[setup.curve]
    return setup.start + setup.gain * shape


def _wander(setup: Setup, draw: np.random.Generator) -> np.ndarray:
    """Return noise by step with a correlation of 0.9 from step to step."""
    noise = draw.normal(0, setup.wander, len(setup.steps))
    for at in range(1, len(noise)):
        noise[at] = 0.9 * noise[at - 1] + np.sqrt(1 - 0.9**2) * noise[at]
    return noise


def _prompts_of_steps(setup: Setup, draw: np.random.Generator, hardness: np.ndarray) -> np.ndarray:
    """Return the prompt of each group of each step; epochs repeat the prompts in another order."""
    wanted = len(setup.steps) * setup.groups
    if not setup.curriculum:
        epochs = -(-wanted // setup.prompts)
        return np.concatenate([draw.permutation(setup.prompts) for _ in range(epochs)])[:wanted]
    progress = np.repeat(np.linspace(-0.5, 0.5, len(setup.steps)), setup.groups)
    noise = draw.normal(0, 0.8, wanted)
    order = np.argsort(hardness)
    place = np.searchsorted(hardness[order], setup.curriculum * progress + noise)
    return order[np.clip(place, 0, setup.prompts - 1)]


def _labels(setup: Setup, draw: np.random.Generator, hardness: np.ndarray) -> dict[str, np.ndarray]:
    """Return the labels of each prompt; ``lang`` always, the others if they are logged."""
    shares = np.array([0.5, 0.3, 0.2][: len(setup.languages)])
    picked = np.searchsorted(np.cumsum(shares / shares.sum()), draw.random(setup.prompts))
    labels = {"lang": np.array(setup.languages, dtype=object)[np.minimum(picked, len(setup.languages) - 1)]}
    if "data_source" in setup.labels:
        labels["data_source"] = _SOURCES[draw.integers(3, size=setup.prompts)]
    if "difficulty" in setup.labels:
        labels["difficulty"] = _LEVELS[np.digitize(hardness, [-0.5, 0.5])]
    return labels


def _offsets(draw: np.random.Generator, values: np.ndarray) -> np.ndarray:
    """Return a small offset of each prompt's logit that depends on its label."""
    names, which = np.unique(values.astype(str), return_inverse=True)
    return draw.normal(0, 0.3, len(names))[which]


def _prompt_texts(setup: Setup, draw: np.random.Generator, language: np.ndarray) -> list[np.ndarray]:
    """Return the tokens of each prompt: a question of 12 to 24 words, or of 24 to 48 characters."""
    texts = []
    for lang in language:
        count = int(draw.integers(12, 25)) * (2 if lang == "zh" else 1)
        texts.append(START[lang] + (SIZE[lang] * draw.random(count) ** 1.5).astype(int))
    return texts


def _prompt_lengths(table: SampleTable) -> np.ndarray:
    return np.array([len(ids) for ids in table.prompt_ids])[table.prompt]


def _token_ids(table: SampleTable) -> np.ndarray:
    """Return the token ids of all responses; some words are frequent, and some belong to the prompt."""
    owner, position = table.owner, table.position
    start = np.array([START[script] for script in table.script])[owner]
    size = np.array([SIZE[script] for script in table.script])[owner]
    rank_of_word = (size * table.draw.random(len(owner)) ** 2).astype(int)
    own = table.draw.random(len(owner)) < 0.3
    ids = start + (rank_of_word + np.where(own, 37 * table.prompt[owner], 0)) % size
    template = table.template[owner]
    ids = np.where(template >= 0, start + (template * 31 + position * 17) % size, ids)
    if table.setup.text in SHORT_TEXTS:
        answer = np.where(table.right, 7 * table.prompt, 7 * table.prompt + 1 + (9 * table.luck).astype(int))
        ids = np.where((template < 0) & (position == 0), start + answer[owner] % size, ids)
    for at in np.flatnonzero(table.restates):
        begin = int(table.bounds[at])
        echo = table.prompt_ids[table.prompt[at]][: table.length[at]]
        ids[begin : begin + len(echo)] = echo
    return ids


def _reference(table: SampleTable, surprisal: np.ndarray) -> np.ndarray:
    """Return the reference's logprobs: normal log-ratios whose mean is the KL of the sample."""
    weight = np.minimum(surprisal, 3.0) + 0.02
    weight /= max(float(weight.mean()), 1e-9)
    variance = 2 * np.repeat(table.kl, table.length) * weight
    ratio = variance / 2 + np.sqrt(variance) * table.draw.normal(size=len(surprisal))
    return np.minimum(-surprisal - ratio, -1e-6)


def _constants(setup: Setup) -> dict[str, object]:
    """Return the content of ``run.json`` as rlpanel's recorder writes it."""
    known: dict[str, object] = {"algo": "grpo" if setup.algorithm == "dr_grpo" else setup.algorithm}
    if setup.algorithm in ("grpo", "dr_grpo"):
        known["scale_rewards"] = "group" if setup.algorithm == "grpo" else "none"
    if setup.algorithm == "ppo":
        known |= {"kl_coef": setup.kl_coef, "gamma": 1.0, "lam": 0.95}
    if setup.reward == "parts":
        known["reward_weights"] = {"accuracy": 1.0, "format": 0.5, "brevity": 0.2}
    return known
