"""Collects the trainer's constants (coefficients, batch sizes, versions) for ``run.json``."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

_ARGUMENTS = (
    "beta",
    "kl_coef",
    "kl_estimator",
    "epsilon",
    "epsilon_high",
    "gamma",
    "lam",
    "cliprange",
    "cliprange_value",
    "vf_coef",
    "whiten_rewards",
    "missing_eos_penalty",
    "reward_weights",
    "reward_clip_range",
    "scale_rewards",
    "normalize_advantages",
    "loss_type",
    "importance_sampling_level",
    "num_generations",
    "num_iterations",
    "logging_steps",
    "steps_per_generation",
    "gradient_accumulation_steps",
    "per_device_train_batch_size",
    "num_ppo_epochs",
    "num_mini_batches",
    "learning_rate",
    "temperature",
    "max_completion_length",
    "response_length",
    "max_steps",
    "seed",
    "use_vllm",
    "mask_truncated_completions",
    "off_policy_mask_threshold",
    "weight_sync_steps",
    "max_staleness",
)
#: What caps or masks the importance ratio between the trainer and vLLM.
_VLLM_ARGUMENTS = (
    "vllm_importance_sampling_correction",
    "vllm_importance_sampling_mode",
    "vllm_importance_sampling_clip_min",
    "vllm_importance_sampling_clip_max",
)
_PACKAGES = ("trl", "transformers", "torch", "accelerate", "vllm")
#: The KL estimators of trainers without such an option.
_KL_ESTIMATORS = {"grpo": "k3", "rloo": "k1"}


def constants_of(trainer: Any, algo: str) -> dict[str, Any]:
    """Return the algorithm, coefficients, batch sizes and versions; values the trainer lacks are left out."""
    args = trainer.args
    names = _ARGUMENTS + _VLLM_ARGUMENTS * bool(getattr(args, "use_vllm", False))
    arguments = {name: value for name in names if (value := getattr(args, name, None)) is not None}
    weights = getattr(trainer, "reward_weights", None)
    if weights is not None:
        functions = getattr(trainer, "reward_func_names", [])
        arguments["reward_weights"] = dict(zip(functions, weights.tolist(), strict=False))
    named = {"algo": algo, "trainer": type(trainer).__name__, "kl_estimator": _KL_ESTIMATORS.get(algo)}
    return {
        **{name: value for name, value in named.items() if value},
        **arguments,
        "processes": getattr(trainer.accelerator, "num_processes", 1),
        "versions": {name: number for name in _PACKAGES if (number := _version(name))},
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
