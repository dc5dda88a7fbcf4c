"""Gradients of trainers' own losses: ``python -m tests.upstream.writers_losses NAME FOLDER``.

Runs with the Python of the training environment. Batches are random and ragged, with holes in their masks,
groups of several sizes and equal rewards. Each file holds a batch as flat arrays, and for each case the
negative slope of the loss by each logprob.

Cases with "processes" call a loss as the trainer does: each of two processes has two micro-batches, whose
gradients are summed, and the processes' gradients are averaged. Groups lie across processes.
"""

from __future__ import annotations

import enum
import math
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Optional

import numpy as np
import torch

from tests.upstream.sources import load, load_branch

#: Batches of each trainer.
BATCHES = 200
#: Processes, and micro-batches of each.
PROCESSES, MICRO_BATCHES = 2, 2
_ALGOS = "verl/trainer/ppo/core_algos.py"


class Batch:
    """A random batch as padded tensors of float64."""

    def __init__(self, seed: int) -> None:
        r = np.random.default_rng(seed)
        sizes = r.integers(2, 6, r.integers(2, 6)).tolist()
        # The trainers give each micro-batch the same number of samples.
        sizes[-1] += -sum(sizes) % (PROCESSES * MICRO_BATCHES)
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

    def micro_batches(self, kept: torch.Tensor | None = None) -> list[torch.Tensor]:
        """Return the rows of each process's micro-batches; groups lie across processes."""
        rows = torch.arange(len(self.counts)) if kept is None else torch.nonzero(kept)[:, 0]
        parts = [rows[at :: PROCESSES * MICRO_BATCHES] for at in range(PROCESSES * MICRO_BATCHES)]
        return [part for part in parts if len(part)]

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
        "compute_rollout_correction_weights", torch=torch, verl_F=functional,
        SAFETY_BOUND=20.0, Optional=Optional, compute_is_metrics=lambda **_: {},
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

        def spread(
            policy: Any, advantages: torch.Tensor, mode: str, kept: torch.Tensor | None = None, **options: Any
        ) -> torch.Tensor:
            """Return the loss whose gradient is that of all processes, see ``ppo_loss`` of verl."""
            chosen = torch.ones(len(b.counts), dtype=torch.bool) if kept is None else kept
            counts = {
                "dp_size": PROCESSES,
                "batch_num_tokens": b.mask[chosen].sum(),
                "global_batch_size": int(chosen.sum()),
                "loss_scale_factor": 64,
            }
            config = _config(global_batch_info=counts, **options)
            found = [
                policy(b.old[part], b.new[part], advantages[part], b.mask[part], mode, config)[0]
                for part in b.micro_batches(kept)
            ]
            return torch.stack([(b.new * 0).sum(), *found]).sum() / PROCESSES

        flat = np.array([b.reward[b.group == g].unique().numel() == 1 for g in b.group])
        kept = torch.tensor(~flat & ~b.truncated)
        shown = [each[kept] for each in (b.old, b.new, grpo, b.mask)]
        scaled = _config(global_batch_info={"loss_scale_factor": 64})
        high = _config(clip_ratio_high=0.28)
        narrow = _config(clip_ratio_low=3e-4, clip_ratio_high=4e-4)
        found = {
            "grpo": pg(grpo, "seq-mean-token-mean"),
            "dr_grpo": pg(mean, "seq-mean-token-sum-norm", scaled),
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
        gspo, cispo = algos.compute_policy_loss_gspo, algos.compute_policy_loss_cispo
        capped = {"clip_ratio_low": 1.0, "clip_ratio_high": 0.28}
        ranges = {"clip_ratio_low": 3e-4, "clip_ratio_high": 4e-4}
        found |= {
            "grpo, processes": spread(vanilla, grpo, "seq-mean-token-mean"),
            "dr_grpo, processes": spread(vanilla, mean, "seq-mean-token-sum-norm"),
            "reinforce++, processes": spread(vanilla, plus, "token-mean"),
            "dapo, processes": spread(vanilla, grpo, "token-mean", kept, clip_ratio_high=0.28),
            "gspo, processes": spread(gspo, grpo, "seq-mean-token-mean", **ranges),
            "cispo, processes": spread(cispo, grpo, "token-mean", **capped),
        }
        # A mask below and above is IcePop's; without the lower bound it is MIS.
        for name, level, bound in (
            ("tis", "token", "2.0"),
            ("icepop", "token", "0.5_5.0"),
            ("mis", "token", "1e-12_3.0"),
            ("sequence_truncate", "sequence", "3.0"),
            ("sequence_mask", "sequence", "1e-12_3.0"),
        ):
            weights = helper.compute_rollout_correction_weights(b.old - b.engine, b.mask, level, bound)[0]
            found[name] = pg(grpo, "seq-mean-token-mean", rollout_is_weights=weights)
        for name in ("k1", "k2", "k3"):
            term = algos.agg_loss(algos.kl_penalty(b.new, b.reference, name), b.mask, "seq-mean-token-mean")
            found[f"grpo {name}"] = pg(grpo, "seq-mean-token-mean") + 0.3 * term
        return found

    write(folder, losses)


# -- TRL -------------------------------------------------------------------------------------------


class _Accelerator:
    """One of some processes; what it gathers is for metrics only."""

    def __init__(self, processes: int) -> None:
        self.num_processes = processes

    def gather(self, values: torch.Tensor) -> torch.Tensor:
        return values

    def reduce(self, values: torch.Tensor, reduction: str = "sum") -> torch.Tensor:
        return values


def trl(folder: Path) -> None:
    """Write gradients of TRL's losses."""
    given = {"torch": torch, "nanmin": torch.min, "nanmax": torch.max}
    grpo_loss = load("trl/trainer/grpo_trainer.py", "GRPOTrainer._compute_loss", **given)._compute_loss
    rloo_loss = load("trl/trainer/rloo_trainer.py", "RLOOTrainer._compute_loss", **given)._compute_loss
    correct = load_branch(
        "trl/trainer/grpo_trainer.py", "GRPOTrainer._generate_and_score_completions",
        "per_token_logps_diff = (old_per_token_logps - sampling_per_token_logps)",
        "self, old_per_token_logps, sampling_per_token_logps, completion_mask, tool_mask",
        "vllm_importance_sampling_ratio", torch=torch, math=math,
    )  # fmt: skip

    def losses(b: Batch) -> dict[str, torch.Tensor]:
        grpo, mean, rloo = (torch.zeros_like(b.reward) for _ in range(3))
        for group in np.unique(b.group):
            members = torch.tensor(b.group == group)
            reward = b.reward[members]
            mean[members] = reward - reward.mean()
            grpo[members] = mean[members] / (reward.std() + 1e-4)
            rloo[members] = reward - (reward.sum() - reward) / (len(reward) - 1)

        def loss(
            kind: str,
            advantages: torch.Tensor,
            level: str = "token",
            rows: torch.Tensor | slice = slice(None),
            processes: int = 1,
            ratio: torch.Tensor | None = None,
            **options: Any,
        ) -> torch.Tensor:
            new, mask = b.new[rows], b.mask[rows]
            values = lambda *_, **__: (new, torch.zeros_like(new), None)  # noqa: E731
            micro_batches = MICRO_BATCHES if processes > 1 else 1
            trainer = SimpleNamespace(
                loss_type=kind, importance_sampling_level=level, top_entropy_quantile=1.0,
                off_policy_mask_threshold=None, beta=0.0, epsilon_low=0.2, epsilon_high=0.2,
                max_completion_length=64, use_vllm=ratio is not None,
                vllm_importance_sampling_correction=ratio is not None, aux_loss_enabled=False,
                current_gradient_accumulation_steps=micro_batches, _entropy_bonus_enabled=False,
                _get_per_token_logps_and_entropies=values, accelerator=_Accelerator(processes),
                args=SimpleNamespace(
                    use_bias_correction_kl=False, delta=None, steps_per_generation=micro_batches
                ),
                model=SimpleNamespace(training=True), _metrics={"train": defaultdict(list)},
            )  # fmt: skip
            trainer.__dict__.update(options)
            ids = torch.zeros(new.shape, dtype=torch.long)
            inputs = {
                "prompt_ids": ids[:, :1], "prompt_mask": ids[:, :1], "completion_ids": ids,
                "advantages": advantages[rows], "completion_mask": mask,
                "old_per_token_logps": b.old[rows], "ref_per_token_logps": b.reference[rows],
                "num_items_in_batch": b.mask.sum(), "old_logps": (b.old[rows] * mask).sum(1),
                "importance_sampling_ratio": ratio,
            }  # fmt: skip
            chosen = rloo_loss if kind == "rloo" else grpo_loss
            found: torch.Tensor = chosen(trainer, SimpleNamespace(training=True), inputs)
            return found

        def spread(kind: str, *rest: Any, **options: Any) -> torch.Tensor:
            """Return the loss whose gradient is that of all processes, which DDP averages."""
            parts = [
                loss(kind, *rest, rows=rows, processes=PROCESSES, **options) for rows in b.micro_batches()
            ]
            # transformers' Trainer divides the loss of TRL's RLOO by the number of micro-batches.
            return torch.stack(parts).sum() / PROCESSES / (MICRO_BATCHES if kind == "rloo" else 1)

        def corrected(mode: str, least: float | None, most: float) -> torch.Tensor:
            options = SimpleNamespace(
                use_vllm=True, vllm_importance_sampling_correction=True, vllm_importance_sampling_mode=mode,
                vllm_importance_sampling_clip_min=least, vllm_importance_sampling_clip_max=most,
            )  # fmt: skip
            return loss("grpo", grpo, ratio=correct(options, b.old, b.engine, b.mask, None))

        narrow = {"epsilon_low": 3e-4, "epsilon_high": 4e-4}
        return {
            "grpo": loss("grpo", grpo),
            "grpo kl": loss("grpo", grpo, beta=0.3),
            "grpo token-mean": loss("bnpo", grpo),
            "dr_grpo": loss("dr_grpo", mean),
            "rloo": loss("rloo", rloo),
            "gspo": loss("grpo", grpo, "sequence", **narrow),
            "cispo": loss("cispo", grpo, epsilon_high=1.28),
            "dapo": loss("dapo", grpo, epsilon_high=0.28),
            "grpo, processes": spread("grpo", grpo),
            "grpo kl, processes": spread("grpo", grpo, beta=0.3),
            "dr_grpo, processes": spread("dr_grpo", mean),
            "rloo, processes": spread("rloo", rloo),
            "gspo, processes": spread("grpo", grpo, "sequence", **narrow),
            "cispo, processes": spread("cispo", grpo, epsilon_high=1.28),
            "dapo, processes": spread("dapo", grpo, epsilon_high=0.28),
            "tis": corrected("token_truncate", None, 2.0),
            "mis": corrected("token_mask", None, 3.0),
            "icepop": corrected("token_mask", 0.5, 5.0),
            "sequence_truncate": corrected("sequence_truncate", None, 3.0),
            "sequence_mask": corrected("sequence_mask", None, 3.0),
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
