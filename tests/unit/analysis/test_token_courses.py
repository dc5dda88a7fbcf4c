"""Courses of tokens, and changed ones, against counts that are made line by line."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlpanel
from rlpanel.analysis.followed_tokens import token_courses
from rlpanel.api.run import Run
from rlpanel.errors import FilterError, SettingError
from rlpanel.queries.learning.token_courses import changed_tokens, token_trend

WORDS = ("ĠWait", "Wait", "Ġthe", "Ġ7", "Ġ12", "Ġso", "<|im_end|>", ",", 'Ġa"b', "[", "],")
STEPS, SAMPLES = 9, 6


def lines(*, mask: bool = True) -> list[dict[str, Any]]:
    """Samples whose share of "Wait" rises with the step."""
    made = []
    for step in range(1, STEPS + 1):
        for at in range(SAMPLES):
            chance = random.Random(f"{step}-{at}")
            weights = [step, 1, 3, 2, 2, 2, 1, 1, 1, 1, 1]
            tokens = chance.choices(WORDS, weights, k=chance.randint(40, 60))
            row: dict[str, Any] = {
                "step": step,
                "rank": at % 2,
                "prompt": f"question {step} {at}",
                "response": "text",
                "reward": 1.0,
                "advantage": chance.gauss(0, 1),
                "response_tokens": tokens,
                "logprobs": [-chance.expovariate(1) for _ in tokens],
                "ref_logprobs": [-chance.expovariate(1) for _ in tokens],
                "entropy": [chance.random() for _ in tokens],
            }
            if mask:
                row["loss_mask"] = [int(chance.random() < 0.8) for _ in tokens]
            made.append(row)
    return made


def run_of(folder: Path, rows: list[dict[str, Any]]) -> Run:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rollout_data_rank_0.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return rlpanel.open_run(folder, follow=False)


def counted(rows: list[dict[str, Any]], step: int, names: tuple[str, ...]) -> dict[str, float]:
    """Count and average, token by token."""
    values: dict[str, list[float]] = {name: [] for name in ("p", "ref", "entropy", "kl", "advantage")}
    total = holders = samples = 0
    for row in (row for row in rows if row["step"] == step):
        trained = [at for at in range(len(row["response_tokens"])) if row.get("loss_mask", [1] * 99)[at]]
        total, samples = total + len(trained), samples + 1
        here = [at for at in trained if row["response_tokens"][at] in names]
        holders += bool(here)
        for at in here:
            gap = row["ref_logprobs"][at] - row["logprobs"][at]
            values["p"].append(np.exp(row["logprobs"][at]))
            values["ref"].append(np.exp(row["ref_logprobs"][at]))
            values["entropy"].append(row["entropy"][at])
            values["kl"].append(np.exp(gap) - gap - 1)
            values["advantage"].append(row["advantage"])
    means = {name: float(np.mean(each)) for name, each in values.items()}
    count = len(values["p"])
    return means | {"count": count, "frequency": count / total, "samples": holders / samples, "tokens": total}


@pytest.mark.parametrize("mask", [True, False])
def test_courses_equal_counts_by_hand(tmp_path: Path, mask: bool) -> None:
    rows = lines(mask=mask)
    with run_of(tmp_path / "run", rows) as run:
        table = token_trend(run.data, ["Wait", r"/\d/"])
        fast = token_trend(run.data, ["Wait", r"/\d/"], counts=True)
    assert len(table.rows) == 2 * STEPS
    for row, quick in zip(table.rows, fast.rows, strict=True):
        names = ("Wait", "ĠWait") if row["token"] == "Wait" else ("Ġ7", "Ġ12")
        expected = counted(rows, row["step"], names)
        for ours, name in (("probability", "p"), ("ref_probability", "ref")):
            assert row[ours] == pytest.approx(expected[name])
        for name in ("entropy", "kl", "advantage", "count", "frequency", "samples", "tokens"):
            assert row[name] == pytest.approx(expected[name]), name
        for name in ("count", "frequency", "samples", "tokens"):
            assert quick[name] == row[name]
        assert quick["probability"] is None
    spelled = {each["token"]: set(each["counted"]) for each in table.about["spellings"]}
    assert spelled == {"Wait": {"Wait", "ĠWait"}, r"/\d/": {"Ġ7", "Ġ12"}}


@pytest.mark.parametrize("token", ["],", "[", 'a"b', ",", "<|im_end|>"])
def test_tokens_that_look_like_the_format_are_counted_exactly(tmp_path: Path, token: str) -> None:
    rows = lines(mask=False)
    with run_of(tmp_path / "run", rows) as run:
        found = token_trend(run.data, [token], counts=True).rows
    names = {token, f"Ġ{token}"}
    expected = [
        sum(sum(each in names for each in row["response_tokens"]) for row in rows if row["step"] == step)
        for step in range(1, STEPS + 1)
    ]
    assert [row["count"] for row in found] == expected


def test_rows_can_be_by_rank(tmp_path: Path) -> None:
    rows = lines(mask=False)
    with run_of(tmp_path / "run", rows) as run:
        table = token_trend(run.data, ["Wait"], by="rank")
        assert [row["value"] for row in table.rows] == ["0", "1"]
        assert sum(row["count"] for row in table.rows) == sum(
            sum(token in ("Wait", "ĠWait") for token in row["response_tokens"]) for row in rows
        )
        with pytest.raises(SettingError, match="no label"):
            token_trend(run.data, ["Wait"], by="nosuch")


def test_what_is_not_logged_is_null_and_said(tmp_path: Path) -> None:
    rows = lines(mask=False)
    for row in rows:
        for name in ("logprobs", "ref_logprobs", "entropy", "advantage"):
            del row[name]
    rows[0]["response_tokens"] = None
    with run_of(tmp_path / "run", rows) as run:
        table = token_trend(run.data, ["Wait"])
    assert {row["probability"] for row in table.rows} == {None}
    assert set(table.about["missing"]) == {"probability", "ref_probability", "entropy", "kl", "advantage"}
    assert table.about["without"] == 1


def test_a_token_that_occurs_nowhere_is_said(tmp_path: Path) -> None:
    rows = lines(mask=False)
    with run_of(tmp_path / "run", rows) as run:
        [remark] = token_trend(run.data, ["nosuch", "Wait"]).about["remarks"]
        assert remark.startswith(f"nosuch occurs in none of {len(rows)} responses")
    for row in rows:
        row["response_tokens"] = None
    with run_of(tmp_path / "without", rows) as run:
        table = token_trend(run.data, ["nosuch"])
    assert not table.rows
    assert table.about["remarks"] == [f"none of {len(rows)} samples has tokens: log response_tokens"]


@pytest.mark.parametrize(
    "more",
    [
        {"meta": {"response_tokens": ["x"], "loss_mask": [0]}},
        {"messages": [{"role": "user", "content": '"],"response_tokens": ["x"'}, {"a": [1, ["]"]]}]},
        {
            "note": "ends with a backslash \\",
            "stops": ["]", '"],"'],
            "none": None,
            "empty": [],
            "odd": [1, "a"],
        },
        {"loss_mask": [0, 1, 1]},
    ],
)
def test_other_values_of_a_line_do_not_hide_its_tokens(tmp_path: Path, more: dict[str, Any]) -> None:
    tokens, row = ["a", "]", "b"], {"step": 1, "prompt": "p", "response": 'r \\"', "reward": 1.0}
    trained = [token for token, kept in zip(tokens, more.get("loss_mask", [1] * 3), strict=True) if kept]
    folder = tmp_path / "run"
    folder.mkdir()
    ordered = ({**more, **row, "response_tokens": tokens}, {**row, "response_tokens": tokens, **more})
    text = "".join(json.dumps(each) + "\n" for each in ordered)
    (folder / "rollout_data_rank_0.jsonl").write_text(text)
    with rlpanel.open_run(folder, follow=False) as run:
        found = token_trend(run.data, ["a", "x", "]"], counts=True)
    assert {row["token"]: row["count"] for row in found.rows} == {
        name: 2 * trained.count(name) for name in ("a", "x", "]")
    }
    assert found.rows[0]["tokens"] == 2 * len(trained)


def test_a_wrong_or_slow_expression_is_an_error(tmp_path: Path) -> None:
    rows = lines(mask=False)[:2]
    rows[0]["response_tokens"] = ["a" * 40_000]
    with run_of(tmp_path / "run", rows) as run:
        with pytest.raises(FilterError, match="valid"):
            token_trend(run.data, ["/(/"])
        with pytest.raises(FilterError, match="too long"):
            token_trend(run.data, [r"/(a+)+[^a]$/"])


def test_the_token_that_grows_changed_most(tmp_path: Path) -> None:
    rows = lines(mask=False)
    with run_of(tmp_path / "run", rows) as run:
        table = changed_tokens(run.data, limit=None)
        assert (table.about["steps"], table.about["since"]) == ("7..9", "1..3")
        by_name = {row["logged"]: row for row in table.rows}

        def shares(steps: range) -> np.ndarray:
            return np.array([counted(rows, step, ("ĠWait",))["frequency"] for step in steps])

        now, before = shares(range(7, 10)), shares(range(1, 4))
        first = by_name["ĠWait"]
        assert table.rows[0] is not None
        assert first["change"] == pytest.approx(now.mean() - before.mean())
        welch = np.sqrt(now.var(ddof=1) / 3 + before.var(ddof=1) / 3)
        assert first["error"] >= welch - 1e-12
        assert first["z"] == max(row["z"] for row in table.rows)
        assert first["count"] == sum(
            row["response_tokens"].count("ĠWait") for row in rows if row["step"] >= 7
        )
        with pytest.raises(SettingError, match="overlap"):
            changed_tokens(run.data, steps=(2, 5), since=(5, 6))
        few = changed_tokens(run.data, steps=9, since=1)
        assert few.rows[0]["error"] is None
        assert few.rows[0]["z"] is None
        assert {row["token"] for row in token_trend(run.data, counts=True).rows} >= {"ĠWait"}


@pytest.mark.parametrize("arrays", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_processes_count_what_one_process_counts(tmp_path: Path, arrays: bool) -> None:
    rows = lines()
    rows[3]["response_tokens"] = None
    names = ["Wait", r"/\d/"]
    with run_of(tmp_path / "run", rows) as run:
        snapshot = run.data.snapshot
        places = snapshot.metadata("step")[snapshot.alive_rows].tolist()
        arguments = (run.data.index, snapshot, snapshot.alive_rows, places, names)
        *_, alone = token_courses(*arguments, arrays=arrays)
        *pulses, found = token_courses(*arguments, arrays=arrays, least=0)
    assert [each.read for each in pulses][-1] == len(rows)
    assert len(pulses) > 2
    assert found.places == alone.places == tuple(range(1, STEPS + 1))
    for name in ("count", "samples", "tokens", "of_samples"):
        assert (getattr(found, name) == getattr(alone, name)).all()
    assert found.spellings == alone.spellings
    assert (found.without, found.bytes_read) == (1, alone.bytes_read)
    assert found.measures.keys() == alone.measures.keys()
    for name, values in alone.measures.items():
        assert found.measures[name] == pytest.approx(values)


@pytest.mark.parametrize(
    "tokens",
    [
        ["", "a", ""],
        ["]", '"]', "a]"],
        ["\\", "\\\\", "a"],
        ["Ġé", "国", "\t", "\n"],
        [", ", '", "', ","],
        ["\ud83d", "a"],
        ["one"],
    ],
)
@pytest.mark.parametrize("style", [{}, {"separators": (",", ":")}, {"ensure_ascii": False}])
def test_all_spellings_of_an_array_of_texts_are_read(
    tmp_path: Path, tokens: list[str], style: dict[str, Any]
) -> None:
    row = {"step": 1, "prompt": "p", "response": "r", "reward": 1.0, "response_tokens": tokens}
    folder = tmp_path / "run"
    folder.mkdir()
    text = json.dumps(row, **style).encode("utf-8", "replace")
    (folder / "rollout_data_rank_0.jsonl").write_bytes(text + b"\n")
    with rlpanel.open_run(folder, follow=False) as run:
        found = token_trend(run.data, ["/^$|./"], counts=True)
    assert found.rows[0]["count"] == found.rows[0]["tokens"] == len(tokens)
