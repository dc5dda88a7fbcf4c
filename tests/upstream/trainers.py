"""Trainers whose releases are watched: the package, and the writers that are executed at each release."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Trainer:
    """A trainer on the package index.

    Attributes
    ----------
    name, package : str
        Name in the documentation, and on the index.
    writers : tuple of str
        Its writers, ``module.function`` of `tests.upstream.writers`; none if only its version is watched.
    imported : bool
        Whether the package is imported as a whole, with its dependencies; or else single definitions of its
        sources are executed.
    """

    name: str
    package: str
    writers: tuple[str, ...] = ()
    imported: bool = False


TRAINERS = (
    Trainer("TRL", "trl", ("trl.completions",)),
    Trainer("verl", "verl", ("verl.dump", "verl.hook")),
    Trainer("OpenRLHF", "openrlhf", ("openrlhf.experiences",)),
    Trainer("ms-swift", "ms-swift", ("ms_swift.hf", "ms_swift.megatron", "ms_swift.ray")),
    Trainer("SkyRL", "skyrl", ("skyrl.evaluations", "skyrl.stepwise")),
    Trainer("tinker-cookbook", "tinker-cookbook", ("tinker_cookbook.summaries",)),
    Trainer("AReaL", "areal", ("areal.tasks",)),
    Trainer("verifiers", "verifiers", ("verifiers.evaluation", "verifiers.training"), imported=True),
    Trainer("NeMo Gym", "nemo-gym"),
    Trainer("OpenPipe ART", "openpipe-art"),
    Trainer("Harbor", "harbor"),
    Trainer("Inspect", "inspect-ai"),
    Trainer("atropos", "atroposlib"),
    Trainer("Agent-Lightning", "agentlightning"),
    Trainer("LLaMA-Factory", "llamafactory"),
    Trainer("unsloth", "unsloth"),
)
