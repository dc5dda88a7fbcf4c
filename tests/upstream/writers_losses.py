"""Gradients of trainers' own losses: ``python -m tests.upstream.writers_losses NAME FOLDER``.

Runs with the Python of the training environment. Batches are random and ragged, with holes in their masks,
groups of several sizes and equal rewards. Each file holds a batch as flat arrays, and for each case the
negative slope of the loss by each logprob.
"""

from __future__ import annotations

import enum
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Optional

import numpy as np
import torch

from tests.upstream.sources import load

#: Batches of each trainer.
BATCHES = 200
_ALGOS = "verl/trainer/ppo/core_algos.py"


class Batch:
    """A random batch as padded tensors of float64."""

    def __init__(self, seed: int) -> None:
        r = np.random.default_rng(seed)
        sizes = r.integers(2, 6, r.integers(2, 6)).tolist()
        self.group = np.repeat(np.arange(len(sizes)), sizes)
        self.counts = r.integers(1, 30, len(self.group))
        width, rows = int(self.counts.max()), len(self.counts)
        inside = np.arange(width) < self.counts[:, None]
        mask = inside & (r.random((rows, width)) < 0.85)
        mask[:, 0] = True
        old = -r.exponential(1.0, (rows, width))
        self.inside = inside
        self.reward = torch.tensor(r.integers(0, 4, rows) / 3)
        self.truncated = r.random(rows) < 0.2
        self.mask = torch.tensor(mask, dtype=torch.float64)
        self.old = torch.tensor(old)
        self.new = torch.tensor(old + r.normal(0, 0.25, old.shape)).requires_grad_()
        self.engine = torch.tensor(old + r.normal(0, 0.6, old.shape))
        self.reference = torch.tensor(old + r.normal(0, 0.5, old.shape))
        # The reward is at the last token in the loss.
        self.token_rewards = torch.zeros_like(self.old)
        last = width - 1 - mask[:, ::-1].argmax(axis=1)
        self.token_rewards[np.arange(rows), last] = self.reward

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the batch as flat arrays."""
        padded = ("mask", "old", "new", "engine", "reference")
        flat = {name: getattr(self, name).detach().numpy()[self.inside] for name in padded}
        rest = {"counts": self.counts, "group": self.group, "reward": self.reward.numpy()}
        return flat | rest | {"truncated": self.truncated.astype(float)}

    def push(self, loss: torch.Tensor) -> np.ndarray:
        """Return −d loss ÷ d logprob of each token."""
        (slope,) = torch.autograd.grad(loss, self.new, allow_unused=True)
        found = torch.zeros_like(self.new) if slope is None else slope
        return -found.numpy()[self.inside]


def write(folder: Path, losses: Callable[[Batch], dict[str, torch.Tensor]]) -> None:
    """Write the batches and the gradients of losses."""
    for seed in range(BATCHES):
        batch = Batch(seed)
        found = {f"loss:{name}": batch.push(loss) for name, loss in losses(batch).items()}
        np.savez(folder / f"{seed}.npz", **batch.arrays(), **found)


# -- verl ------------------------------------------------------------------------------------------


class _Config(SimpleNamespace):
    """Options of verl's actor."""

    def get(self, name: str, default: Any) -> Any:
        return getattr(self, name, default)


def _config(**options: Any) -> _Config:
    usual = {"clip_ratio": 0.2, "clip_ratio_low": None, "clip_ratio_high": None, "global_batch_info": {}}
    return _Config(**(usual | options))


