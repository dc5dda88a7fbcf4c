"""Long lines of a terminal break between words, also where a character takes two cells."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from rlpanel.cli.terminal_text import next_commands, plain_text, wrapped
from rlpanel.queries.drift import drift
from rlpanel.queries.explain import bisect
from rlpanel.queries.findings import findings


@pytest.mark.parametrize("width", [20, 37, 80])
def test_a_long_line_breaks_between_words_and_keeps_its_indent(width: int) -> None:
    text = "From step 21 on, 75% of the rollouts that call add have an error, while the reward fell."
    parts = wrapped(f"    {text}", width)
    assert all(part.startswith("    ") and cell_len(part) <= width for part in parts)
    assert " ".join(part.strip() for part in parts) == text


def test_characters_of_two_cells_are_counted() -> None:
    line = "  " + "响应里有乱码" * 9
    parts = wrapped(line, 30)
    assert max(map(cell_len, parts)) <= 30
    assert "".join(part.strip() for part in parts) == line.strip()


def test_a_pipe_has_any_width() -> None:
    line = "  " + "word " * 100
    assert wrapped(line, 0) == [line]


@pytest.mark.parametrize(
    ("worst", "onset", "last", "steps"),
    [
        (7, 3, 9, " --step 7"),
        (None, 3, 9, " --step 3..9"),
        (None, 0, 9, " --step 0..9"),
        (None, None, None, ""),
    ],
)
def test_the_next_command_of_a_finding_names_its_steps(
    worst: int | None, onset: int | None, last: int | None, steps: str
) -> None:
    table = findings.table([], total=0, about={"run": "exp", "split": "train", "path": "exp"})
    finding = {
        "worst": worst, "onset": onset, "last": last, "filter": "reward < 0", "sort": "", "uid": None,
    }  # fmt: skip
    assert next_commands(table, finding) == [
        f"rlpanel samples exp{steps} --filter 'reward < 0' --text --limit 5"
    ]


def test_an_answer_in_words_has_a_line_of_its_own() -> None:
    about = {
        "run": "exp",
        "state": "chain",
        "sentence": "21: errors 0 → 1 → 21: reward 1 → 0",
        "removal": "Without two samples nothing is left.",
        "unknown": ["The cause lies outside."],
    }
    assert plain_text(bisect.table([], total=0, about=about)).splitlines()[:4] == [
        "bisect · run exp · state chain · no rows",
        "21: errors 0 → 1 → 21: reward 1 → 0",
        "Without two samples nothing is left.",
        "The cause lies outside.",
    ]


def test_advice_that_ends_a_sentence_is_not_repeated() -> None:
    about = {"sentence": "Not checkable: log both logprobs.", "advice": "Log both logprobs."}
    assert plain_text(drift.table([], total=0, about=about)).count("both logprobs") == 1
