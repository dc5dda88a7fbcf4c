"""Computes the advantages of a synthetic run as GRPO, Dr. GRPO, RLOO and PPO do."""

from __future__ import annotations

import numpy as np

from tests.bench.broken_runs.sample_table import SampleTable

_EPSILON, _LAM = 1e-4, 0.95


def group_statistics(table: SampleTable, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation (ddof 1) of each sample's group, without NaN; shape (N,) each."""
    key, known = table.group_key, np.isfinite(values)
    filled = np.where(known, values, 0.0)
    count = np.maximum(1, np.bincount(key, known))
    mean = np.bincount(key, filled) / count
    squares = np.bincount(key, np.where(known, (values - mean[key]) ** 2, 0.0))
    return mean[key], np.sqrt(squares / np.maximum(1, count - 1))[key]


def add_advantages(table: SampleTable) -> None:
    """Add the advantages of the run's algorithm; for PPO also values, token rewards and returns."""
    setup, reward = table.setup, table.numbers["reward"]
    if setup.algorithm == "ppo":
        _add_values(table)
        add_gae(table)
        return
    mean, std = group_statistics(table, reward)
    if setup.algorithm == "rloo":
        advantage = (reward - mean) * setup.group_size / (setup.group_size - 1)
    else:
        advantage = reward - mean
        if setup.algorithm == "grpo":
            advantage = advantage / (std + _EPSILON)
    table.numbers["advantage"] = advantage


def _add_values(table: SampleTable) -> None:
    """Add a critic that learns over the first steps, and knows more towards the end of a response."""
    reward = np.nan_to_num(table.numbers["reward"])
    chance = 1 / (1 + np.exp(-table.solve))
    slope = np.cov(chance, reward)[0, 1] / max(float(chance.var()), 1e-9)
    expected = reward.mean() + slope * (chance - chance.mean())
    owner, table_position = table.owner, table.position
    seen = (table_position + 1) / np.repeat(table.length, table.length)
    value = expected[owner] + 0.6 * seen * (reward - expected)[owner]
    learnt = 1 - np.exp(-(table.at[owner] + 0.5) / 3)
    noise = float(reward.std()) * (0.5 - 0.35 * learnt) * table.draw.normal(size=len(owner))
    table.arrays["values"] = learnt * value + noise
    ratio = table.arrays["logprobs"] - table.arrays.get("ref_logprobs", table.arrays["logprobs"])
    rewards = -table.setup.kl_coef * ratio
    last = table.bounds[1:][table.length > 0] - 1
    rewards[last] += reward[table.length > 0]
    table.arrays["token_rewards"] = rewards


def add_gae(table: SampleTable) -> None:
    """Add advantages and returns by generalised advantage estimation (γ = 1, λ = 0.95)."""
    owner, position = table.owner, table.position
    width = int(table.length.max(initial=1))
    values, rewards = np.zeros((2, len(table), width + 1))
    values[owner, position] = table.arrays["values"]
    rewards[owner, position] = table.arrays["token_rewards"]
    advantages = np.zeros((len(table), width + 1))
    for at in range(width - 1, -1, -1):
        delta = rewards[:, at] + values[:, at + 1] - values[:, at]
        advantages[:, at] = delta + _LAM * advantages[:, at + 1]
    table.arrays["advantages"] = advantages[owner, position]
    table.arrays["returns"] = table.arrays["advantages"] + table.arrays["values"]
