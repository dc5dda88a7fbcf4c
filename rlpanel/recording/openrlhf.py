"""Rollouts of OpenRLHF: wraps ``compute_advantages_and_returns`` of its experience maker.

OpenRLHF is not imported. Written against its source of August 2026 and tested against stand-ins with the
same signatures, not against OpenRLHF itself.
"""

from __future__ import annotations

import os
from typing import Any

from rlpanel.recording.output_dir import folder_from_environment
from rlpanel.recording.trainers.patching import Guard, Patches
from rlpanel.recording.writer.writer import RolloutWriter

_AFTER = {"values": "values", "advantages": "advantages", "returns": "returns"}


def record_experiences(
    maker: Any, dir: str | os.PathLike[str] | None = None, *, first_step: int = 1, **settings: Any
) -> OpenRLHFHook:
    """Record every batch that an experience maker makes.

    Call it in the process that owns the maker, the one that runs OpenRLHF's ``PPOTrainer``.

    Parameters
    ----------
    maker : RemoteExperienceMaker
    dir : path, optional
        The run's folder; else the environment's.
    first_step : int
        Step of the next batch; a resumed run gives its own.
    **settings
        See `rlpanel.recording.Options`.

    Returns
    -------
    OpenRLHFTap
        Its `close` puts the maker back as it was.
    """
    folder = dir or folder_from_environment()
    if folder is None:
        raise ValueError("give a folder, or set SAVE_ROLLOUT_DATA=true")
    return OpenRLHFHook(maker, RolloutWriter(folder, **settings), first_step)


class OpenRLHFHook:
    """The hook on one experience maker."""

    def __init__(self, maker: Any, writer: RolloutWriter, first_step: int) -> None:
        self.maker, self.writer, self.step = maker, writer, first_step
        self._hooks, self._guard = Patches(), Guard()
        if not self._hooks.wrap(maker, "compute_advantages_and_returns", self._around):
            raise ValueError(f"{type(maker).__name__} has no compute_advantages_and_returns")

    def close(self) -> None:
        """Undo the hook and write what waits."""
        self._hooks.undo()
        self.writer.close()

    def _around(self, original: Any, args: Any, kwargs: Any) -> Any:
        given = args[0] if args else kwargs.get("experiences", [])
        # On entry: at its end the method sets kl to None.
        entered = self._guard("logprobs", lambda: [_on_entry(self.maker, one) for one in given])
        made = original(*args, **kwargs)
        self._guard("experiences", self._record, made, entered or [{} for _ in made])
        self.step += 1
        return made

    def _record(self, experiences: list[Any], entered: list[dict[str, Any]]) -> None:
        samples = getattr(self.maker.args.rollout, "n_samples_per_prompt", 1)
        for experience, arrays in zip(experiences, entered, strict=True):
            arrays |= {name: getattr(experience, key, None) for name, key in _AFTER.items()}
            mask = experience.action_mask.bool()
            for at in range(len(mask)):
                index = experience.index[at] if experience.index else None
                group = {} if index is None else {"group": str(index // samples)}
                row = self._row(experience, arrays, mask[at], at)
                self.writer.write(step=self.step, **row, **group)

    def _row(self, experience: Any, arrays: dict[str, Any], mask: Any, at: int) -> dict[str, Any]:
        tokenizer, width = self.maker.tokenizer, mask.shape[0]
        sequence = experience.sequences[at]
        ids = sequence[-width:][mask].tolist()  # the mask's columns are the sequence's last ones
        prompts, labels = experience.prompts or [], experience.labels or []
        row: dict[str, Any] = {
            "prompt": prompts[at] if at < len(prompts) else None,
            "response": tokenizer.decode(ids, skip_special_tokens=True),
            "response_token_ids": ids,
            "response_tokens": [tokenizer.decode([token]) for token in ids],
            "ground_truth": labels[at] if at < len(labels) else None,
            "reward": float(experience.rewards[at]),
        }
        if getattr(experience, "truncated", None) is not None:
            row["truncated"] = bool(experience.truncated[at])
        return row | {name: values[at][mask] for name, values in arrays.items() if values is not None}


def _on_entry(maker: Any, experience: Any) -> dict[str, Any]:
    """What the method changes or drops; where need be the reference's logprobs come out of the KL."""
    policy, ref = experience.action_log_probs, experience.base_action_log_probs
    if ref is None and experience.kl is not None and _is_k1(maker):
        ref = policy - experience.kl
    arrays = {"logprobs": policy, "ref_logprobs": ref, "rollout_logprobs": experience.rollout_log_probs}
    return {name: None if values is None else values.detach().clone() for name, values in arrays.items()}


def _is_k1(maker: Any) -> bool:
    """Whether kl is log π − log π_ref: with a reference model, and not another estimator."""
    kl = getattr(getattr(maker.args, "algo", None), "kl", None)
    return maker.initial_model_group is not None and getattr(kl, "estimator", "k1") == "k1"
