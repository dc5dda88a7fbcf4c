"""The folder of a recording: found by environment variables or a name, and described by ``run.json``.

Output folder that environment variables select: ``<output>/rollout_samples/<EXP_NAME>/``.

Collects the trainer's constants (coefficients, batch sizes, versions) for ``run.json``.

Finds the folder of an experiment by its name, for ``rlpanel serve EXP_NAME``.
"""

from __future__ import annotations

import difflib
import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rlpanel.errors import RunNotFound
from rlpanel.recording.writer.recording_options import is_true

FOLDER = "rollout_samples"
#: Variables: whether to record, the experiment's name, and the folder that replaces ``<output>``.
SAVE, NAME, OUTPUT = "SAVE_ROLLOUT_DATA", "EXP_NAME", "ROLLOUT_DATA_DIR"


def requested_by_environment() -> bool | None:
    """Return the value of ``SAVE_ROLLOUT_DATA``, or None if it is not set."""
    text = os.environ.get(SAVE, "").strip()
    return is_true(text) if text else None


def samples_folder(output: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder that holds the experiments.

    ``ROLLOUT_DATA_DIR`` may name the output folder or its ``rollout_samples``. Without it, ``output`` is
    used, or else the working folder.
    """
    path = Path(os.environ.get(OUTPUT) or output or ".")
    return path if path.name == FOLDER else path / FOLDER


def folder_from_environment(output: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the folder to record into, or None if ``SAVE_ROLLOUT_DATA`` is not true.

    Parameters
    ----------
    output : path, optional
        The training's output folder; ``ROLLOUT_DATA_DIR`` takes precedence over it.
    """
    return _experiment(output) if requested_by_environment() else None


def folder_of_hook(output: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the folder that a hook records into, or None if ``SAVE_ROLLOUT_DATA`` is false.

    A hook is named in a trainer's options in order to record, so the variable need not be set.

    Parameters
    ----------
    output : path, optional
        The training's output folder; ``ROLLOUT_DATA_DIR`` takes precedence over it.
    """
    return None if requested_by_environment() is False else _experiment(output)


def _experiment(output: str | os.PathLike[str] | None) -> Path:
    name = os.environ.get(NAME, "").strip() or Path(output or ".").resolve().name
    # The name must not act as a path: EXP_NAME=../x would lead out of the folder.
    return samples_folder(output) / (name.replace(os.sep, "_").lstrip(".") or "run")


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


#: Number of levels searched below the working folder: ./rollout_samples, ./*/rollout_samples …
DEPTH = 2


def experiment_folders(start: Path | None = None) -> list[Path]:
    """Return all folders of experiments: the environment's first, then those below the working folder."""
    top = start or Path()
    folders = [samples_folder(), *(home for depth in range(DEPTH + 1) for home in _homes_at(top, depth))]
    return list(dict.fromkeys(folder for folder in folders if folder.is_dir()))


def _homes_at(start: Path, depth: int) -> list[Path]:
    try:
        return sorted(start.glob("/".join([*["*"] * depth, FOLDER])))
    except OSError:
        return []


def find_experiment(name: str, start: Path | None = None) -> tuple[Path, str]:
    """Return an experiment's folder, and a message for the user if that folder does not exist yet.

    Raises
    ------
    RunNotFound
        If several experiments have this name, or none has it but there is one with a similar name.
    """
    parents = experiment_folders(start)
    matches = [home / name for home in parents if (home / name).is_dir()]
    if len(matches) == 1:
        return matches[0], ""
    if matches:
        raise RunNotFound(f"there are {len(matches)} experiments {name!r}: give one of {_listed(matches)}")
    existing = sorted({entry.name for home in parents for entry in home.iterdir() if entry.is_dir()})
    expected = samples_folder() / name
    if close := difflib.get_close_matches(name, existing, n=3):
        raise RunNotFound(
            f"no experiment {name!r}; did you mean {' or '.join(close)}? "
            f"If the experiment has not started yet, give its folder: rlpanel serve {expected}"
        )
    others = f"existing ones: {', '.join(existing[:8])}" if existing else f"no {FOLDER} folder near here"
    return expected, (
        f"no experiment {name!r} yet ({others}); the board waits for {expected}. If training is running, "
        f"check that its environment has {SAVE}=true, {NAME}={name}, and {OUTPUT} or an output folder here"
    )


def _listed(paths: list[Path]) -> str:
    return ", ".join(str(path) for path in paths)
