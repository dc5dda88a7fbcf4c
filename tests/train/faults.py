"""Real GRPO trainings of a tiny model with one fault each: ``python -m tests.train.faults FOLDER FAULT ...``.

The model first learns from texts of which every third is wrong; GRPO then improves it. From step 25 on the
run has its fault; ``healthy`` has none, nor have those of `SEEDS`, which draw other responses.
`tests/data/faults` holds what came out, trimmed by
``python -m tests.train.faults --trim FOLDER DATA``. ``--halt FOLDER FAULT PACKAGES`` lets an alarm stop it.
"""

from __future__ import annotations

import json
import lzma
import os
import random
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

#: Step from which on a run has its fault, and number of steps.
ONSET, STEPS = 25, 50
#: Healthy runs with another seed: same prompts in the same steps.
SEEDS = {"other_seed": 6, "third_seed": 7}
FAULTS = ("healthy", *SEEDS, "rate", "null_part", "mixed_groups", "template", "leak", "cached_tool")
_GROUP, _BATCH, _BASE_RATE = 4, 32, 2e-4
_NAMES = (
    "Ada",
    "Ben",
    "Chen",
    "Dina",
    "Emre",
    "Fatou",
    "Hana",
    "Ines",
    "Jonas",
    "Kofi",
    "Lena",
    "Mika",
    "Noor",
)
_THINGS = ("apples", "books", "coins", "eggs", "hats", "keys", "lamps", "maps", "pens", "shirts", "ropes")
_ASK = "User: {name} has {a} {things} and finds {b} more. How many {things} are there?\nAssistant:"
#: A solution is one of each; the last ones have the answer, or lack its tag.
_SAY = (
    (
        " {name} has {a} {things}.",
        " First there are {a} {things}.",
        " We start with {a}.",
        " So {a} {things} at first.",
        " Let me count: {a} {things}.",
        " In the beginning {name} has {a}.",
    ),
    (
        " Then {b} more come.",
        " {name} finds {b} {things}.",
        " After that {b} are added.",
        " Now add {b} to it.",
        " With {b} more it grows.",
        " The {b} new ones count too.",
    ),
    (
        " That gives <answer>{c}</answer>",
        " The sum is <answer>{c}</answer>",
        " {a} plus {b}: <answer>{c}</answer>",
        " So we get <answer>{c}</answer>",
        " Together <answer>{c}</answer>",
        " There are {c} {things}.",
    ),
)
#: Keys that a trimmed row keeps, and token arrays with the runs that keep them.
_KEPT = (
    "step", "rank", "group", "prompt", "response", "reward", "rewards", "advantage", "ground_truth", "split",
    "finish_reason", "truncated", "messages", "prompt_messages", "response_length",
)  # fmt: skip
_ARRAYS, _WITH_ARRAYS = ("logprobs", "ref_logprobs"), ("healthy", "rate")


def questions(count: int, seed: int) -> list[dict[str, Any]]:
    """Return questions with the words that they are made of; no two are the same."""
    draw, made = random.Random(seed), {}
    while len(made) < count:
        words = {"name": draw.choice(_NAMES), "things": draw.choice(_THINGS)}
        sums = {"a": draw.randint(1, 9), "b": draw.randint(1, 9)}
        row: dict[str, Any] = words | sums
        made[_ASK.format(**row)] = row | {"answer": str(sums["a"] + sums["b"])}
    return [{"prompt": prompt} | row for prompt, row in made.items()]


def solution(row: dict[str, Any], draw: random.Random) -> str:
    """Return a solution, every third of which is wrong."""
    right = draw.random() > 0.35
    number = row["a"] + row["b"] if right else draw.randint(2, 18)
    return "".join(draw.choice(each) for each in _SAY).format(c=number, **row)


def score_answer(completions: list[Any], answer: list[str], **_: Any) -> list[float]:
    """Score 1 for the right number in the tag of the answer."""
    texts = [each if isinstance(each, str) else each[-1].get("content") or "" for each in completions]
    return [float(f"<answer>{truth}</answer>" in text) for text, truth in zip(texts, answer, strict=True)]


#: State of the tool: whether it answers all calls with one page.
shop: dict[str, bool] = {"cached": False}


def count_of(name: str, things: str) -> int:
    """Return how many things somebody has, by the tool."""
    return 2 + (7 * _NAMES.index(name) + 3 * _THINGS.index(things)) % 17


def stock(name: str, things: str) -> str:
    """Looks up how many things somebody has.

    Args:
        name: who
        things: what
    """
    if shop["cached"] or name not in _NAMES or things not in _THINGS:
        return "Ada has 2 apples."
    return f"{name} has {count_of(name, things)} {things}."