def _verl() -> tuple[SimpleNamespace, SimpleNamespace]:
    functional = load(
        "verl/utils/torch_functional.py",
        "masked_sum",
        "masked_mean",
        "masked_var",
        "masked_whiten",
        torch=torch,
    )
    names = (
        *("compute_grpo_outcome_advantage", "compute_rloo_outcome_advantage", "agg_loss", "kl_penalty"),
        *("compute_reinforce_plus_plus_outcome_advantage", "kl_penalty_forward"),
        *("compute_reinforce_plus_plus_baseline_outcome_advantage", "compute_policy_loss_vanilla"),
        *("compute_policy_loss_gspo", "compute_policy_loss_cispo"),
    )

    def keep(*_: Any) -> Callable[[Any], Any]:
        return lambda function: function

    estimators = enum.Enum("AdvantageEstimator", "GRPO RLOO REINFORCE_PLUS_PLUS REINFORCE_PLUS_PLUS_BASELINE")
    given = {
        "torch": torch, "np": np, "defaultdict": defaultdict, "verl_F": functional, "Optional": Optional,
        "register_adv_est": keep, "register_policy_loss": keep, "AdvantageEstimator": estimators,
        "ActorConfig": _Config, "AlgoConfig": type("AlgoConfig", (), {}),
    }  # fmt: skip
    algos = load(_ALGOS, *names, **given)
    helper = load(
        "verl/trainer/ppo/rollout_corr_helper.py", "_parse_rollout_is_threshold",
        "compute_rollout_correction_weights", torch=torch, verl_F=functional, SAFETY_BOUND=20.0, Optional=Optional,
        compute_is_metrics=lambda **_: {},
    )  # fmt: skip
    return algos, helper


def verl(folder: Path) -> None:
    """Write gradients of verl's losses."""
    algos, helper = _verl()
    vanilla, whole = algos.compute_policy_loss_vanilla, _config()

    def losses(b: Batch) -> dict[str, torch.Tensor]:
        rows = (b.old, b.new)
        grpo = algos.compute_grpo_outcome_advantage(b.token_rewards, b.mask, b.group)[0]
        mean = algos.compute_grpo_outcome_advantage(
            b.token_rewards, b.mask, b.group, norm_adv_by_std_in_grpo=False
        )[0]
        rloo = algos.compute_rloo_outcome_advantage(b.token_rewards, b.mask, b.group)[0]
        gamma = SimpleNamespace(gamma=1.0)
        penalised = b.token_rewards - 0.1 * (b.old - b.reference) * b.mask
        plus = algos.compute_reinforce_plus_plus_outcome_advantage(b.token_rewards, b.mask, config=gamma)[0]
        plus_kl = algos.compute_reinforce_plus_plus_outcome_advantage(penalised, b.mask, config=gamma)[0]
        baseline = algos.compute_reinforce_plus_plus_baseline_outcome_advantage(
            b.token_rewards, b.mask, b.group
        )[0]

        def pg(advantages: torch.Tensor, mode: str, config: Any = whole, **more: Any) -> torch.Tensor:
            loss: torch.Tensor = vanilla(*rows, advantages, b.mask, mode, config, **more)[0]
            return loss

        flat = np.array([b.reward[b.group == g].unique().numel() == 1 for g in b.group])
        kept = torch.tensor(~flat & ~b.truncated)
        shown = [each[kept] for each in (b.old, b.new, grpo, b.mask)]
        high = _config(clip_ratio_high=0.28)
        narrow = _config(clip_ratio_low=3e-4, clip_ratio_high=4e-4)
        found = {
            "grpo": pg(grpo, "seq-mean-token-mean"),
            "dr_grpo": pg(
                mean, "seq-mean-token-sum-norm", _config(global_batch_info={"loss_scale_factor": 64})
            ),
            "rloo": pg(rloo, "token-mean"),
            "reinforce++": pg(plus, "token-mean"),
            "reinforce++ kl": pg(plus_kl, "token-mean"),
            "reinforce++-baseline": pg(baseline, "token-mean"),
            "dapo": vanilla(*shown, "token-mean", high)[0] if kept.any() else (b.new * 0).sum(),
            "gspo": algos.compute_policy_loss_gspo(*rows, grpo, b.mask, "seq-mean-token-mean", narrow)[0],
            "cispo": algos.compute_policy_loss_cispo(
                *rows, grpo, b.mask, "token-mean", _config(clip_ratio_low=1.0, clip_ratio_high=0.28)
            )[0],
        }
        for name, bound in (("tis", "2.0"), ("icepop", "0.5_5.0")):
            weights = helper.compute_rollout_correction_weights(b.old - b.engine, b.mask, "token", bound)[0]
            found[name] = pg(grpo, "seq-mean-token-mean", rollout_is_weights=weights)
        for name in ("k1", "k2", "k3"):
            term = algos.agg_loss(algos.kl_penalty(b.new, b.reference, name), b.mask, "seq-mean-token-mean")
            found[f"grpo {name}"] = pg(grpo, "seq-mean-token-mean") + 0.3 * term
        return found

    write(folder, losses)


