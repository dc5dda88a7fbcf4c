"""AReaL's dump of training and evaluation."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from tests.upstream.sources import load
from tests.upstream.writers.letters import TOKENS, padded


def tasks(folder: Path) -> None:
    """Dump two tasks that several versions sampled, an evaluation, and a task that was rejected."""
    files = SimpleNamespace(os=SimpleNamespace(makedirs=_makedirs), open=_AsyncFile)
    localize = SimpleNamespace(localize=lambda traj: traj)
    dump = load(
        "areal/infra/workflow_executor.py", "WorkflowExecutor._dump_trajectory",
        RTensor=localize, aiofiles=files, os=os, json=json,
    )._dump_trajectory  # fmt: skip
    executor = SimpleNamespace(
        _get_dump_dir=lambda is_eval: str(folder / ("eval-rollout" if is_eval else "rollout")),
        _get_tokenizer=lambda: TOKENS,
        inference_engine=None,
        logger=None,
    )
    for task, versions, is_eval in ((17, [1, 2], False), (18, [2, 2], False), (1001, [2, 2], True)):
        asyncio.run(dump(executor, _trajectory(versions), task, is_eval))
    asyncio.run(dump(executor, None, 19, False))


def _trajectory(versions: list[int]) -> dict[str, Any]:
    """Return a group: a right answer, a wrong one, and one that was aborted before its first token."""
    prompt, responses = "2 + 2?", ["4", "five", ""]
    ids = padded([prompt + response for response in responses])
    return {
        "input_ids": ids,
        "attention_mask": (ids > 0).long(),
        "loss_mask": torch.tensor(
            [[int(j >= len(prompt) and i > 0) for j, i in enumerate(row)] for row in ids]
        ),
        "rewards": torch.tensor([1.0, 0.0, 0.0]),
        "versions": torch.tensor(versions),
    }


async def _makedirs(path: str, exist_ok: bool) -> None:
    os.makedirs(path, exist_ok=exist_ok)


class _AsyncFile:
    def __init__(self, path: str, mode: str) -> None:
        self.file = open(path, mode)  # noqa: SIM115  closed at the end of the context

    async def __aenter__(self) -> _AsyncFile:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.file.close()

    async def write(self, text: str) -> None:
        self.file.write(text)
