"""Records a training script without editing it: ``python -m rlpanel.recording train.py …``.

With ``SAVE_ROLLOUT_DATA=true``, every ``train()`` of a TRL trainer that generates is recorded. It also works
under a launcher: ``accelerate launch -m rlpanel.recording train.py …``.
"""

from __future__ import annotations

import functools
import importlib
import logging
import runpy
import sys
from pathlib import Path
from typing import Any

from rlpanel.recording.record import generates, record

log = logging.getLogger("rlpanel.recording")

#: Classes whose ``train()`` runs all trainers that are recorded: TRL's are subclasses of the first, the old
#: PPO trainer has its own. Importing the others of `trl.experimental` would load vLLM before the script does.
_TRAINERS = (
    ("transformers", "Trainer"),
    ("trl.experimental.ppo", "PPOTrainer"),
)


def install() -> list[str]:
    """Patch ``train()`` of TRL's trainers in this process so that it records; return the patched classes."""
    return [name for module, name in _TRAINERS if _install(module, name)]


def _install(module: str, name: str) -> bool:
    try:
        trainer = getattr(importlib.import_module(module), name)
    except Exception:  # of another package; the script itself will raise it if it needs that package
        return False
    train = trainer.train

    @functools.wraps(train)
    def recorded(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not generates(self):
            return train(self, *args, **kwargs)
        with record(self):
            return train(self, *args, **kwargs)

    trainer.train = recorded
    return True


def main() -> None:
    """Run a script as Python would, with its trainers patched to record."""
    if len(sys.argv) < 2:
        sys.exit(
            "usage: SAVE_ROLLOUT_DATA=true EXP_NAME=exp1 python -m rlpanel.recording train.py [arguments]"
        )
    if not install():
        log.warning(
            "rlpanel: neither transformers nor trl has a trainer that rlpanel knows; nothing will be recorded"
        )
    sys.argv = sys.argv[1:]
    sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
