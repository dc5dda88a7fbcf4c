"""Records trainers that are actor classes of Ray, which cannot be subclassed, without editing their source.

``ray.remote`` replaces a class by a handle, so that no script can change verl's ``FullyAsyncTrainer`` or
OpenRLHF's ``PPOTrainer``. Their base classes are plain: each of Ray's workers imports them. Ray can run a
function in each worker before that, `install`, which patches a base class when its module is imported. Ray
copies an actor's methods by name, so the copies in the worker are the patched ones::

    ray.init(runtime_env={"worker_process_setup_hook": "rlpanel.recording.ray.install"})

If the trainer calls ``ray.init`` itself, the environment variable
``RAY_RUNTIME_ENV_HOOK=rlpanel.recording.ray.runtime_env`` adds that to its call. rlpanel must be installed on
every node: a worker whose function cannot be imported does not start. Ray is not imported here.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

from rlpanel.recording import openrlhf, verl
from rlpanel.recording.trainers.patching import Guard

log = logging.getLogger("rlpanel.recording")

HOOK = "worker_process_setup_hook"
INSTALL = "rlpanel.recording.ray.install"
#: Module of a trainer's base class → name of the class, and the function that makes it record.
_TRAINERS: dict[str, tuple[str, Callable[[type], None]]] = {
    "verl.trainer.ppo.ray_trainer": ("RayPPOTrainer", verl.record_class),
    "verl.trainer.ppo.v1.trainer_base": ("PPOTrainer", verl.record_class),
    "openrlhf.trainer.ppo_trainer": ("BasePPOTrainer", openrlhf.record_class),
}


def install() -> None:
    """Make trainers record in this process, as soon as their modules are imported; never raises."""
    if any(isinstance(finder, _PatchedImports) for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, _PatchedImports())
    for name in _TRAINERS:
        if name in sys.modules:
            _patch(sys.modules[name])


def runtime_env(env: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a runtime environment of Ray with `install` as its hook, unless it has another hook."""
    found = dict(env or {})
    if found.setdefault(HOOK, INSTALL) != INSTALL:
        log.warning(
            "rlpanel: nothing is recorded, since this runtime_env has the %s %r; call %s() in that function",
            *(HOOK, found[HOOK], INSTALL),
        )
    return found


class _PatchedImports(importlib.abc.MetaPathFinder):
    """Finder that lets the other finders find a trainer's module, and patches it after its import."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of a trainer's module; None for all other modules."""
        if fullname not in _TRAINERS:
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        specs = (finder.find_spec(fullname, path, target) for finder in others)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _PatchingLoader(spec.loader)
        return spec


class _PatchingLoader(importlib.abc.Loader):
    """Loader that patches the module after another loader has executed it, and leaves that one in place."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """Create the module as the other loader does."""
        created: ModuleType | None = self._loader.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module and patch it."""
        module.__loader__ = self._loader  # tracebacks ask it for the source
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        _patch(module)


def _patch(module: ModuleType) -> None:
    name, record = _TRAINERS[module.__name__]
    Guard()(f"{module.__name__}.{name}", lambda: record(getattr(module, name)))