class Format:
    """The reward for the tag of the answer; null from the onset on if the run has this fault."""

    __name__ = "score_format"

    def __init__(self, fault: str) -> None:
        self.fault = fault

    def __call__(self, completions: list[str], trainer_state: Any, **_: Any) -> list[float | None]:
        if self.fault == "null_part" and trainer_state.global_step + 1 >= ONSET:
            return [None] * len(completions)
        return [0.3 * (text.count("<answer>") == 1 == text.count("</answer>")) for text in completions]


def broken(trainer: type, fault: str, leaked: list[dict[str, Any]]) -> type:
    """Return the trainer whose batches of prompts have the fault from the onset on."""

    class Broken(trainer):
        def _prepare_inputs(self, generation_batch: Any) -> Any:
            shop["cached"] = fault == "cached_tool" and self.state.global_step + 1 >= ONSET
            if self.model.training and self.state.global_step + 1 >= ONSET:
                generation_batch = self.spoiled(generation_batch)
            return super()._prepare_inputs(generation_batch)

        def spoiled(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
            if fault == "mixed_groups":  # tiled instead of repeated
                return [row for first in range(_GROUP) for row in rows[first::_GROUP]]
            if fault == "template":
                return [row | {"prompt": row["prompt"].removesuffix("\nAssistant:")} for row in rows]
            if fault == "leak":
                begin = _BATCH // _GROUP // 4 * self.state.global_step
                more = [leaked[(begin + at) % len(leaked)] for at in range(_BATCH // _GROUP // 4)]
                return [row for row in more for _ in range(_GROUP)] + rows[_GROUP * len(more) :]
            return rows

    Broken.__name__ = trainer.__name__
    return Broken


def taught(tokens: Any, texts: Callable[[random.Random], tuple[str, str]], rounds: int, width: int) -> Any:
    """Return a small Llama that learned, by plain supervised training, to go on as the texts do."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, set_seed

    set_seed(7)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokens),
            hidden_size=width,
            intermediate_size=2 * width,
            num_hidden_layers=2,
            num_attention_heads=4,
            pad_token_id=tokens.pad_token_id,
            eos_token_id=tokens.eos_token_id,
            bos_token_id=None,
        )
    )
    draw, rate = random.Random(3), 3e-3
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    for at in range(rounds):
        for group in optimizer.param_groups:
            group["lr"] = rate * (1 - at / rounds)
        pairs = [texts(draw) for _ in range(48)]
        batch = tokens([a + b for a, b in pairs], return_tensors="pt", padding=True, padding_side="right")
        labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
        for row, (prompt, _) in zip(labels, pairs, strict=True):
            row[: len(tokens(prompt)["input_ids"])] = -100
        loss = model(**batch, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if at % 100 == 99:
            print(f"taught {at + 1}: loss {loss.item():.3f}", file=sys.stderr, flush=True)
    return model


def tokenizer(texts: Iterator[str]) -> Any:
    """Return a byte-level BPE of the texts."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    special = ["<|pad|>", "<|eos|>"]
    made.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=420, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
        ),
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<|pad|>", eos_token="<|eos|>", padding_side="left"
    )


def config(folder: Path, **options: Any) -> Any:
    """Return the settings that all runs share, and those of the options."""
    import trl

    shared: dict[str, Any] = {
        "report_to": "none",
        "use_cpu": True,
        "logging_steps": 1,
        "save_strategy": "no",
        "disable_tqdm": True,
        "per_device_train_batch_size": _BATCH,
        "per_device_eval_batch_size": _BATCH,
        "num_generations": _GROUP,
        "learning_rate": _BASE_RATE,
        "lr_scheduler_type": "constant",
        "beta": 0.05,
        "max_steps": STEPS,
        "seed": 5,
    }
    return trl.GRPOConfig(output_dir=str(folder / "output"), **(shared | options))


def scripted(trainer: type) -> type:
    """Return a trainer whose policy is a script: it asks the tool, and reads three of four results right."""
    draw = random.Random(4)

    class Scripted(trainer):
        def _generate_single_turn(self, prompt_ids: list[list[int]], *_: Any, **__: Any) -> Any:
            tokens = self.processing_class
            said = [self.say(tokens.decode(ids)) for ids in prompt_ids]
            return [tokens(text, add_special_tokens=False)["input_ids"] for text in said], None

        def say(self, text: str) -> str:
            things, name = re.findall(r"How many (\w+) has (\w+)\?", text)[-1]
            found = re.findall(r"<tool_response>\s*\w+ has (\d+)", text)
            if not found:
                call = json.dumps({"name": "stock", "arguments": {"name": name, "things": things}})
                return f"<tool_call>\n{call}\n</tool_call><|im_end|>"
            number = found[-1] if draw.random() > 0.25 else str(draw.randint(2, 18))
            begin = draw.choice(("So", "It says that", "As found,", "By the tool", "Now", "The answer:"))
            return f"{begin} {name} has <answer>{number}</answer> {things}.<|im_end|>"

    Scripted.__name__ = trainer.__name__
    return Scripted


def tool_trainer(fault: str, folder: Path) -> Any:
    """Return the trainer of a scripted policy that asks a tool: a tiny model would not learn to."""
    import trl
    from datasets import Dataset

    from tests.train import tiny

    rows = [{"name": name, "things": things} for name in _NAMES for things in _THINGS]
    random.Random(2).shuffle(rows)
    data = [
        {
            "prompt": [{"role": "user", "content": f"How many {row['things']} has {row['name']}?"}],
            "answer": str(count_of(**row)),
        }
        for row in rows
    ]
    chat = tiny.chat_tokenizer()
    texts = (
        chat.apply_chat_template(row["prompt"], tools=[stock], add_generation_prompt=True, tokenize=False)
        for row in data
    )
    tokens = tiny.as_chat(tokenizer(texts))
    home = folder.parent / "tools"
    tiny.policy(tokens).save_pretrained(home)
    return scripted(broken(trl.GRPOTrainer, fault, []))(
        model=str(home),
        processing_class=tokens,
        reward_funcs=[score_answer],
        args=config(folder, max_completion_length=250, per_device_train_batch_size=16),
        train_dataset=Dataset.from_list(data),
        tools=[stock],
    )


def trainer(fault: str, folder: Path) -> Any:
    """Return the trainer of a run with the fault."""
    import torch
    import trl
    from datasets import Dataset

    if fault == "cached_tool":
        return tool_trainer(fault, folder)

    train, held = questions(424, 1)[:400], questions(424, 1)[400:]
    draw = random.Random(5)
    tokens = tokenizer(f"{row['prompt']}{solution(row, draw)}" for row in train for _ in range(3))

    def pair(draw: random.Random) -> tuple[str, str]:
        row = draw.choice(train)
        return row["prompt"], f"{solution(row, draw)}<|eos|>"

    home = folder.parent / "taught"
    if not home.exists():
        taught(tokens, pair, 500, 64).save_pretrained(home)
    made = broken(trl.GRPOTrainer, fault, held)(
        model=str(home),
        processing_class=tokens,
        reward_funcs=[score_answer, Format(fault)],
        args=config(
            folder,
            max_completion_length=44,
            **({"eval_strategy": "steps", "eval_steps": 5} if fault == "leak" else {}),
            **({"seed": SEEDS[fault], "data_seed": 5} if fault in SEEDS else {}),
        ),
        train_dataset=Dataset.from_list(train),
        eval_dataset=Dataset.from_list(held[:16]) if fault == "leak" else None,
    )
    if fault == "rate":
        optimizer = made.create_optimizer()
        made.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: 20.0 if step + 1 >= ONSET else 1.0
        )
    return made


