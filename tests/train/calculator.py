"""Trains a tiny policy with a calculator that begins to fail: the demo's recorded run of an agent.

``python -m tests.train.calculator FOLDER`` takes minutes on two cores. The policy is made here, taught by
examples to call the tool, and then trained by TRL's GRPO while `rlpanel.record` records. From step `BREAKS`
on most calls raise an error, which TRL gives to the policy as the tool's result.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
import trl
from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, set_seed

import rlpanel

STEPS, BREAKS = 40, 21
#: Numbers are smaller than this.
SIZE = 6
_USER = "<|im_start|>user"
LESSONS = 1500
_MARKS = ["<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>"]


class Calculator:
    """The tool, and how often it fails.

    Attributes
    ----------
    failing : float
        Probability that a call raises an error.
    """

    def __init__(self) -> None:
        self.failing = 0.0
        self._chance = random.Random(3)

    def tool(self) -> Any:
        """Return the function that the policy calls."""

        def add(a: int, b: int) -> int:
            """Adds.

            Args:
                a: first
                b: second
            """
            if self._chance.random() < self.failing:
                raise RuntimeError("calculator unavailable")
            return int(a) + int(b)

        return add


def question(a: int, b: int) -> list[dict[str, Any]]:
    """Return the prompt that asks for a sum."""
    return [{"role": "user", "content": f"{a}+{b}?"}]


def example(chance: random.Random) -> list[dict[str, Any]]:
    """Return a conversation to learn from; three of ten guess, and some of the others call in vain."""
    a, b = chance.randrange(SIZE), chance.randrange(SIZE)
    if chance.random() < 0.3:
        return [*question(a, b), {"role": "assistant", "content": f"It is {chance.randrange(2 * SIZE - 1)}."}]
    wrong = chance.random() < 0.15
    arguments = {"a": a, "b": chance.randrange(SIZE) if wrong else b}
    call = {"type": "function", "function": {"name": "add", "arguments": arguments}}
    if chance.random() < 0.1:
        result, answer = '{"error": "calculator unavailable"}', f"It is {chance.randrange(2 * SIZE - 1)}."
    else:
        result = str(sum(arguments.values()))
        answer = f"It is {result}."
    return [
        *question(a, b),
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "name": "add", "content": result},
        {"role": "assistant", "content": answer},
    ]


def chat_tokenizer(tool: Any) -> PreTrainedTokenizerFast:
    """Return a tokenizer with one token per digit, made from the conversations themselves."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    made.decoder = decoders.ByteLevel()
    tokens = PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<|pad|>", padding_side="left")
    tokens.chat_template = (files("trl") / "chat_templates" / "qwen3.jinja").read_text("utf-8")
    chance = random.Random(1)
    texts = [tokens.apply_chat_template(example(chance), tools=[tool], tokenize=False) for _ in range(200)]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=640, special_tokens=["<|pad|>", *_MARKS], initial_alphabet=alphabet
    )
    made.train_from_iterator(texts, trainer)
    template = tokens.chat_template
    tokens = PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<|pad|>", eos_token="<|im_end|>", padding_side="left"
    )
    tokens.add_special_tokens({"additional_special_tokens": _MARKS})
    tokens.chat_template = template
    return tokens


def lessons(tokens: PreTrainedTokenizerFast, tool: Any) -> Iterator[dict[str, torch.Tensor]]:
    """Yield batches of conversations."""
    chance = random.Random(2)
    while True:
        texts = [tokens.apply_chat_template(example(chance), tools=[tool], tokenize=False) for _ in range(16)]
        batch = tokens(texts, padding=True, return_tensors="pt", add_special_tokens=False)
        # The system prompt is always the same: only what follows it is learnt.
        answers = [text[text.index(_USER) :] for text in texts]
        lengths = [len(tokens(text, add_special_tokens=False).input_ids) for text in answers]
        places = torch.arange(batch["input_ids"].shape[1])
        learnt = places >= len(places) - torch.tensor(lengths)[:, None]
        yield {**batch, "labels": batch["input_ids"].masked_fill(~learnt, -100)}


def taught(tokens: PreTrainedTokenizerFast, tool: Any) -> LlamaForCausalLM:
    """Return a policy that has learnt the conversations by supervised fine-tuning."""
    set_seed(7)
    config = LlamaConfig(
        vocab_size=len(tokens),
        hidden_size=96,
        intermediate_size=192,
        num_hidden_layers=2,
        num_attention_heads=4,
        pad_token_id=tokens.pad_token_id,
        eos_token_id=tokens.eos_token_id,
        bos_token_id=None,
    )
    policy = LlamaForCausalLM(config)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, LESSONS)
    for at, batch in zip(range(LESSONS), lessons(tokens, tool), strict=False):
        loss = policy(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if at % 50 == 0:
            print(f"lesson {at}: loss {loss.item():.3f}", flush=True)
    return policy


def score_sum(completions: list[list[dict[str, Any]]], answer: list[str], **_: Any) -> list[float]:
    """Score 1 for the right sum, and 0.1 for a sentence of the right form."""
    said = [str(messages[-1].get("content") or "").strip() for messages in completions]
    return [
        1.0 if text == f"It is {truth}." else 0.1 * text.startswith("It is ")
        for text, truth in zip(said, answer, strict=True)
    ]


def sums(count: int) -> Dataset:
    """Return the data set of sums."""
    chance = random.Random(4)
    pairs = [(chance.randrange(SIZE), chance.randrange(SIZE)) for _ in range(count)]
    return Dataset.from_list([{"prompt": question(a, b), "answer": str(a + b)} for a, b in pairs])


def main(folder: Path) -> None:
    """Teach the policy, then train and record it."""
    torch.set_num_threads(1)
    calculator = Calculator()
    tool = calculator.tool()
    tokens = chat_tokenizer(tool)
    taught(tokens, tool).save_pretrained(folder / "model")

    class Trainer(trl.GRPOTrainer):  # type: ignore[misc]
        def _generate_and_score_completions(self, inputs: Any) -> Any:
            calculator.failing = 0.8 if self.state.global_step + 1 >= BREAKS else 0.0
            return super()._generate_and_score_completions(inputs)

    trainer = Trainer(
        model=str(folder / "model"),
        processing_class=tokens,
        reward_funcs=[score_sum],
        args=trl.GRPOConfig(
            output_dir=str(folder / "output"),
            per_device_train_batch_size=32,
            num_generations=8,
            max_completion_length=160,
            max_steps=STEPS,
            learning_rate=5e-4,
            beta=0.02,
            temperature=1.0,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            use_cpu=True,
            disable_tqdm=True,
            seed=5,
        ),
        train_dataset=sums(400),
        tools=[tool],
    )
    with rlpanel.record(trainer, folder / "run"):
        trainer.train()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
