"""Columns in Chinese: every label, meaning and advice is translated, and nothing that only the user knows."""

from __future__ import annotations

import re

import pytest

from rlpanel.metrics.engine.column_info import METRICS, describe
from rlpanel.metrics.engine.definition import COLUMNS
from rlpanel.panels.language.column_words import described
from rlpanel.panels.language.labels import CHINESE, using

HAN = re.compile(r"[\u4e00-\u9fff]")
SHOWN = [name for name, metric in METRICS.items() if not metric.hidden] + [*COLUMNS]


def test_in_english_a_column_is_what_the_registry_says() -> None:
    assert described("kl_k3_mean") == describe("kl_k3_mean")
    assert described("kl_k3_mean").tip == describe("kl_k3_mean").tip


@pytest.mark.parametrize("name", SHOWN)
def test_each_text_of_a_column_is_chinese(name: str) -> None:
    with using(CHINESE):
        words = described(name)
        tip = words.tip
    said = describe(name)
    assert HAN.search(words.help)
    assert not said.advice or HAN.search(words.advice)
    for english in filter(None, (said.help, said.advice, "Good:", "Compares:", "Formula:", "Logged as")):
        assert english not in tip
    assert words.unit == said.unit  # code compares units


def test_names_that_only_the_trainer_knows_stay() -> None:
    with using(CHINESE):
        assert described("time").label == "time"
        assert described("tool_calls.step").label == "工具调用, step"
        assert described("reward:std").label == "奖励标准差"
        assert described("kl_k3_mean").axis == "KL k3，每 token 平均（奈特）"
        assert HAN.search(described("token_mean.group").help)