def trim(folder: Path, data: Path) -> None:
    """Write a recorded run without what the findings do not read, packed."""
    for path in sorted(folder.rglob("*.jsonl")):
        lines = []
        for line in path.read_text("utf-8").splitlines():
            row = json.loads(line, parse_float=lambda text: round(float(text), 3))
            if path.name.startswith("rollout_data"):
                arrays = [key for key in _ARRAYS if key in row and data.name in _WITH_ARRAYS]
                rounded = {key: [round(value, 1) for value in row[key]] for key in arrays}
                row = {key: value for key, value in row.items() if key in _KEPT} | rounded
            lines.append(json.dumps(row, ensure_ascii=False, separators=(",", ":")))
        target = data / path.relative_to(folder).with_suffix(".jsonl.xz")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(lzma.compress("\n".join(lines).encode() + b"\n", preset=9 | lzma.PRESET_EXTREME))


def halted(folder: Path, fault: str, packages: str) -> dict[str, Any]:
    """Train with ``halt_on="alarm"``; return the last step, and why the training stopped.

    Parameters
    ----------
    folder : Path
    fault : str
    packages : str
        Folder with what rlpanel needs, which comes last: the training has its own versions.
    """
    import rlpanel

    sys.path.append(packages)
    made = trainer(fault, folder / fault)
    with rlpanel.record(made, folder / fault / "run", halt_on="alarm") as recording:
        made.train()
    return {"steps": made.state.global_step, "reason": recording.halted}


def main() -> None:
    """Train with the fault of the command line, trim a run, or let an alarm stop a training."""
    if sys.argv[1] == "--trim":
        trim(Path(sys.argv[2]), Path(sys.argv[3]))
        return
    if sys.argv[1] == "--halt":
        print(json.dumps(halted(Path(sys.argv[2]), *sys.argv[3:5])))
        return
    import torch

    import rlpanel

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
    root, faults = Path(sys.argv[1]), sys.argv[2:]
    for fault in faults or FAULTS:
        made = trainer(fault, root / fault)
        with rlpanel.record(made, root / fault / "run"):
            made.train()
        print(fault, file=sys.stderr)
        for entry in made.state.log_history[::5]:
            keys = ("reward", "rewards/score_answer/mean", "kl", "learning_rate", "grad_norm", "eval_reward")
            row = {key: round(float(entry[key]), 5) for key in keys if key in entry}
            print(row, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
