"""Token arrays that follow from others: where one was not logged it is worked out, so metrics need not ask.

What was logged always wins. A row lacks what it cannot have, and only that row.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rlpanel.metrics.engine.gae import advantages as gae
from rlpanel.metrics.engine.ragged import Arrays, Ragged, first, ragged_fields

#: Arrays that metrics may take besides the logged ones.
DERIVED = ("weight",)


def with_derived(
    laid: Mapping[str, Ragged], numbers: Mapping[str, np.ndarray], constants: Mapping[str, float]
) -> dict[str, Ragged]:
    """A batch with what follows from what it has.

    Parameters
    ----------
    laid : mapping of str to Laid
        Token arrays of N samples, by field name.
    numbers : mapping of str to ndarray, shape (N,)
        Logged sample columns: ``advantage``, ``terminal_value``, ``terminal_reward`` are looked at.
    constants : mapping
        ``gamma`` and ``lam`` for advantages and returns.

    Returns
    -------
    dict of str to Laid
        With ``new_logprobs`` and ``old_logprobs`` (the two sides of an update), ``returns``,
        ``advantages`` and ``weight`` (the advantage at each token) where they can be known.
    """
    filled = dict(laid)
    _add_update(filled)
    _add_returns(filled, numbers, constants)
    _add_weight(filled, numbers)
    return filled


def derived_of_sample(
    arrays: Arrays, numbers: Mapping[str, float], constants: Mapping[str, float]
) -> dict[str, np.ndarray]:
    """Advantages and returns of one sample that were not logged and follow from what was.

    None from zeros alone: of one sample nobody can tell whether a critic said them.
    """
    if not any(arrays[name].any() for name in ("values", "token_rewards") if name in arrays):
        return {}
    columns = {name: np.array([number]) for name, number in numbers.items()}
    filled = with_derived(ragged_fields([arrays]), columns, constants)
    found = {"advantages", "returns"} & filled.keys() - arrays.keys()
    return {name: filled[name].flat for name in sorted(found)}


def _put(laid: dict[str, Ragged], name: str, found: Ragged | None) -> None:
    if found is not None:
        laid[name] = found


def _add_update(laid: dict[str, Ragged]) -> None:
    """Both sides of an update: after (``new_logprobs``) and before it (``old_logprobs``).

    Where a trainer logs one side, ``logprobs`` is the other; where it logs neither, the engine's stand for
    the side before.
    """
    logprobs = laid.get("logprobs")
    new, old, engine = (laid.get(name) for name in ("new_logprobs", "old_logprobs", "rollout_logprobs"))
    if logprobs is None or (new is None and old is None and engine is None):
        return
    nowhere = np.zeros(len(logprobs.counts), bool)
    has_new, has_old, has_engine = (nowhere if one is None else one.has for one in (new, old, engine))
    _put(laid, "new_logprobs", first(new, logprobs.where(has_old | has_engine)))
    before = None if engine is None else engine.where(logprobs.has & ~has_new)
    _put(laid, "old_logprobs", first(old, logprobs.where(has_new), before))


def _add_returns(
    laid: dict[str, Ragged], numbers: Mapping[str, np.ndarray], constants: Mapping[str, float]
) -> None:
    values, rewards, logged = (laid.get(name) for name in ("values", "token_rewards", "returns"))
    if values is None or rewards is None or "gamma" not in constants or "lam" not in constants:
        return
    wanted = (values.counts > 0) & (values.counts == rewards.counts)
    if logged is not None:
        wanted &= ~logged.has
    if not wanted.any():
        return
    values = values.where(wanted)
    advantages = gae(
        rewards.values(wanted),
        values.flat,
        lengths=values.counts[wanted],
        terminal_value=_of(numbers, "terminal_value", wanted),
        terminal_reward=_of(numbers, "terminal_reward", wanted),
        gamma=constants["gamma"],
        lam=constants["lam"],
    )
    _put(laid, "returns", first(logged, Ragged(values.counts, advantages + values.flat)))
    _put(laid, "advantages", first(laid.get("advantages"), Ragged(values.counts, advantages)))


def _of(numbers: Mapping[str, np.ndarray], name: str, rows: np.ndarray) -> np.ndarray:
    return numbers[name][rows] if name in numbers else np.full(int(rows.sum()), np.nan)


def _add_weight(laid: dict[str, Ragged], numbers: Mapping[str, np.ndarray]) -> None:
    """The advantage at each token, for samples that went through an update."""
    new, advantages = laid.get("new_logprobs"), laid.get("advantages")
    if new is None:
        return
    each = None
    if "advantage" in numbers:
        each = Ragged(new.counts, np.repeat(numbers["advantage"], new.counts.clip(min=0)))
    _put(laid, "weight", first(None if advantages is None else advantages.where(new.has), each))