# -- TRL -------------------------------------------------------------------------------------------


class _Accelerator:
    """One process."""

    num_processes = 1

    def gather(self, values: torch.Tensor) -> torch.Tensor:
        return values

    def reduce(self, values: torch.Tensor, reduction: str = "sum") -> torch.Tensor:
        return values


def trl(folder: Path) -> None:
    """Write gradients of TRL's losses."""
    given = {"torch": torch, "nanmin": torch.min, "nanmax": torch.max}
    grpo_loss = load("trl/trainer/grpo_trainer.py", "GRPOTrainer._compute_loss", **given)._compute_loss
    rloo_loss = load("trl/trainer/rloo_trainer.py", "RLOOTrainer._compute_loss", **given)._compute_loss

    def losses(b: Batch) -> dict[str, torch.Tensor]:
        grpo, mean, rloo = (torch.zeros_like(b.reward) for _ in range(3))
        for group in np.unique(b.group):
            members = torch.tensor(b.group == group)
            reward = b.reward[members]
            mean[members] = reward - reward.mean()
            grpo[members] = mean[members] / (reward.std() + 1e-4)
            rloo[members] = reward - (reward.sum() - reward) / (len(reward) - 1)

        def loss(kind: str, advantages: torch.Tensor, level: str = "token", **options: Any) -> torch.Tensor:
            values = lambda *_, **__: (b.new, torch.zeros_like(b.new), None)  # noqa: E731
            trainer = SimpleNamespace(
                loss_type=kind, importance_sampling_level=level, top_entropy_quantile=1.0,
                off_policy_mask_threshold=None, beta=0.0, epsilon_low=0.2, epsilon_high=0.2, max_completion_length=64,
                use_vllm=False, vllm_importance_sampling_correction=False, aux_loss_enabled=False,
                current_gradient_accumulation_steps=1, _entropy_bonus_enabled=False,
                _get_per_token_logps_and_entropies=values, accelerator=_Accelerator(),
                args=SimpleNamespace(use_bias_correction_kl=False, delta=None, steps_per_generation=1),
                model=SimpleNamespace(training=True), _metrics={"train": defaultdict(list)},
            )  # fmt: skip
            trainer.__dict__.update(options)
            ids = torch.zeros(b.old.shape, dtype=torch.long)
            inputs = {
                "prompt_ids": ids[:, :1], "prompt_mask": ids[:, :1], "completion_ids": ids, "advantages": advantages,
                "completion_mask": b.mask, "old_per_token_logps": b.old, "ref_per_token_logps": b.reference,
                "num_items_in_batch": b.mask.sum(), "old_logps": (b.old * b.mask).sum(1),
                "importance_sampling_ratio": torch.exp(b.old - b.engine).clamp(max=2.0),
            }  # fmt: skip
            chosen = rloo_loss if kind == "rloo" else grpo_loss
            found: torch.Tensor = chosen(trainer, SimpleNamespace(training=True), inputs)
            return found

        vllm = {"use_vllm": True, "vllm_importance_sampling_correction": True}
        return {
            "grpo": loss("grpo", grpo),
            "grpo kl": loss("grpo", grpo, beta=0.3),
            "grpo token-mean": loss("bnpo", grpo),
            "dr_grpo": loss("dr_grpo", mean),
            "rloo": loss("rloo", rloo),
            "gspo": loss("grpo", grpo, "sequence", epsilon_low=3e-4, epsilon_high=4e-4),
            "cispo": loss("cispo", grpo, epsilon_high=1.28),
            "dapo": loss("dapo", grpo, epsilon_high=0.28),
            "tis": loss("grpo", grpo, **vllm),
        }

    write(folder, losses)


def main() -> None:
    """Write the gradients of the trainer that the command line names."""
    name, folder = sys.argv[1], Path(sys.argv[2])
    folder.mkdir(parents=True)
    torch.set_num_threads(1)
    {"verl": verl, "trl": trl}[name](folder)


if __name__ == "__main__":
    main()
