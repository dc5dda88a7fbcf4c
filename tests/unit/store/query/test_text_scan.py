"""Text filters over a run: the bytes are searched, and undecided lines are read."""

from __future__ import annotations

import json
from pathlib import Path
from unicodedata import normalize

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tokenizers
from tokenizers.models import WordLevel

from rlpanel.settings import Reading
from rlpanel.store.index.run_index import RunIndex
from rlpanel.store.query.fetch_sample import fetch_record
from rlpanel.store.query.text_predicate import TextPredicate
from rlpanel.store.query.text_scan import ScannedRows, encodings, longest_literal, scan, scan_newest_first
from tests.limits import store_limits

TEXTS = [
    "The quick brown fox",
    "THE QUICK BROWN DOG",
    "窗外下着小雨",
    'he said "no" \\ yes/no <b>',
    "naïve Café, ÉCOLE",
    "🙂 smile\nsecond line\ttab",
    "273 \u212a and \u0130stanbul",
    "",
    "quick",
]
SOUGHT = [
    "quick", "the quick", "下着", "雨", '"no"', "\\", "s/n", "<b>", "café", "école", "🙂 s", "smile\nsecond",
    "e\tt", "k and", "İstanbul", "istanbul", "zebra", "e", "q" * 2000, "é", "",
]  # fmt: skip


def opened(folder: Path, **limits: float) -> RunIndex:
    index = RunIndex(folder, folder.name, Reading(), limits=store_limits(**limits))
    index.rescan()
    while index.read():
        pass
    return index


