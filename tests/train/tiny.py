"""A model, a tokenizer and a task small enough to train in seconds, all created here without downloads."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import torch
from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    LlamaForSequenceClassification,
    PreTrainedTokenizerFast,
    set_seed,
)

WORDS = ("sun", "moon", "river", "stone", "月光", "山", "🙂", "bright", "wind")
PROMPTS = tuple(f"a line of {first} and {second}:" for first in WORDS for second in WORDS)


def tokenizer() -> PreTrainedTokenizerFast:
    """Return a byte-level BPE of a few hundred tokens: a Chinese character takes several."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<|pad|>", "<|eos|>"]
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=special, initial_alphabet=alphabet)
    made.train_from_iterator(PROMPTS, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<|pad|>", eos_token="<|eos|>", padding_side="left"
    )


def _config(tokens: PreTrainedTokenizerFast, **more: Any) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=len(tokens),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        pad_token_id=tokens.pad_token_id,
        eos_token_id=tokens.eos_token_id,
        bos_token_id=None,
        **more,
    )


def policy(tokens: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """Return a language model with random weights, the same each time."""
    set_seed(7)
    return LlamaForCausalLM(_config(tokens))


def policy_that_ends(tokens: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """Return the same model with a more probable end token, so that responses differ in length."""
    made = policy(tokens)
    head = torch.nn.Linear(made.lm_head.in_features, made.lm_head.out_features)
    with torch.no_grad():
        head.weight.copy_(made.lm_head.weight)
        head.bias.zero_()
        head.bias[tokens.eos_token_id] = 3.0
    made.lm_head = head
    return made


def few(tokens: PreTrainedTokenizerFast) -> list[int]:
    """Return the tokens that generation may not use: with few left, the end token comes soon enough."""
    return [token for token in range(len(tokens)) if token % 16 and token != tokens.eos_token_id] + [
        tokens.pad_token_id
    ]


def scorer(tokens: PreTrainedTokenizerFast, seed: int) -> LlamaForSequenceClassification:
    """Return a model with a single output: a reward model or a critic."""
    set_seed(seed)
    return LlamaForSequenceClassification(_config(tokens, num_labels=1))


def task(size: int = 64) -> Dataset:
    """Return prompts with an answer and a custom column."""
    return Dataset.from_list(
        [
            {"prompt": PROMPTS[at % len(PROMPTS)], "answer": f"truth {at}", "level": at % 3}
            for at in range(size)
        ]
    )


def score_length(completions: list[str], **_: Any) -> list[float]:
    """Reward short answers."""
    return [-len(text) / 50 for text in completions]


def score_letters(completions: list[str], **_: Any) -> list[float | None]:
    """Reward letters; an answer without text has no score."""
    return [sum(map(str.isalpha, text)) / len(text) if text else None for text in completions]


def as_chat(tokens: PreTrainedTokenizerFast) -> PreTrainedTokenizerFast:
    """Give a tokenizer the chat template of Qwen3 that TRL brings, which can call tools, and return it."""
    marks = ["<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>"]
    tokens.add_special_tokens({"additional_special_tokens": marks})
    tokens.eos_token = "<|im_end|>"
    tokens.chat_template = (files("trl") / "chat_templates" / "qwen3.jinja").read_text("utf-8")
    return tokens


def chat_tokenizer() -> PreTrainedTokenizerFast:
    """Return the tokenizer for chats that can call tools."""
    return as_chat(tokenizer())


def add(a: int, b: int) -> int:
    """Adds two numbers.

    Args:
        a: first
        b: second
    """
    return a + b


def sums(count: int = 16) -> Dataset:
    """Return a data set of chats that ask for sums."""
    return Dataset.from_list(
        [
            {"prompt": [{"role": "system", "content": "Use tools."}, {"role": "user", "content": f"{n}+2?"}]}
            for n in range(count)
        ]
    )


def score_calls(completions: list[list[dict[str, Any]]], **_: Any) -> list[float]:
    """Score 1 for a completion that called the tool."""
    return [float(any(message.get("tool_calls") for message in each)) for each in completions]


CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 2, "b": 2}}\n</tool_call><|im_end|>'


def scripted(trainer: type) -> type:
    """Return a trainer whose generation is scripted, as a random model calls no tool.

    Every other sample calls the tool and, after its result, says the sum; the others answer at once.
    """

    class Scripted(trainer):
        def _generate_single_turn(self, prompt_ids: list[list[int]], *_: Any, **__: Any) -> Any:
            tokens = self.processing_class
            texts = [tokens.decode(ids) for ids in prompt_ids]
            turns = [
                "The sum is 4.<|im_end|>"
                if "<tool_response>" in text
                else CALL
                if index % 2
                else "4<|im_end|>"
                for index, text in enumerate(texts)
            ]
            return [tokens(text, add_special_tokens=False)["input_ids"] for text in turns], None

    Scripted.__name__ = trainer.__name__
    return Scripted
