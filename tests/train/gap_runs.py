"""Writes runs in which the logprobs of trainer and engine differ by a known cause, with a tiny real model.

python -m tests.train.gap_runs FOLDER [SEEDS] [CAUSE ...]

The policy is a Llama of three layers, or a Mixtral of two, that learnt the bytes of this project's documents.
It goes on to learn in every step, so that older weights are other weights. The engine samples every response
token by token with the weights, precision and sampling parameters of the cause, and logs the logprobs that
such an engine would return. The trainer computes the logprobs of the same tokens in float32.
The engines of all steps sample at once, see `gap_engines`.
"""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F
from transformers import LlamaConfig, LlamaForCausalLM, MixtralConfig, MixtralForCausalLM

from tests.train.gap_engines import together

ROOT = Path(__file__).parents[2]
STEPS, SAMPLES, LENGTH, PROMPT = 12, 32, 80, 24
#: Step from which a cause that begins later holds.
BEGIN = 5
Model = Any


@dataclass(frozen=True)
class Cause:
    """What differs between engine and trainer.

    Attributes
    ----------
    engine : callable
        Takes the weights by step, the step, the samples' ranks and a generator; returns for each set of
        samples their indices, the model that samples them, and the version that is logged.
    temperature, top_p : float
        Of the engine; its logprobs are those of the distribution that it samples from.
    window : int
        Number of tokens that the engine attends to; 0 for all.
    moe : bool
        Whether the policy is a mixture of experts.
    change : callable or None
        Changes a sample before it is written.
    cut : int
        Bytes of the prompt that the trainer leaves out.
    entropy, versions : bool
        Whether they are logged.
    """

    engine: Callable[..., Any]
    temperature: float = 1.0
    top_p: float = 1.0
    window: int = 0
    moe: bool = False
    change: Callable[[dict[str, Any]], None] | None = None
    cut: int = 0
    tool: bool = False
    entropy: bool = True
    versions: bool = True


def corpus(folder: str) -> torch.Tensor:
    """Return the bytes of the documents in a folder, shape (bytes,)."""
    text = b"\n".join(path.read_bytes() for path in sorted((ROOT / folder).glob("*.md")))
    return torch.tensor(list(text), dtype=torch.long)


def made(moe: bool) -> Model:
    """Return a model of bytes with random weights."""
    size = {
        "vocab_size": 256, "hidden_size": 96, "intermediate_size": 192, "num_attention_heads": 4,
        "num_key_value_heads": 4, "bos_token_id": None, "eos_token_id": None, "pad_token_id": None,
    }  # fmt: skip
    if not moe:
        return LlamaForCausalLM(LlamaConfig(**size, num_hidden_layers=3))
    return MixtralForCausalLM(
        MixtralConfig(**{**size, "num_hidden_layers": 2}, num_local_experts=8, num_experts_per_tok=2)
    )


def learn(model: Model, text: torch.Tensor, updates: int, rate: float, batch: int, seed: int) -> None:
    """Train on random pieces of a text, in place."""
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    model.train()
    for _ in range(updates):
        at = torch.randint(len(text) - 128, (batch, 1), generator=generator) + torch.arange(128)
        loss = model(input_ids=text[at], labels=text[at]).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()


def trained(folder: Path, moe: bool) -> Model:
    """Return the model that learnt the documents; it is kept in the folder."""
    torch.manual_seed(1)
    model, path = made(moe), folder / f"base-{'moe' if moe else 'dense'}.pt"
    if not path.exists():
        learn(model, corpus("docs"), 500, 2e-3, 24, 0)
        torch.save(model.state_dict(), path)
    model.load_state_dict(torch.load(path))
    return model.eval()


