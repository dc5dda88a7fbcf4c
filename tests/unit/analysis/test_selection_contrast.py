"""The contrast of two sets names planted differences, and none where there are none."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlpanel
from rlpanel.analysis import selection_contrast
from rlpanel.analysis.difference import MAX_UIDS, ContrastSide, Difference, label_of
from rlpanel.analysis.selection_contrast import Contrast, contrast
from rlpanel.errors import SettingError

Change = Callable[[int, int, dict[str, Any]], None]

#: Random splits of a healthy run, of which one in twenty may show a difference.
SPLITS = 60
#: Words by frequency, as in a language: a few are in most texts, most are in few.
WORDS = [f"w{number}" for number in range(400)]
WEIGHTS = [1 / (number + 2) for number in range(400)]


def run_of(folder: Path, change: Change | None = None, *, steps: int = 8, samples: int = 32) -> rlpanel.Run:
    """A run with groups of four whose samples have a word, a number and a label in common."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "rollout_data_rank_0.jsonl").open("w") as file:
        for step in range(1, steps + 1):
            for index in range(samples):
                group, chance = random.Random(f"g{step}-{index // 4}"), random.Random(f"{step}-{index}")
                level, topic, lang = group.gauss(0, 1), group.choice(WORDS), group.choice(["en", "zh", "de"])
                words = chance.choices(WORDS, WEIGHTS, k=20)
                made: dict[str, Any] = {
                    "step": step,
                    "prompt": f"prompt {step} {index // 4}",
                    "group": f"{step}-{index // 4}",
                    "response": " ".join([*words[:10], topic, *words[10:]]),
                    "reward": level + chance.gauss(0, 1),
                    "score": chance.lognormvariate(0, 4),
                    "passed": float(chance.random() < 0.05),
                    "clock": 1000.0 * step + chance.random(),
                    "lang": lang,
                }
                if change:
                    change(step, index, made)
                file.write(json.dumps(made) + "\n")
    return rlpanel.open_run(folder, follow=False)


def side(run: rlpanel.Run, rows: np.ndarray, name: str = "set") -> ContrastSide:
    return ContrastSide(name, run.index, run.view, rows)


def compared(run: rlpanel.Run, a: np.ndarray, b: np.ndarray, **options: Any) -> Contrast:
    *_, last = contrast(side(run, a), side(run, b), **options)
    return last


def halves(run: rlpanel.Run) -> tuple[np.ndarray, np.ndarray]:
    """The rows of the later and of the earlier half of the steps."""
    step = run.snapshot.metadata("step")
    late = step > int(step.max()) // 2
    return np.flatnonzero(late), np.flatnonzero(~late)


def only(found: Contrast, kind: str) -> list[Difference]:
    return [difference for difference in found.differences if difference.kind == kind]


