"""Records OpenRLHF's rollouts by wrapping ``compute_advantages_and_returns`` of its experience maker.

OpenRLHF is not imported. Tested with the experience maker of OpenRLHF 0.11.2 and with stand-ins of the
same signatures, not against OpenRLHF itself.
"""

from __future__ import annotations

import functools
import os
from typing import Any

from rlpanel.recording.output_folder import folder_from_environment, folder_of_hook
from rlpanel.recording.trainers.patching import Guard, Patches
from rlpanel.recording.writer.writer import RolloutWriter

_AFTER = {"values": "values", "advantages": "advantages", "returns": "returns"}
#: Names of what OpenRLHF keeps as a list with one item per sample; images are paths or addresses.
_LISTS = {"prompt": "prompts", "ground_truth": "labels", "images": "images"}


def record_experiences(
    maker: Any, dir: str | os.PathLike[str] | None = None, *, first_step: int = 1, **settings: Any
) -> OpenRLHFHook:
    """Record every batch of an experience maker.

    Call it in the process that owns the maker, the one that runs OpenRLHF's ``PPOTrainer``.

    Parameters
    ----------
    maker : RemoteExperienceMaker
    dir : path, optional
        The run's folder; by default `folder_from_environment`.
    first_step : int
        Step of the next batch; for a resumed run, the step at which it resumes.
    **settings
        See `rlpanel.recording.Options`.

    Returns
    -------
    OpenRLHFHook
        Its `close` restores the maker.
    """
    folder = dir or folder_from_environment()
    if folder is None:
        raise ValueError("give a folder, or set SAVE_ROLLOUT_DATA=true")
    return OpenRLHFHook(maker, RolloutWriter(folder, **settings), first_step)


def record_class(trainer: type, dir: str | os.PathLike[str] | None = None, **settings: Any) -> None:
    """Make the base class of OpenRLHF's trainers record; its actor classes inherit that.

    Parameters
    ----------
    trainer : type
        ``openrlhf.trainer.ppo_trainer.BasePPOTrainer``.
    dir : path, optional
        The run's folder; by default ``rollout_samples/<EXP_NAME>`` in ``--ckpt.output_dir``.
    **settings
        See `rlpanel.recording.Options`.
    """
    original = trainer.train_step  # type: ignore[attr-defined]
    guard = Guard()

    def start(self: Any, global_step: int) -> None:
        maker = self.experience_maker
        if "compute_advantages_and_returns" in vars(maker) and not hasattr(self, "_rlpanel_hook"):
            return  # the script records this maker by itself
        if not hasattr(self, "_rlpanel_hook"):
            folder = dir or folder_of_hook(getattr(self.args.ckpt, "output_dir", None))
            self._rlpanel_hook = record_experiences(maker, folder, **settings) if folder else None
        if self._rlpanel_hook is not None:
            self._rlpanel_hook.step = global_step + 1  # OpenRLHF logs the step after the update

    @functools.wraps(original)
    def train_step(self: Any, rollout_samples: Any, global_step: int, *args: Any, **kwargs: Any) -> Any:
        guard("OpenRLHF's experiences", start, self, global_step)
        return original(self, rollout_samples, global_step, *args, **kwargs)

    trainer.train_step = train_step  # type: ignore[attr-defined]


class OpenRLHFHook:
    """Hook that records the batches of one experience maker."""

    def __init__(self, maker: Any, writer: RolloutWriter, first_step: int) -> None:
        self.maker, self.writer, self.step = maker, writer, first_step
        self._patches, self._guard = Patches(), Guard()
        if not self._patches.wrap(maker, "compute_advantages_and_returns", self._around):
            raise ValueError(f"{type(maker).__name__} has no compute_advantages_and_returns")

    def close(self) -> None:
        """Remove the hook and write all queued rows."""
        self._patches.undo()
        self.writer.close()

    def _around(self, original: Any, args: Any, kwargs: Any) -> Any:
        inputs = args[0] if args else kwargs.get("experiences", [])
        # Copied before the call, because the method sets kl to None at its end.
        copied = self._guard("logprobs", lambda: [_copy_logprobs(self.maker, one) for one in inputs])
        outputs = original(*args, **kwargs)
        self._guard("experiences", self._record, outputs, copied or [{} for _ in outputs])
        self.step += 1
        return outputs

    def _record(self, experiences: list[Any], copied: list[dict[str, Any]]) -> None:
        samples = getattr(self.maker.args.rollout, "n_samples_per_prompt", 1)
        for experience, arrays in zip(experiences, copied, strict=True):
            arrays |= {name: getattr(experience, key, None) for name, key in _AFTER.items()}
            mask = experience.action_mask.bool()
            for position in range(len(mask)):
                index = experience.index[position] if experience.index else None
                group = {} if index is None else {"group": str(index // samples)}
                row = self._row(experience, arrays, mask[position], position)
                self.writer.write(step=self.step, **row, **group)

    def _row(self, experience: Any, arrays: dict[str, Any], mask: Any, position: int) -> dict[str, Any]:
        tokenizer, bits = self.maker.tokenizer, [bool(bit) for bit in mask.tolist()]
        inside = [place for place, bit in enumerate(bits) if bit] or [0]
        # From the policy's first token to its last; what an environment wrote in between is masked.
        part = slice(inside[0], inside[-1] + 1) if any(bits) else slice(0)
        ids = experience.sequences[position][-len(bits) :][part].tolist()  # the mask covers the last tokens
        own = [token for token, bit in zip(ids, bits[part], strict=True) if bit]
        row: dict[str, Any] = {
            "response": tokenizer.decode(own, skip_special_tokens=True),
            "response_token_ids": ids,
            "response_tokens": [tokenizer.decode([token]) for token in ids],
            "reward": float(experience.rewards[position]),
        }
        for name, key in _LISTS.items():
            items = getattr(experience, key, None) or []
            row[name] = items[position] if position < len(items) else None
        if not all(bits[part]):
            row["loss_mask"] = [int(bit) for bit in bits[part]]
        if getattr(experience, "truncated", None) is not None:
            row["truncated"] = bool(experience.truncated[position])
        return row | {name: values[position][part] for name, values in arrays.items() if values is not None}


def _copy_logprobs(maker: Any, experience: Any) -> dict[str, Any]:
    """Copy the arrays that the method changes or drops; reference logprobs come from the KL if necessary."""
    policy, ref = experience.action_log_probs, experience.base_action_log_probs
    if ref is None and experience.kl is not None and _is_k1(maker):
        ref = policy - experience.kl
    arrays = {"logprobs": policy, "ref_logprobs": ref, "rollout_logprobs": experience.rollout_log_probs}
    return {name: None if values is None else values.detach().clone() for name, values in arrays.items()}


def _is_k1(maker: Any) -> bool:
    """Return whether kl is log π − log π_ref: there is a reference model and the estimator is k1."""
    kl = getattr(getattr(maker.args, "algo", None), "kl", None)
    return maker.initial_model_group is not None and getattr(kl, "estimator", "k1") == "k1"
