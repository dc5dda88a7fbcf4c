"""Generates rollout logs of any size for the benchmarks, deterministic in its arguments.

The logs imitate training: the reward rises towards its maximum, responses grow, surprisal falls, and the
policy drifts from its reference. Tokens are sub-words of Chinese, English and emoji, some of them split
inside a character as by real tokenizers. Prompts are padded to the longest of the batch.

Run as a script to write a log: ``python -m tests.bench.generate FOLDER --steps 20 --tokens 256``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

PAD = "<|pad|>"
END = "<|im_end|>"

_ENGLISH = "the of reward model think answer because there fore two x = + 12 . , ing ed ly un re"
_CHINESE = [*"渔歌绕清塘碧波送微寒月照山河万里风春江花夜", "因此", "答案", "我们"]
#: Byte-level tokens of a single character: decoded alone, each gives the replacement character.
_BROKEN = ["\ufffd", "\ufffd\ufffd"]
_EMOJI = ["🙂", "🚀", "👩‍🔬", "🇨🇳"]
_WORDS = np.array(_CHINESE + [f" {word}" for word in _ENGLISH.split()] + _BROKEN + _EMOJI, dtype=object)
#: Number of different responses.
POOL = 4096
RANKS = 8
SAMPLES_PER_STEP = 1000


@dataclass(frozen=True)
class Shape:
    """The size of a log.

    ``tokens`` is the length of the longest response, 0 for no token fields. ``scores`` is the number of
    further rewards.
    """

    steps: int = 20
    samples: int = 64
    ranks: int = 4
    tokens: int = 256
    seed: int = 0
    scores: int = 0

    @property
    def rows(self) -> int:
        """Number of samples in the whole log."""
        return self.steps * self.samples


def write_log(folder: Path, shape: Shape) -> list[Path]:
    """Write one file per rank below ``folder``; the lines of a step go to the ranks in turn."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"rollout_data_rank_{rank}.jsonl" for rank in range(shape.ranks)]
    files = [path.open("wb") for path in paths]
    try:
        for row, line in enumerate(lines(shape)):
            files[row % shape.ranks].write(line)
    finally:
        for file in files:
            file.close()
    return paths


def lines(shape: Shape) -> Iterator[bytes]:
    """Yield every line of the log, in the order of training."""
    draw = np.random.default_rng(shape.seed)
    for step in range(shape.steps):
        learnt = step / max(1, shape.steps - 1)
        for sample in range(shape.samples):
            row = _scores(draw, step, sample, learnt)
            if shape.tokens:
                row |= _tokens(draw, shape.tokens, learnt, row["reward"])
            else:
                row["response"] = "".join(_WORDS[draw.integers(len(_WORDS), size=4)])
            if shape.scores:
                scores = draw.normal(learnt, 1.0, shape.scores).round(4).tolist()
                row["rewards"] = {f"part_{number}": score for number, score in enumerate(scores)}
            yield json.dumps(row, ensure_ascii=False).encode() + b"\n"


def _scores(draw: np.random.Generator, step: int, sample: int, learnt: float) -> dict[str, object]:
    question = f"<|user|>{sample // 8} + {step} = ?{END}<|assistant|>"
    return {
        "prompt": PAD * int(draw.integers(0, 8)) + question,
        "ground_truth": str(sample // 8 + step),
        "ref_response": f"{sample} 🙂",
        "step": step,
        "group": f"{step}-{sample // 8}",
        "reward": float(np.tanh(draw.normal(2 * learnt - 0.5, 0.6))),
        "ref_reward": float(np.tanh(draw.normal(-0.5, 0.6))),
        "truncated": bool(draw.random() < 0.05),
    }


def _tokens(draw: np.random.Generator, longest: int, learnt: float, reward: float) -> dict[str, object]:
    # Most responses are near the limit, so that a line's size matches the requested one.
    size = max(1, longest - int(draw.exponential(longest * 0.02)))
    logprobs = -draw.exponential(1.2 - 0.8 * learnt, size)
    ref_logprobs = logprobs - draw.normal(0.05 * learnt, 0.02 + 0.2 * learnt, size)
    values = np.linspace(0.0, reward, size) + draw.normal(0, 0.05, size)
    token_rewards = -0.05 * (logprobs - ref_logprobs)
    token_rewards[-1] += reward
    tokens = _WORDS[draw.integers(len(_WORDS), size=size)].tolist()
    return {
        "response": "".join(tokens),
        "response_tokens": tokens,
        "logprobs": _floats(logprobs),
        "ref_logprobs": _floats(ref_logprobs),
        "values": _floats(values),
        "token_rewards": _floats(token_rewards),
    }


def _floats(array: np.ndarray) -> list[float]:
    """Convert like trainers do: float32 widened to double, so 17 digits each."""
    return array.astype(np.float32).tolist()


def write_large_log(folder: Path, steps: int, tokens: int = 24, *, critic: bool = False) -> int:
    """Write `RANKS` files with 1,000 samples per step; return their bytes. A million samples take seconds.

    The token arrays of a line are taken from a pool, because formatting numbers would take minutes. All other
    values differ from line to line, and no response occurs twice in a step.

    Parameters
    ----------
    folder : Path
    steps : int
    tokens : int
        Tokens per response; 0 for lines without token arrays.
    critic : bool
        Whether lines have values and token rewards too, as those of PPO.
    """
    folder.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(0)
    pool = [_response(draw, tokens, critic=critic) for _ in range(POOL)]
    logs = [(folder / f"rollout_data_rank_{rank}.jsonl").open("wb") for rank in range(RANKS)]
    for step in range(steps):
        learnt = step / max(1, steps - 1)
        rewards = np.tanh(draw.normal(2 * learnt - 0.5, 0.6, SAMPLES_PER_STEP)).tolist()
        chosen = draw.permutation(POOL)[:SAMPLES_PER_STEP].tolist()
        lines = [
            b'{"step": %d, "prompt": "<|user|>%d + %d = ?<|assistant|>", "ground_truth": "%d", '
            b'"group": "%d-%d", "reward": %a, %b'
            % (step, i // 8, step, i // 8 + step, step, i // 8, reward, pool[response])
            for i, (reward, response) in enumerate(zip(rewards, chosen, strict=True))
        ]
        for rank, log in enumerate(logs):
            log.write(b"".join(lines[rank::RANKS]))
    for log in logs:
        log.close()
    return sum(path.stat().st_size for path in folder.iterdir())


def _response(draw: np.random.Generator, tokens: int, *, critic: bool) -> bytes:
    """Return the end of a line: response and token arrays."""
    words = [f" w{word}" for word in draw.integers(0, 30_000, max(tokens, 24)).tolist()]
    response: dict[str, object] = {"response": "".join(words)}
    if tokens:
        logprobs = -draw.exponential(0.8, tokens)
        ref_logprobs = logprobs - draw.normal(0.03, 0.1, tokens)
        response["response_tokens"] = words
        for name, values in (("logprobs", logprobs), ("ref_logprobs", ref_logprobs)):
            response[name] = _floats(values)
    if critic:
        response["values"] = _floats(np.linspace(0.0, 0.5, tokens) + draw.normal(0, 0.05, tokens))
        response["token_rewards"] = _floats(draw.normal(0, 0.05, tokens))
    return json.dumps(response)[1:].encode() + b"\n"


def main() -> None:
    """Write a log from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    for name, value in asdict(Shape()).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    given = vars(parser.parse_args())
    write_log(given.pop("folder"), Shape(**given))


if __name__ == "__main__":
    main()