@torch.no_grad()
def sampled(
    model: Model, prompt: torch.Tensor, cause: Cause, generator: torch.Generator, count: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return sampled tokens and the engine's logprobs, shape (B, count) each."""
    past, given, tokens, logprobs = None, prompt, [], []
    for _ in range(count):
        seen = prompt.shape[1] + len(tokens)
        attended = torch.ones(len(prompt), seen, dtype=torch.long)
        if cause.window and past is not None:
            attended[:, : max(seen - cause.window, 0)] = 0
        places = torch.arange(seen - given.shape[1], seen).expand(len(prompt), -1)
        out = model(
            input_ids=given,
            attention_mask=attended,
            position_ids=places,
            past_key_values=past,
            use_cache=True,
        )
        past = out.past_key_values
        scores = F.log_softmax(out.logits[:, -1].float() / cause.temperature, -1)
        if cause.top_p < 1:
            order = scores.argsort(-1, descending=True)
            mass = scores.gather(-1, order).exp().cumsum(-1)
            out_of_it = torch.cat([torch.zeros_like(mass[:, :1]), mass[:, :-1]], -1) >= cause.top_p
            scores = scores.masked_fill(out_of_it.gather(-1, order.argsort(-1)), -torch.inf)
            scores = F.log_softmax(scores, -1)
        token = torch.multinomial(scores.exp(), 1, generator=generator)
        tokens.append(token)
        logprobs.append(scores.gather(-1, token))
        given = token
    return torch.cat(tokens, -1), torch.cat(logprobs, -1)


@torch.no_grad()
def scored(
    model: Model, prompt: torch.Tensor, tokens: torch.Tensor, temperature: float = 1.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return logprobs and entropies of tokens after a prompt, shape (B, T) each."""
    logits = model(input_ids=torch.cat([prompt, tokens], -1)).logits[:, prompt.shape[1] - 1 : -1].float()
    scores = F.log_softmax(logits / temperature, -1)
    return scores.gather(-1, tokens[..., None])[..., 0], -(scores.exp() * scores).sum(-1)


# --- engines


@lru_cache(64)
def half(model: Model) -> Model:
    """Return the model in bfloat16."""
    return copy.deepcopy(model).to(torch.bfloat16)


@lru_cache(64)
def quantised(model: Model, levels: int = 127) -> Model:
    """Return the model with weights rounded to integers per row."""
    changed = copy.deepcopy(model)
    with torch.no_grad():
        for name, weight in changed.named_parameters():
            if weight.dim() >= 2 and "embed" not in name:
                scale = weight.abs().amax(-1, keepdim=True) / levels
                weight.copy_((weight / scale).round() * scale)
    return changed


@lru_cache(64)
def perturbed(model: Model, seed: int) -> Model:
    """Return the model with noise in one layer, as after a broken transfer of its weights."""
    changed, generator = copy.deepcopy(model), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in changed.model.layers[1].parameters():
            weight.add_(torch.randn(weight.shape, generator=generator) * weight.std() * 0.08)
    return changed


def rounded_router(model: Model) -> Model:
    """Return the mixture whose routers read rounded states: now and then another expert is chosen."""
    changed = copy.deepcopy(model)

    def hook(module: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return (args[0].to(torch.bfloat16).to(args[0].dtype), *args[1:])

    for layer in changed.model.layers:
        block = getattr(layer, "block_sparse_moe", None) or layer.mlp
        block.gate.register_forward_pre_hook(hook)
    return changed


def _all(model: Model, version: int) -> list[tuple[np.ndarray, Model, int]]:
    return [(np.arange(SAMPLES), model, version)]


def of_step(change: Callable[[Model], Model]) -> Callable[..., Any]:
    """Return an engine with the step's weights, changed."""
    return lambda weights, step, ranks, rng: _all(change(weights[step]), step)


def stale(weights: list[Model], step: int, ranks: np.ndarray, rng: np.random.Generator) -> Any:
    """Return engines with weights of up to six steps before."""
    ages = np.minimum(rng.integers(0, 7, SAMPLES), step)
    return [
        (np.flatnonzero(ages == age), half(weights[step - age]), step - age)
        for age in np.unique(ages).tolist()
    ]


def _stuck(weights: list[Model], step: int, ranks: np.ndarray, rng: np.random.Generator) -> Any:
    return _all(half(weights[min(step, BEGIN - 1)]), step)


def _stuck_rank(weights: list[Model], step: int, ranks: np.ndarray, rng: np.random.Generator) -> Any:
    now, old = half(weights[step]), half(weights[min(step, BEGIN - 1)])
    return [(np.flatnonzero(ranks != 1), now, step), (np.flatnonzero(ranks == 1), old, step)]


def _broken_layer(weights: list[Model], step: int, ranks: np.ndarray, rng: np.random.Generator) -> Any:
    return _all(half(perturbed(weights[step], 3) if step >= BEGIN else weights[step]), step)


def _stale_and_quantised(weights: list[Model], step: int, ranks: np.ndarray, rng: np.random.Generator) -> Any:
    return [
        (at, half(quantised(model, 31)), version) for at, model, version in stale(weights, step, ranks, rng)
    ]


def _shifted(sample: dict[str, Any]) -> None:
    engine = sample["rollout_logprobs"]
    sample["rollout_logprobs"] = [*engine[1:], engine[0]]


def _all_trained(sample: dict[str, Any]) -> None:
    sample["loss_mask"] = [1] * len(sample["loss_mask"])


_NOW = of_step(lambda model: model)
CAUSES: dict[str, Cause] = {
    "precision_bf16": Cause(of_step(half)),
    "precision_int8": Cause(of_step(lambda model: quantised(model, 31))),
    "temperature": Cause(of_step(half), temperature=0.8),
    "temperature_without_entropy": Cause(of_step(half), temperature=1.2, entropy=False),
    "support": Cause(of_step(half), top_p=0.9),
    "shift": Cause(of_step(half), change=_shifted),
    "template": Cause(of_step(half), cut=12),
    "mask": Cause(of_step(half), tool=True, change=_all_trained),
    "stale": Cause(stale),
    "sync": Cause(_stuck),
    "sync_layer": Cause(_broken_layer),
    "rank": Cause(_stuck_rank),
    "position": Cause(of_step(half), window=56),
    "routing": Cause(of_step(rounded_router), moe=True),
    "precision_moe": Cause(of_step(half), moe=True),
    "mixed_stale_int8": Cause(_stale_and_quantised),
    "mixed_temperature_position": Cause(of_step(half), window=56, temperature=0.95),
    "healthy_tool": Cause(of_step(half), tool=True),
}


def _sampled_turns(
    engines: Model, prompts: torch.Tensor, cause: Cause, generator: torch.Generator, tool: Any, rng: Any
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return tokens, the engine's logprobs and the loss mask, shape (B, T) each; a tool may write between."""
    tokens, logprobs = sampled(engines, prompts, cause, generator, LENGTH // 2)
    mask = torch.ones_like(tokens)
    if cause.tool:
        places = rng.integers(0, len(tool) - 24, len(prompts)).tolist()
        result = torch.stack([tool[at : at + 24] for at in places])
        tokens = torch.cat([tokens, result], -1)
        logprobs = torch.cat([logprobs, torch.zeros(result.shape)], -1)
        mask = torch.cat([mask, torch.zeros_like(result)], -1)
    more, of_more = sampled(engines, torch.cat([prompts, tokens], -1), cause, generator, LENGTH // 2)
    both = [torch.cat(each, -1) for each in ((tokens, more), (logprobs, of_more))]
    return both[0], both[1], torch.cat([mask, torch.ones_like(more)], -1)


def write_run(folder: Path, weights: list[Model], cause: Cause, seed: int) -> None:
    """Write one run with the given weights by step."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(seed)
    rng, generator = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    text, tool = corpus("docs"), corpus("docs/changes")
    files = [(folder / f"rank_{rank}.jsonl").open("w") for rank in range(2)]
    ranks = np.arange(SAMPLES) % 2
    #: Model of an engine → the samples that it takes, as (step, sample, version).
    rows: dict[Model, list[tuple[int, int, int]]] = {}
    for step in range(len(weights)):
        for at, engine, version in cause.engine(weights, step, ranks, rng):
            rows.setdefault(engine, []).extend((step, sample, version) for sample in at.tolist())
    engines = [
        (engine, own[at : at + SAMPLES]) for engine, own in rows.items() for at in range(0, len(own), SAMPLES)
    ]
    starts = rng.integers(0, len(text) - PROMPT, (len(weights), SAMPLES // 4)).repeat(4, axis=1)
    # Each engine has as many rows; those that fill up an engine are not used.
    filled = [own[at % len(own)] for _, own in engines for at in range(SAMPLES)]
    used = [place * SAMPLES + at for place, (_, own) in enumerate(engines) for at in range(len(own))]
    prompts = torch.stack([text[(at := starts[step, sample]) : at + PROMPT] for step, sample, _ in filled])
    found = _sampled_turns(together([engine for engine, _ in engines]), prompts, cause, generator, tool, rng)
    places = sorted((filled[at], at) for at in used)
    for step in range(len(weights)):
        own = [at for (of, _, _), at in places if of == step]
        tokens, engine_logprobs, mask = (each[own] for each in found)
        prompt = prompts[own]
        trainer, entropy = scored(weights[step], prompt[:, cause.cut :], tokens)
        for i, at in enumerate(own):
            _, sample, version = filled[at]
            line = {
                "step": step,
                "group": f"{step}-{sample // 4}",
                "prompt": bytes(prompt[i].tolist()).decode(errors="replace"),
                "response": bytes(tokens[i].tolist()).decode(errors="replace"),
                "response_tokens": [bytes([token]).decode("latin-1") for token in tokens[i].tolist()],
                "logprobs": [round(x, 6) for x in trainer[i].tolist()],
                "rollout_logprobs": [round(x, 6) for x in engine_logprobs[i].tolist()],
                "loss_mask": mask[i].tolist(),
                "reward": float(rng.random() < 0.5),
            }
            if cause.entropy:
                line["entropy"] = [round(x, 5) for x in entropy[i].tolist()]
            if cause.versions:
                line |= {"policy_version": version, "trainer_version": step}
            if cause.change is not None:
                cause.change(line)
            files[ranks[sample]].write(json.dumps(line, ensure_ascii=False) + "\n")
    for file in files:
        file.close()


def weights_of(base: Model, seed: int) -> list[Model]:
    """Return the weights of each step of a policy that goes on to learn another text."""
    model, found = copy.deepcopy(base), []
    for step in range(STEPS):
        found.append(copy.deepcopy(model))
        learn(model, corpus("docs/changes"), 1, 1e-4, 4, 100 * seed + step)
    return found


def main(folder: str, seeds: str = "1", *chosen: str) -> None:
    """Write the runs of some causes, or of all, for some seeds; those that exist are kept.

    All causes of a seed come before the next seed, so that one can stop it with as many seeds of each.
    """
    torch.set_num_threads(1)
    root = Path(folder)
    root.mkdir(parents=True, exist_ok=True)
    for seed in range(int(seeds)):
        for moe in (False, True):
            names = [name for name in chosen or CAUSES if CAUSES[name].moe == moe]
            names = [name for name in names if not (root / f"{name}-{seed}").exists()]
            if not names:
                continue
            weights = weights_of(trained(root, moe), seed)
            for name in names:
                part = root / f"part.{name}.{seed}"
                write_run(part, weights, CAUSES[name], seed)
                part.rename(root / f"{name}-{seed}")
                print(name, seed, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
