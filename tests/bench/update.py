"""CPU and memory of an update's anatomy and of eight what-ifs: ``python -m tests.bench.update``.

The batch is made in memory: 4,096 samples of 4,000 tokens in groups of 8, with logprobs before and after the
update, of the engine and of the reference, as float32. The numbers are those beyond reading.
"""

from __future__ import annotations

import json
import time
import tracemalloc

import numpy as np

from rlpanel.update.compare_losses import compare_losses
from rlpanel.update.loss_algorithms import ALGORITHMS, algorithm_named
from rlpanel.update.token_gradient import PreparedLoss
from rlpanel.update.update_anatomy import anatomy
from rlpanel.update.update_batch import UpdateBatch

_SAMPLES, _TOKENS, _WORDS = 4096, 4000, 32_000
_OTHERS = ("dr_grpo", "rloo", "reinforce++", "gspo", "cispo", "dapo", "tis", "icepop")


def batch_of(samples: int, tokens: int) -> UpdateBatch:
    """Return a random batch."""
    r = np.random.default_rng(0)
    size = samples * tokens
    old = -r.standard_exponential(size, np.float32)

    def near(scale: float) -> np.ndarray:
        found = r.standard_normal(size, np.float32)
        found *= np.float32(scale)
        found += old
        return found

    token = r.standard_exponential(size, np.float32)
    token *= 2000
    np.minimum(token, _WORDS - 1, out=token)
    return UpdateBatch.of_arrays(
        np.full(samples, tokens),
        np.repeat(np.arange(samples // 8), 8),
        r.integers(0, 2, samples).astype(float),
        mask=np.arange(size) % 50 != 0,
        old=old,
        new=near(0.1),
        engine=near(0.05),
        reference=near(0.2),
        token=token.astype(np.int32),
        tokens=[f"Ġw{at}" for at in range(_WORDS)],
        truncated=np.zeros(samples),
    )


def _both(batch: UpdateBatch) -> dict[str, float]:
    begin = time.process_time()
    anatomy(batch, PreparedLoss(batch, ALGORITHMS["grpo"]))
    middle = time.process_time()
    compare_losses(batch, ALGORITHMS["grpo"], [algorithm_named(name) for name in _OTHERS])
    return {"anatomy_cpu_s": middle - begin, "what_ifs_cpu_s": time.process_time() - middle}


def main() -> None:
    """Print the least CPU of three passes, and the memory of another one, as one JSON object."""
    passes = [_both(batch_of(_SAMPLES, _TOKENS)) for _ in range(3)]
    found = min(passes, key=lambda each: sum(each.values()))
    batch = batch_of(_SAMPLES, _TOKENS)
    tracemalloc.start()
    _both(batch)
    print(json.dumps({**found, "memory_mb": tracemalloc.get_traced_memory()[1] / 1e6}))


if __name__ == "__main__":
    main()