def test_two_random_halves_of_a_healthy_run_do_not_differ(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    rows = run.snapshot.alive_rows
    with_difference = 0
    for seed in range(SPLITS):
        half = np.random.default_rng(seed).random(len(rows)) < 0.5
        with_difference += bool(compared(run, rows[half], rows[~half], texts=200).differences)
    assert with_difference <= 0.05 * SPLITS


def test_random_halves_of_the_groups_do_not_differ(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    rows = run.snapshot.alive_rows
    with_difference = 0
    for seed in range(SPLITS):
        half = np.repeat(np.random.default_rng(seed).random(len(rows) // 4) < 0.5, 4)
        with_difference += bool(compared(run, rows[half], rows[~half], texts=200).differences)
    assert with_difference <= 0.05 * SPLITS


def test_a_few_random_samples_do_not_differ_from_the_rest(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    rows = run.snapshot.alive_rows
    with_difference = 0
    for seed in range(SPLITS):
        few = np.zeros(len(rows), bool)
        few[np.random.default_rng(seed).permutation(len(rows))[:8]] = True
        with_difference += bool(compared(run, rows[few], rows[~few], texts=0).differences)
    assert with_difference <= 0.05 * SPLITS


def test_numbers_are_compared_in_standard_deviations(tmp_path: Path) -> None:
    def higher(step: int, index: int, made: dict[str, Any]) -> None:
        made["reward"] += 2.0 * (step > 4)

    run = run_of(tmp_path, higher)
    late, early = halves(run)
    found = only(compared(run, late, early), "number")
    reward = run.snapshot.number("reward")
    spread = np.sqrt((reward[late].var(ddof=1) + reward[early].var(ddof=1)) / 2)
    expected = (reward[late].mean() - reward[early].mean()) / spread
    assert [difference.name for difference in found] == ["reward"]
    assert found[0].tested.effect == pytest.approx(expected)


def test_the_error_is_that_of_many_runs(tmp_path: Path) -> None:
    effects, errors = [], []
    for seed in range(40):

        def drawn(step: int, index: int, made: dict[str, Any], seed: int = seed) -> None:
            group = random.Random(f"{seed} {step} {index // 4}")
            own = random.Random(f"{seed} {step} {index}")
            made["reward"] = group.gauss(0, 1) + own.gauss(0, 1) + 3.0 * (step > 4)

        run = run_of(tmp_path / str(seed), drawn)
        found = next(d for d in compared(run, *halves(run), texts=0).differences if d.name == "reward")
        effects.append(found.tested.effect)
        errors.append(found.tested.error)
    assert np.mean(errors) == pytest.approx(np.std(effects), rel=0.35)


def test_a_label_is_named_with_its_shares_and_samples(tmp_path: Path) -> None:
    def french(step: int, index: int, made: dict[str, Any]) -> None:
        made["lang"] = "fr" if step > 4 and index % 2 else made["lang"]

    run = run_of(tmp_path, french)
    found = only(compared(run, *halves(run)), "label")[0]
    assert (found.name, found.where, found.count_a, found.count_b, found.tested.a) == (
        "lang = fr",
        '`lang` == "fr"',
        64,
        0,
        0.5,
    )
    frame = run.samples()
    assert set(found.uids_a) == set(frame.uid[frame.lang == "fr"])


def test_missing_values_are_a_difference(tmp_path: Path) -> None:
    def without(step: int, index: int, made: dict[str, Any]) -> None:
        if step > 4 and index % 3 == 0:
            made["reward"] = None

    run = run_of(tmp_path, without)
    found = only(compared(run, *halves(run)), "missing")
    assert [(d.name, d.where) for d in found] == [("reward", "missing(`reward`)")]


@pytest.mark.parametrize(
    ("kind", "text", "where"),
    [
        ("word", "<|im_start|>", 'response contains "<|im_start|>"'),
        ("words", "As a model", 'response contains "As a model"'),
        ("word", "阳", 'response contains "阳"'),
    ],
)
def test_planted_words_are_found_among_all_words(tmp_path: Path, kind: str, text: str, where: str) -> None:
    def planted(step: int, index: int, made: dict[str, Any]) -> None:
        if step > 4 and index % 3 == 0:
            words = made["response"].split()
            made["response"] = " ".join([*words[:12], text, *words[12:]])

    run = run_of(tmp_path, planted)
    found = next(d for d in compared(run, *halves(run)).differences if d.kind in ("word", "words"))
    assert (found.kind, found.name, found.where) == (kind, text, where)


def test_a_planted_opening_is_found(tmp_path: Path) -> None:
    def opened(step: int, index: int, made: dict[str, Any]) -> None:
        made["response"] = f"w1 w2 {made['response']}" if index % 2 and step > 4 else made["response"]

    run = run_of(tmp_path, opened)
    found = only(compared(run, *halves(run)), "opening")[0]
    assert (label_of(found), found.where) == ("begins with “w1 w2”", 'response startswith "w1 w2"')


def test_a_script_is_compared_by_its_share_of_the_letters(tmp_path: Path) -> None:
    def chinese(step: int, index: int, made: dict[str, Any]) -> None:
        made["response"] = "山月水" + chr(0x4E00 + 37 * step + index) if step > 4 else made["response"]

    run = run_of(tmp_path, chinese)
    found = {d.name: (d.tested.a, d.tested.b) for d in only(compared(run, *halves(run)), "script")}
    assert found == {"Han": (1.0, 0.0), "Latin": (0.0, 1.0)}


def test_of_long_texts_fewer_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of(tmp_path)
    chars = run.snapshot.number("response_chars").mean()
    monkeypatch.setattr("rlpanel.analysis.text_features.MAX_TEXT_CHARS", int(50.5 * chars))
    found = compared(run, *halves(run))
    assert (found.is_sampled, found.texts_total) == (True, pytest.approx(101, abs=4))


def test_every_uid_of_a_word_holds_it(tmp_path: Path) -> None:
    def planted(step: int, index: int, made: dict[str, Any]) -> None:
        made["response"] += " sorry" if index % 3 == 0 and step > 4 else ""

    run = run_of(tmp_path, planted)
    found = only(compared(run, *halves(run)), "word")[0]
    assert len(found.uids_a) == found.count_a == 44
    assert all("sorry" in (run.sample(uid).response or "") for uid in found.uids_a)


def test_a_column_that_counts_time_is_left_out(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    assert compared(run, *halves(run)).differences == ()


def test_columns_with_the_same_values_are_named_once(tmp_path: Path) -> None:
    def twice(step: int, index: int, made: dict[str, Any]) -> None:
        made["reward"] += 2.0 * (step > 4)
        made["copy"] = made["reward"] * 10

    run = run_of(tmp_path, twice)
    assert [d.name for d in only(compared(run, *halves(run)), "number")] == ["reward"]


def test_columns_of_the_choice_are_left_out(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    rows, reward = run.snapshot.alive_rows, run.snapshot.number("reward")
    high = reward[rows] > 1
    assert [d.name for d in compared(run, rows[high], rows[~high]).differences] == ["reward"]
    assert compared(run, rows[high], rows[~high], exclude=["reward"]).differences == ()


def test_samples_of_both_sets_are_in_the_first_only(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    rows = run.snapshot.alive_rows
    found = compared(run, rows[:40], rows)
    assert (len(found.a.rows), len(found.b.rows)) == (40, len(rows) - 40)


def test_two_runs_are_compared(tmp_path: Path) -> None:
    def german(step: int, index: int, made: dict[str, Any]) -> None:
        made["lang"] = "it" if index % 2 else "de"

    one, two = run_of(tmp_path / "one", german), run_of(tmp_path / "two")
    *_, found = contrast(side(one, one.snapshot.alive_rows), side(two, two.snapshot.alive_rows))
    labels = {d.name: (d.count_a, d.count_b > 0) for d in only(found, "label")}
    assert labels["lang = it"] == (128, False)
    assert labels["lang = zh"] == (0, True)


def test_an_empty_set_gets_a_message(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    rows = run.snapshot.alive_rows
    with pytest.raises(SettingError, match="rest has no samples"):
        next(contrast(side(run, rows), side(run, rows[:0], "rest")))


def test_columns_come_before_the_texts(tmp_path: Path) -> None:
    def higher(step: int, index: int, made: dict[str, Any]) -> None:
        made["reward"] += 2.0 * (step > 4)

    run = run_of(tmp_path, higher)
    first = next(contrast(*(side(run, rows) for rows in halves(run))))
    assert (first.complete, first.texts_read, [d.name for d in first.differences]) == (False, 0, ["reward"])


@pytest.mark.parametrize("values", [3, 50, 10_000], ids=["many equal", "some equal", "few equal"])
@pytest.mark.parametrize("count", [1, MAX_UIDS, MAX_UIDS + 1, 2000])
def test_the_shown_samples_are_those_with_the_largest_values_in_their_order(values: int, count: int) -> None:
    rng = np.random.default_rng(1)
    order = rng.integers(0, values, 3000).astype(float)
    positions = np.sort(rng.choice(3000, count, replace=False))
    ranked = sorted(positions.tolist(), key=lambda position: -order[position])  # stable
    assert selection_contrast.largest_first(positions, order).tolist() == ranked[:MAX_UIDS]


def test_words_of_prompts_and_ground_truths_are_compared(tmp_path: Path) -> None:
    def change(step: int, index: int, made: dict[str, Any]) -> None:
        made["prompt"] += " Answer in French." if step > 4 else " Answer."
        made["ground_truth"] = f"{step} apples of {index}" if step > 4 else f"{step} of {index}"

    run = run_of(tmp_path / "run", change)
    step = run.view.snapshot.metadata("step")
    found = compared(run, np.flatnonzero(step > 4), np.flatnonzero(step <= 4))
    labels = {label_of(each): each.where for each in found.differences}
    assert any(label.startswith("prompt contains") and "nswer in" in label for label in labels), labels
    assert any(label.startswith("ground truth") and "apples" in label for label in labels), labels
    (where,) = [where for label, where in labels.items() if label.startswith("prompt") and where][:1]
    assert len(run.samples(filter=where)) == int((step > 4).sum())
