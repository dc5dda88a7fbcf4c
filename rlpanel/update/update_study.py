"""All that the page shows of an update: its anatomy, its tree, and what other losses make of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

from rlpanel.errors import SettingError
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.snapshot.run_view import RunView
from rlpanel.update.compare_losses import (
    LossOutcome,
    chosen_losses,
    compare_losses,
    needs_of,
    weighted_rewards,
)
from rlpanel.update.other_rewards import parsed_range, parsed_weights
from rlpanel.update.read_batch import read_update_batch
from rlpanel.update.run_algorithm import OwnLoss, own_loss
from rlpanel.update.token_gradient import PreparedLoss
from rlpanel.update.update_anatomy import UpdateAnatomy, anatomy
from rlpanel.update.update_batch import UpdateBatch
from rlpanel.update.update_tree import GroupWeight, TurnWeights, update_tree

#: Constants of a loss that a link may set, with their types.
CONSTANTS = {
    "epsilon": float,
    "epsilon_high": float,
    "beta": float,
    "averaging": str,
    "drop_flat": bool,
    "reward_weights": str,
    "groups": str,
}
#: Those that change the samples' rewards or leave groups out, for all losses but the run's own.
OF_SAMPLES = ("reward_weights", "groups")


@dataclass(frozen=True)
class UpdateStudy:
    """Results for a step; before that, the number of samples that were read so far.

    Attributes
    ----------
    step : int
    read : int
    batch : UpdateBatch or None
    own : OwnLoss or None
    anatomy : UpdateAnatomy or None
        None if the run's own loss is not known, or its fields are not logged.
    tree : list of GroupWeight
    losses : list of LossOutcome
        The run's own loss first.
    needs : str
        Fields that the run's own loss needs and the run does not log.
    """

    step: int
    read: int = 0
    batch: UpdateBatch | None = None
    own: OwnLoss | None = None
    anatomy: UpdateAnatomy | None = None
    tree: Sequence[GroupWeight] = ()
    losses: Sequence[LossOutcome] = ()
    needs: str = ""


def study_update(
    index: RunIndex, view: RunView, step: int, named: str = "", label: str = "length"
) -> Iterator[UpdateStudy]:
    """Read the samples of a step, and yield the progress and last the results.

    Parameters
    ----------
    index : RunIndex
    view : RunView
    step : int
    named : str
        The run's own algorithm, if a person names it.
    label : str
        Label by whose values the weight is summed.
    """
    for batch in read_update_batch(index, view, view.snapshot.rows_of(step)):
        if isinstance(batch, int):
            yield UpdateStudy(step, batch)
            continue
        own = own_loss(view, batch, named)
        needs = needs_of(batch, own.algorithm) if own.algorithm is not None else ""
        found, tree = None, []
        if own.algorithm is not None and not needs and len(batch):
            loss = PreparedLoss(batch, own.algorithm)
            turns = TurnWeights()
            found = anatomy(batch, loss, None, turns.add)
            tree = update_tree(batch, found.totals, turns)
        losses = _compared(batch, own, {}, (), label) if len(batch) else []
        yield UpdateStudy(step, batch.reading.read, batch, own, found, tree, losses, needs)


def parsed_loss(text: str) -> tuple[str, dict[str, float | str | bool]]:
    """Return the name and the constants of a text such as ``dapo epsilon_high=0.3 groups=0.1..0.9``.

    The name is empty if the constants hold for all losses. Texts are percent-encoded where they have spaces.

    Raises
    ------
    SettingError
        If a constant is unknown or its value is not valid.
    """
    words = text.split()
    name = words.pop(0) if words and "=" not in words[0] else ""
    constants: dict[str, float | str | bool] = {}
    for word in words:
        key, _, value = word.partition("=")
        kind = CONSTANTS.get(key)
        if kind is None:
            raise SettingError(f"a loss has no constant {key[:80]!r}; known are {', '.join(CONSTANTS)}")
        try:
            constants[key] = value == "yes" if kind is bool else kind(unquote(value))
        except ValueError:
            raise SettingError(f"{word[:80]!r} is no value of {key}") from None
    return name, constants


def loss_text(name: str, constants: dict[str, float | str | bool]) -> str:
    """Return the text that `parsed_loss` reads."""
    words = [f"{key}={_value_text(value)}" for key, value in constants.items()]
    return " ".join(filter(None, [name, *words]))


def _value_text(value: float | str | bool) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return quote(value, safe="=,./:-+") if isinstance(value, str) else str(value)


def other_losses(study: UpdateStudy, text: str, label: str = "length") -> Sequence[LossOutcome]:
    """Return the run's own loss and the others with the rewards and groups that a text names.

    Raises
    ------
    SettingError
        If the text is not valid, or the reward has no such part.
    """
    if study.batch is None or study.own is None or not len(study.batch):
        return ()
    return _compared(study.batch, study.own, parsed_loss(text)[1], (), label)


def changed_loss(study: UpdateStudy, text: str, label: str = "length") -> LossOutcome | None:
    """Return what a loss with other constants makes of the samples; None without samples.

    Raises
    ------
    SettingError
        If there is no such loss, or a constant is out of range.
    """
    if study.batch is None or study.own is None or not len(study.batch):
        return None
    name, constants = parsed_loss(text)
    return _compared(study.batch, study.own, constants, (name,), label)[-1]


def _compared(
    batch: UpdateBatch,
    own: OwnLoss,
    constants: Mapping[str, float | str | bool],
    names: Sequence[str],
    label: str,
) -> list[LossOutcome]:
    """Return the run's own loss and others; constants of a loss hold only for those with names."""
    weights = parsed_weights(str(constants.get("reward_weights", "")))
    given: dict[str, Any] = {key: value for key, value in constants.items() if key not in OF_SAMPLES}
    return compare_losses(
        batch,
        own.algorithm,
        chosen_losses(own, names, by_formula=bool(weights), **(given if names else {})),
        label=label if label in batch.labels else "length",
        rewards=weighted_rewards(batch, weights, batch.part_weights)[0] if weights else None,
        pass_range=parsed_range(str(constants.get("groups", ""))),
    )
