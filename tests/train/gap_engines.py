"""Many models of one architecture as one: a row of the batch uses the weights of its own model.

A tiny model takes its time for calls, not for numbers. The engines of all steps sample at once, by the code
of transformers in which each layer with weights is replaced by one that multiplies by those of all models.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

Model = Any


class _Linear(nn.Module):
    """Linear layers of M models, for inputs of shape (M × B, …, in)."""

    def __init__(self, layers: Sequence[Any]) -> None:
        super().__init__()
        self.weight = torch.stack([layer.weight.T for layer in layers])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        models, size, _ = self.weight.shape
        y = torch.bmm(x.reshape(models, -1, size), self.weight)
        return y.reshape(*x.shape[:-1], -1)


class _Embedding(nn.Module):
    """Embeddings of M models, for ids of shape (M × B, T)."""

    def __init__(self, layers: Sequence[Any]) -> None:
        super().__init__()
        self.models, self.words = len(layers), layers[0].weight.shape[0]
        self.weight = torch.cat([layer.weight for layer in layers])

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        first = torch.arange(self.models)[:, None] * self.words
        return F.embedding((ids.reshape(self.models, -1) + first).reshape(ids.shape), self.weight)


class _Norm(nn.Module):
    """Norms of M models: that of transformers with weights of 1, then the weights."""

    def __init__(self, layers: Sequence[Any]) -> None:
        super().__init__()
        self.norm = copy.deepcopy(layers[0])
        nn.init.ones_(self.norm.weight)
        self.weight = torch.stack([layer.weight for layer in layers])[:, None]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x).reshape(len(self.weight), -1, x.shape[-1])
        return (self.weight * y).reshape(x.shape)


class _Router(nn.Module):
    """Routers of M mixtures, with the hooks of the first one."""

    def __init__(self, layers: Sequence[Any]) -> None:
        super().__init__()
        self.linear, self.top_k = _Linear(layers), layers[0].top_k
        self._forward_pre_hooks = layers[0]._forward_pre_hooks

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        logits = self.linear(x)
        values, chosen = torch.topk(logits.float().softmax(-1), self.top_k, dim=-1)
        return logits, values / values.sum(-1, keepdim=True), chosen


class _Experts(nn.Module):
    """Experts of M mixtures: each computes all tokens, and those of other experts count 0."""

    def __init__(self, layers: Sequence[Any]) -> None:
        super().__init__()
        self.act = layers[0].act_fn
        self.into = torch.stack([layer.gate_up_proj.transpose(1, 2) for layer in layers])
        self.out = torch.stack([layer.down_proj.transpose(1, 2) for layer in layers])

    def forward(self, x: torch.Tensor, chosen: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        models, experts = self.into.shape[:2]
        own, total = x.reshape(models, -1, x.shape[-1]), torch.zeros_like(x)
        for expert in range(experts):
            gate, up = torch.bmm(own, self.into[:, expert]).chunk(2, dim=-1)
            found = torch.bmm(self.act(gate) * up, self.out[:, expert]).reshape(x.shape)
            total += (found * (weights * (chosen == expert)).sum(-1, keepdim=True)).to(x.dtype)
        return total


_KINDS = {
    "Linear": _Linear,
    "Embedding": _Embedding,
    "RMSNorm": _Norm,
    "Router": _Router,
    "Experts": _Experts,
}


@torch.no_grad()
def together(models: Sequence[Model]) -> Model:
    """Return one model for M models: of a batch of M × B rows, the first B are the first model's.

    Parameters
    ----------
    models : sequence of model
        Of one architecture and one precision.
    """
    whole = copy.deepcopy(models[0])
    for name, module in models[0].named_modules():
        kind = next((made for end, made in _KINDS.items() if type(module).__name__.endswith(end)), None)
        if kind is not None and list(module.parameters(recurse=False)):
            parent, _, own = name.rpartition(".")
            layers = [each.get_submodule(name) for each in models]
            setattr(whole.get_submodule(parent), own, kind(layers))
    return whole
