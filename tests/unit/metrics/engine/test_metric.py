"""Metrics document their parameters and results by the declaration."""

from __future__ import annotations

import inspect

from rlpanel.metrics.engine.metric import METRICS
from rlpanel.metrics.group import group_std
from rlpanel.metrics.kl_divergence import kl_k3


def test_help_shows_shapes_and_units() -> None:
    assert "logprobs : ndarray, shape (T,)\n    Unit: nats." in str(inspect.getdoc(kl_k3))
    assert str(inspect.getdoc(group_std)).endswith("ndarray, shape (G,)\n    Unit: reward.")


def test_every_shown_metric_documents_its_result() -> None:
    shown = [each for each in METRICS.values() if not each.hidden]
    assert len(shown) > 20
    assert [each.name for each in shown if "Returns\n----" not in (inspect.getdoc(each.function) or "")] == []
