"""The beginnings that a run's prompts share are found once, and again when the run has grown."""

from __future__ import annotations

from pathlib import Path

import pytest

import rlpanel
from rlpanel.display_settings import Display
from rlpanel.panels.session.context import Context
from rlpanel.panels.texts.sample_texts import text_style
from rlpanel.texts.prompt_parts import TextStyle
from tests.factories import append, line

TASK = "Solve the problem step by step, and write the final answer between the tags <answer> and </answer>.\n"
OTHER = "Write a function in Python that passes all of the tests below, and nothing else but the function.\n"
QWEN = "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = tmp_path / "run"
    made.mkdir()
    return made


def write(folder: Path, prompts: list[str], step: int = 1) -> None:
    lines = [line(step, index=at, prompt=text, tokens=False) for at, text in enumerate(prompts)]
    append(folder / "rollout_data_rank_0.jsonl", *lines)


def beginnings(folder: Path, **settings: object) -> tuple[str, ...]:
    with rlpanel.open_run(folder, follow=False) as run:
        context = Context(index=run.index, view=run.view, display=Display(**settings))
        return text_style(context).beginnings


def test_plain_prompts_share_a_beginning(folder: Path) -> None:
    write(folder, [f"{TASK}{at}" for at in range(4)])
    assert beginnings(folder) == (TASK,)


def test_so_do_the_last_turns_of_conversations(folder: Path) -> None:
    write(folder, [QWEN.format(f"{TASK}{at}") for at in range(4)])
    assert beginnings(folder) == (TASK,)


def test_the_samples_of_a_group_are_one_prompt(folder: Path) -> None:
    write(folder, [f"{TASK}the same"] * 8)
    assert beginnings(folder) == ()


def test_nothing_is_read_if_the_settings_say_so(folder: Path) -> None:
    write(folder, [f"{TASK}{at}" for at in range(4)])
    assert beginnings(folder, fold_templates=False) == ()
    assert beginnings(folder, system_end="<|im_end|>") == ()


def test_without_a_run_the_settings_remain() -> None:
    display = Display(pad_token="!", system_end="?", fold_templates=False)
    assert text_style(Context(display=display)) == TextStyle("!", "?", fold=False)


def test_further_beginnings_are_looked_for_when_the_run_has_twice_as_many_samples(folder: Path) -> None:
    write(folder, [f"{TASK}{at}" for at in range(4)])
    with rlpanel.open_run(folder, follow=False) as run:
        context = Context(index=run.index, view=run.view)
        assert text_style(context).beginnings == (TASK,)
        for step, count, expected in ((2, 3, (TASK,)), (3, 1, (TASK, OTHER))):
            write(folder, [f"{OTHER}{step}-{at}" for at in range(count)], step)
            run.index.read()
            context.view = run.view
            assert text_style(context).beginnings == expected
