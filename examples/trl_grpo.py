"""Records TRL's GRPO or RLOO trainer; only the two lines with rlpanel are needed."""

from datasets import load_dataset
from trl import GRPOConfig, GRPOTrainer

import rlpanel


def short(completions: list[str], **_: object) -> list[float]:
    """Reward short answers."""
    return [-len(text) / 100 for text in completions]


trainer = GRPOTrainer(
    model="Qwen/Qwen3-0.6B",
    reward_funcs=short,
    args=GRPOConfig(output_dir="out", beta=0.04),  # with beta=0, the default, there are no reference logprobs
    train_dataset=load_dataset("trl-lib/tldr", split="train"),
)
with rlpanel.record(trainer, "runs/exp1"):
    trainer.train()
