"""Token arrays that follow from others: where one was not logged it is worked out, so metrics need not ask.

What was logged always wins. A row lacks what it cannot have, and only that row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rlpanel.metrics.gae import advantages as gae

Arrays = Mapping[str, np.ndarray]

#: Arrays that metrics may take besides the logged ones.
DERIVED = ("weight",)


def fill(
    samples: Sequence[Arrays], numbers: Mapping[str, np.ndarray], constants: Mapping[str, float]
) -> list[Arrays]:
    """The samples with what follows from what they have.

    Parameters
    ----------
    samples : sequence of mapping, length N
        Token arrays by field name.
    numbers : mapping of str to ndarray, shape (N,)
        Logged sample columns: ``advantage``, ``terminal_value``, ``terminal_reward`` are looked at.
    constants : mapping
        ``gamma`` and ``lam`` for advantages and returns.

    Returns
    -------
    list of mapping
        With ``new_logprobs`` and ``old_logprobs`` (the two sides of an update), ``returns``,
        ``advantages`` and ``weight`` (the advantage at each token) where they can be known.
    """
    filled = [_with_update(arrays) for arrays in samples]
    _add_returns(filled, numbers, constants)
    _add_weight(filled, numbers)
    return filled


def follow(
    arrays: Arrays, numbers: Mapping[str, float], constants: Mapping[str, float]
) -> dict[str, np.ndarray]:
    """Advantages and returns of one sample that were not logged and follow from what was.

    None from zeros alone: of one sample nobody can tell whether a critic said them.
    """
    if not any(arrays[name].any() for name in ("values", "token_rewards") if name in arrays):
        return {}
    columns = {name: np.array([number]) for name, number in numbers.items()}
    filled = fill([arrays], columns, constants)[0]
    return {name: filled[name] for name in ("advantages", "returns") if name in filled and name not in arrays}


def _with_update(arrays: Arrays) -> Arrays:
    """Both sides of an update: after (``new_logprobs``) and before it (``old_logprobs``).

    Where a trainer logs one side, ``logprobs`` is the other; where it logs neither, the engine's stand for
    the side before.
    """
    if "logprobs" not in arrays:
        return arrays
    if "new_logprobs" in arrays:
        return arrays if "old_logprobs" in arrays else {**arrays, "old_logprobs": arrays["logprobs"]}
    if "old_logprobs" in arrays:
        return {**arrays, "new_logprobs": arrays["logprobs"]}
    if "rollout_logprobs" in arrays:
        return {**arrays, "new_logprobs": arrays["logprobs"], "old_logprobs": arrays["rollout_logprobs"]}
    return arrays


def _add_returns(
    samples: list[Arrays], numbers: Mapping[str, np.ndarray], constants: Mapping[str, float]
) -> None:
    wanted = [i for i, arrays in enumerate(samples) if _lacks_returns(arrays)]
    if not wanted or "gamma" not in constants or "lam" not in constants:
        return
    lengths = np.array([len(samples[i]["values"]) for i in wanted])
    values = np.concatenate([samples[i]["values"] for i in wanted])
    found = gae(
        np.concatenate([samples[i]["token_rewards"] for i in wanted]),
        values,
        lengths=lengths,
        terminal_value=_of(numbers, "terminal_value", wanted),
        terminal_reward=_of(numbers, "terminal_reward", wanted),
        gamma=constants["gamma"],
        lam=constants["lam"],
    )
    returns, ends = found + values, np.cumsum(lengths).tolist()
    for i, start, end in zip(wanted, [0, *ends], ends, strict=False):
        own = {"advantages": found[start:end], "returns": returns[start:end]}
        samples[i] = {**own, **samples[i]}


def _lacks_returns(arrays: Arrays) -> bool:
    """Whether returns can be worked out and were not logged."""
    if "values" not in arrays or "token_rewards" not in arrays or "returns" in arrays:
        return False
    return 0 < len(arrays["values"]) == len(arrays["token_rewards"])


def _of(numbers: Mapping[str, np.ndarray], name: str, rows: list[int]) -> np.ndarray:
    return numbers[name][rows] if name in numbers else np.full(len(rows), np.nan)


def _add_weight(samples: list[Arrays], numbers: Mapping[str, np.ndarray]) -> None:
    """The advantage at each token, for samples that went through an update."""
    for i, arrays in enumerate(samples):
        if "new_logprobs" not in arrays:
            continue
        if "advantages" in arrays:
            samples[i] = {**arrays, "weight": arrays["advantages"]}
        elif "advantage" in numbers:
            weight = np.full(len(arrays["new_logprobs"]), numbers["advantage"][i])
            samples[i] = {**arrays, "weight": weight}