def write(folder: Path, *, ascii_only: bool = False, **limits: float) -> RunIndex:
    folder.mkdir()
    for rank in (0, 1):
        lines = [
            json.dumps({"step": 1, "prompt": text, "response": f"answer {at}"}, ensure_ascii=ascii_only)
            for at, text in enumerate(TEXTS)
        ]
        (folder / f"rollout_data_rank_{rank}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return opened(folder, **limits)


def passing(index: RunIndex, test: TextPredicate, rows: np.ndarray | None = None) -> list[int]:
    batches = list(scan(index, index.snapshot, index.snapshot.alive_rows if rows is None else rows, [test]))
    return sorted(row for batch in batches for row in batch.rows[batch.texts[test]].tolist())


def read_all(index: RunIndex, test: TextPredicate) -> list[int]:
    """The same, by reading every sample."""
    rows = index.snapshot.alive_rows.tolist()
    return [row for row in rows if test.passes_sample(fetch_record(index, index.snapshot, row).texts)]


@pytest.mark.parametrize("ascii_only", [False, True], ids=["UTF-8", "escapes"])
@pytest.mark.parametrize("word", ["contains", "startswith", "endswith", "=="])
def test_a_scan_finds_what_reading_everything_finds(tmp_path: Path, ascii_only: bool, word: str) -> None:
    index = write(tmp_path / "run", ascii_only=ascii_only)
    for sought in [*SOUGHT, *TEXTS]:
        test = TextPredicate("prompt", word, sought)
        assert passing(index, test) == read_all(index, test), sought


@pytest.mark.parametrize("ascii_only", [False, True], ids=["UTF-8", "escapes"])
def test_accents_are_found_as_part_of_a_letter_and_beside_it(tmp_path: Path, ascii_only: bool) -> None:
    texts = [normalize(form, "École à Séoul 서울") for form in ("NFC", "NFD")]
    lines = [json.dumps({"step": 1, "prompt": text}, ensure_ascii=ascii_only) for text in texts]
    (tmp_path / "rollout_data_rank_0.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    index = opened(tmp_path)
    for sought in ("école", "séoul 서울", "서울", "à s", "É"):
        for form in ("NFC", "NFD"):
            test = TextPredicate("prompt", "contains", normalize(form, sought))
            assert passing(index, test) == read_all(index, test) == [0, 1], sought


def test_a_role_that_the_line_names_otherwise_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    said = [{"from": "human", "value": "q"}, {"from": "gpt", "value": "no"}]
    line = json.dumps({"step": 1, "messages": [*said, *said], "reward": 1.0})
    (folder / "rollout_data_rank_0.jsonl").write_text(line + "\n", encoding="utf-8")
    index = opened(folder)
    for sought in ("[assistant]", "[Assistant] no", "[user] q"):
        assert passing(index, TextPredicate("response", "contains", sought)) == [0], sought


@pytest.mark.parametrize("block", [64, 200, 1 << 20])
def test_blocks_of_any_size_find_the_same(tmp_path: Path, block: int) -> None:
    index = write(tmp_path / "run", block_bytes=block, gap_bytes=1)
    some = index.snapshot.alive_rows[[0, 1, 5, 8, 9, 17]]
    assert passing(index, TextPredicate("", "contains", "quick"), some) == [0, 1, 8, 9, 17]


def test_a_letter_written_as_an_escape_is_found(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "rollout_data_rank_0.jsonl").write_bytes(
        b'{"step": 1, "prompt": "\\u0071uick", "response": "a"}\n{"step": 1, "prompt": "x"}\n'
    )
    assert passing(opened(run), TextPredicate("prompt", "contains", "quick")) == [0]


def test_a_chat_is_found_across_what_joins_its_messages(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    chat = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"}]
    (run / "rollout_data_rank_0.jsonl").write_text(
        json.dumps({"step": 1, "prompt": chat, "response": "a"}) + "\n"
    )
    index = opened(run)
    for sought in ("[user] hello", "brief\n[user", "] h"):
        assert passing(index, TextPredicate("prompt", "contains", sought)) == [0], sought


DIALECTS = {
    "verl": (
        "3.jsonl",
        {"input": "user: 2?", "output": "the answer", "gts": {"truth": [7, "x"]}, "score": 1},
    ),
    "NeMo-RL": (
        "train_data_step3.jsonl",
        {"content": [["first", "2 + 2?", "the answer"]], "rewards": [1.0], "idx": 0},
    ),
    "columnar": (
        "completions.jsonl",
        {"step": [3, 3], "prompt": ["p", "2 + 2?"], "completion": ["other", "the answer"], "reward": [1, 2]},
    ),
    "parts of a message": (
        "rollout_data_rank_0.jsonl",
        {
            "step": 1,
            "prompt": [{"role": "user", "content": [{"type": "text", "text": "2?"}]}],
            "response": "a",
        },
    ),
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_any_part_of_a_text_is_found_in_any_dialect(tmp_path: Path, dialect: str) -> None:
    name, document = DIALECTS[dialect]
    (tmp_path / name).write_text(json.dumps(document, separators=(",", ":")) + "\n")
    index = opened(tmp_path)
    texts = fetch_record(index, index.snapshot, index.snapshot.rows - 1).texts.values()
    for text in texts:
        for start in range(len(text)):
            test = TextPredicate("", "contains", text[start : start + 9])
            assert passing(index, test) == read_all(index, test), test.value


def test_rows_of_a_packed_file_are_found(tmp_path: Path) -> None:
    columns = {"prompt": ["p"] * 3, "completion": ["a zebra", "a horse", "zebras"], "format": [1.0] * 3}
    table = pa.table({"step": [1] * 3, **columns, "advantage": [0.5] * 3})
    pq.write_table(table, tmp_path / "completions_00001.parquet")
    assert passing(opened(tmp_path), TextPredicate("", "contains", "zebra")) == [0, 2]


def test_texts_that_a_tokenizer_makes_are_found(tmp_path: Path) -> None:
    made = tokenizers.Tokenizer(WordLevel({"<unk>": 0, "zebra": 1, "horse": 2}, unk_token="<unk>"))
    made.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "rlpanel.toml").write_text('tokenizer = "tokenizer.json"\n')
    lines = [{"step": 1, "prompt": "p", "response_token_ids": [2, at]} for at in (1, 2, 1)]
    (tmp_path / "rollout_data_rank_0.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert passing(opened(tmp_path), TextPredicate("response", "contains", "zebra")) == [0, 2]


def test_a_field_is_sought_alone(tmp_path: Path) -> None:
    index = write(tmp_path / "run")
    assert passing(index, TextPredicate("response", "contains", "quick")) == []
    assert passing(index, TextPredicate("response", "contains", "swer 3")) == [3, 12]


def test_an_expression_is_sought_in_every_line(tmp_path: Path) -> None:
    index = write(tmp_path / "run")
    assert passing(index, TextPredicate("", "matches", r"(?i)qu\w+k\b.*d.g")) == [1, 10]


def test_a_line_that_does_not_hold_the_bytes_is_not_parsed(tmp_path: Path) -> None:
    index = write(tmp_path / "run")
    (tmp_path / "run" / "rollout_data_rank_1.jsonl").write_text("{}\n" * 400)
    batch = list(
        scan(index, index.snapshot, index.snapshot.alive_rows, [TextPredicate("", "contains", "quick")])
    )[-1]
    assert batch.unread == 0


def test_escapes_of_what_is_not_sought_are_not_parsed(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    log = run / "rollout_data_rank_0.jsonl"
    lines = '{"step": 1, "prompt": "\\u003cb\\u003e \\u0041 %s", "response": "zebr"}\n'
    log.write_text("".join(lines % at for at in "123"))
    index = opened(run)
    log.write_bytes(log.read_bytes().replace(b'"step": 1', b'"step": -'))
    for sought, unread in (("quick", 0), ("zebra", 3)):
        test = TextPredicate("", "contains", sought)
        assert list(scan(index, index.snapshot, index.snapshot.alive_rows, [test]))[-1].unread == unread


def test_lines_that_are_gone_are_counted_and_pass_nothing(tmp_path: Path) -> None:
    index = write(tmp_path / "run")
    (tmp_path / "run" / "rollout_data_rank_1.jsonl").unlink()
    test = TextPredicate("", "contains", "quick")
    batches: list[ScannedRows] = list(scan(index, index.snapshot, index.snapshot.alive_rows, [test]))
    assert batches[-1].unread == 9
    assert passing(index, test) == [0, 1, 8]


def test_slow_texts_are_told_one_by_one(tmp_path: Path) -> None:
    index = write(tmp_path / "run", pause_seconds=-1.0)
    tests = [TextPredicate("", "matches", "x")]
    batches = scan(index, index.snapshot, index.snapshot.alive_rows, tests)
    assert [len(batch.rows) for batch in batches] == [1] * 18


def test_the_newest_steps_are_searched_first(tmp_path: Path) -> None:
    for rank in (0, 1):
        rows = [{"step": step, "response": f"answer {step % 5}"} for step in range(30) for _ in range(2)]
        (tmp_path / f"rollout_data_rank_{rank}.jsonl").write_text("".join(f"{json.dumps(r)}\n" for r in rows))
    index = opened(tmp_path, first_samples=6)
    snapshot, test = index.snapshot, TextPredicate("response", "contains", "answer 3")
    batches = list(scan_newest_first(index, snapshot, snapshot.alive_rows, [test]))
    steps = [snapshot.metadata("step")[batch.rows] for batch in batches]
    # Four samples a step: the first portion has room for one step, and each later one for four times as much.
    assert [sorted(set(part.tolist())) for part in steps] == [[29], [*range(23, 29)], [*range(23)]]
    found = sorted(row for batch in batches for row in batch.rows[batch.texts[test]].tolist())
    assert found == passing(index, test)
    assert [batch.bytes_done for batch in batches] == sorted(batch.bytes_done for batch in batches)
    assert batches[-1].bytes_done == batches[0].bytes_total


def test_progress_ends_at_all_bytes(tmp_path: Path) -> None:
    index = write(tmp_path / "run")
    tests = [TextPredicate("", "contains", "quick")]
    *_, last = scan(index, index.snapshot, index.snapshot.alive_rows, tests)
    assert last.bytes_done == last.bytes_total == int(index.snapshot.metadata("length").sum())


@pytest.mark.parametrize(
    ("value", "needles"),
    [
        ("Fox", (b"fox",)),
        ("a/long", (b"long",)),
        ("雨", ("雨".encode(), b"\\u96e8", b"\\\\u96e8")),
        ("é", ()),
        ('"', ()),
    ],
)
def test_what_is_looked_for_is_what_a_log_would_hold(value: str, needles: tuple[bytes, ...]) -> None:
    folded = tuple(bytes(byte | 0x20 for byte in needle) for needle in needles)
    stretch = longest_literal(TextPredicate("", "contains", value))
    assert (encodings(stretch) if stretch else ()) == folded
