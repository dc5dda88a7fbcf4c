"""The weight of each token in the gradient equals that of TRL's and verl's own losses on random batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlpanel.update.loss_algorithms import algorithm_named
from rlpanel.update.token_gradient import PreparedLoss
from rlpanel.update.update_batch import UpdateBatch
from tests.upstream.process import run_once

#: verl clips the ratio of a negative advantage at 3, adds 1e-6 to a deviation, and clips k3 at 10.
_VERL = {"dual_clip": 3.0, "std_epsilon": 1e-6, "kl_bound": 10.0}
_TOKENS = {"ratio": "token", "averaging": "token-mean"}


def _corrections(constants: dict[str, Any]) -> dict[str, tuple[str, dict[str, Any]]]:
    by_sequence = ("sequence_truncate", "sequence_mask")
    found = {name: (name, constants) for name in ("tis", "mis", "icepop")}
    return found | {name: ("grpo", {**constants, "correction": name}) for name in by_sequence}


#: Case of a trainer → algorithm and its constants.
CASES: dict[str, dict[str, tuple[str, dict[str, Any]]]] = {
    "verl": {
        "grpo": ("grpo", _VERL),
        "dr_grpo": ("dr_grpo", {**_VERL, "max_length": 64}),
        "rloo": ("rloo", {**_VERL, **_TOKENS}),
        "reinforce++": ("reinforce++", _VERL),
        "reinforce++ kl": ("reinforce++", {**_VERL, "beta": 0.1}),
        "reinforce++-baseline": ("reinforce++-baseline", _VERL),
        "dapo": ("dapo", _VERL),
        "gspo": ("gspo", {"std_epsilon": 1e-6}),
        "cispo": ("cispo", {"std_epsilon": 1e-6}),
        **_corrections(_VERL),
        **{
            f"grpo {name}": ("grpo", {**_VERL, "beta": 0.3, "estimator": name}) for name in ("k1", "k2", "k3")
        },
    },
    "trl": {
        "grpo": ("grpo", {}),
        "grpo kl": ("grpo", {"beta": 0.3}),
        "grpo token-mean": ("grpo", {"averaging": "token-mean"}),
        "dr_grpo": ("dr_grpo", {"max_length": 64}),
        "rloo": ("rloo", {}),
        "gspo": ("gspo", {}),
        "cispo": ("cispo", {}),
        "dapo": ("dapo", {"drop_flat": False, "drop_truncated": False}),
        **_corrections({}),
    },
}
#: Cases that are spread over processes and micro-batches: the loss of the whole batch.
for _cases, _names in (
    ("verl", ("grpo", "dr_grpo", "reinforce++", "dapo", "gspo", "cispo")),
    ("trl", ("grpo", "grpo kl", "dr_grpo", "rloo", "gspo", "cispo", "dapo")),
):
    CASES[_cases] |= {f"{name}, processes": CASES[_cases][name] for name in _names}


@pytest.fixture(scope="session")
def gradients(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a function that computes a trainer's gradients once and returns the folder."""
    return run_once(tmp_path_factory, "tests.upstream.writers_losses")


@pytest.mark.parametrize("trainer", sorted(CASES))
def test_pushes_equal_the_gradients_of_the_trainers_own_losses(gradients: Any, trainer: str) -> None:
    files = sorted(Path(gradients(trainer)).glob("*.npz"))
    assert len(files) == 200
    clipped = 0
    for file in files:
        with np.load(file) as stored:
            arrays = dict(stored)
        wanted = {name[5:]: arrays.pop(name) for name in list(arrays) if name.startswith("loss:")}
        assert wanted.keys() == CASES[trainer].keys()
        batch = UpdateBatch.of_arrays(**{**arrays, "mask": arrays["mask"] > 0})
        for case, (name, constants) in CASES[trainer].items():
            loss = PreparedLoss(batch, algorithm_named(name, **constants))
            pushes = [loss.push(block) for block in batch.blocks()]
            found = np.concatenate([push for push, _ in pushes])
            np.testing.assert_allclose(
                found, wanted[case], atol=1e-9, rtol=1e-6, err_msg=f"{case} in {file.name}"
            )
            clipped += sum(count for _, count in pushes)
    assert clipped > 1000
