"""Explanations from Python: shares of a change, contrasts and clusters as data frames."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

import rlpanel
from rlpanel.errors import FilterError, SettingError


def run_of(folder: Path, *, shift: float = 2.0) -> rlpanel.Run:
    """A run of six steps; from step 4 on, zh has a higher reward and answers the same."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "rollout_data_rank_0.jsonl").open("w") as file:
        for step in range(1, 7):
            for index in range(40):
                chance = random.Random(f"{step}-{index}")
                zh = index % 2 == 0
                late = zh and step >= 4
                file.write(
                    json.dumps(
                        {
                            "step": step,
                            "prompt": f"{step} {index}",
                            "response": "yes of course" if late else f"{chance.random()} {chance.random()}",
                            "reward": chance.gauss(0, 1) + shift * late,
                            "lang": "zh" if zh else "en",
                        }
                    )
                    + "\n"
                )
    return rlpanel.open_run(folder, follow=False)


def test_the_cause_of_a_change_is_a_table(tmp_path: Path) -> None:
    frame = run_of(tmp_path, shift=20.0).explain("reward", 4)
    first = frame[frame.kind == "lang"].iloc[0]
    assert (first["name"], first["filter"], first["count"]) == ("zh", '`lang` == "zh"', 20)
    assert frame[frame.kind == "lang"].share.sum() == pytest.approx(1.0)
    assert frame.attrs["sentences"][0].startswith("lang = zh carries")
    assert (frame.attrs["step"], frame.attrs["since"]) == ("4", "1..3")


def test_tokens_are_added_on_demand(grpo_run: Path) -> None:
    run = rlpanel.open_run(grpo_run, follow=False)
    assert "token" not in set(run.explain("kl_k3_mean", 46).kind)
    frame = run.explain("kl_k3_mean", 46, 45, tokens=True)
    top = frame[frame.kind == "token"].iloc[0]
    assert (top["name"], top["count"], round(top["share"], 2)) == ("山", 1, 0.68)


@pytest.mark.parametrize(
    ("a", "b", "sizes"),
    [
        (5, 1, (40, 40)),
        ((4, 6), (1, 3), (120, 120)),
        (slice(4, None), slice(None, 3), (120, 120)),
        ((4, 6), None, (120, 120)),
        ('step >= 4 and lang == "zh"', 'lang == "en"', (60, 120)),
        (5, (1, 6), (40, 200)),
    ],
)
def test_selections_are_steps_ranges_and_filters(
    tmp_path: Path, a: object, b: object, sizes: tuple[int, int]
) -> None:
    assert run_of(tmp_path).contrast(a, b).attrs["samples"] == sizes  # type: ignore[arg-type]


def test_a_contrast_names_the_difference_with_its_samples(tmp_path: Path) -> None:
    frame = run_of(tmp_path, shift=4.0).contrast((4, 6), (1, 3)).set_index("name")
    assert frame.loc["reward", "kind"] == "number"
    texts = frame[frame.kind.isin(["word", "words", "opening"])]
    assert (texts.count_a.max(), texts.count_b.min(), len(texts.uids_a.iloc[0])) == (60, 0, 60)


def test_the_columns_of_a_filter_are_not_compared(tmp_path: Path) -> None:
    frame = run_of(tmp_path).contrast('lang == "zh"')
    assert not any(name.startswith("lang") for name in frame.name)


def test_another_run_is_a_selection(tmp_path: Path) -> None:
    one, two = run_of(tmp_path / "one", shift=9.0), run_of(tmp_path / "two")
    assert one.contrast(one, two).attrs["samples"] == (240, 240)
    frame = one.contrast(5, (two, 5))
    assert frame.attrs["samples"] == (40, 40)


@pytest.mark.parametrize("wrong", [1.5, None, (1, 2, 3), True, ("a", "b")])
def test_what_is_no_selection_gets_a_message(tmp_path: Path, wrong: object) -> None:
    with pytest.raises(SettingError, match="no selection"):
        run_of(tmp_path).contrast(wrong, 1)  # type: ignore[arg-type]


def test_an_invalid_filter_gets_its_message(tmp_path: Path) -> None:
    with pytest.raises(FilterError, match="no column 'rewrd'"):
        run_of(tmp_path).contrast("rewrd > 1")


def test_no_difference_is_an_empty_table(tmp_path: Path) -> None:
    frame = run_of(tmp_path, shift=0.0).contrast(2, 1)
    assert (len(frame), "uids_b" in frame.columns) == (0, True)


def test_clusters_are_a_table(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    frame = run.clusters()
    assert frame[["size", "first", "last", "example"]].to_dict("records") == [
        {"size": 60, "first": 4, "last": 6, "example": "yes of course"}
    ]
    assert len(frame.uids[0]) == 60
    assert (len(run.clusters(5, 5).uids[0]), len(run.clusters(1, 3))) == (20, 0)


def test_clusters_take_steps_as_samples_do(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    sizes = [len(run.clusters(steps).uids[0]) for steps in ((5, 6), slice(5, 6), range(5, 7), "5..6", 5)]
    assert sizes == [40] * 5
    with pytest.raises(SettingError, match="leave out last=6"):
        run.clusters((5, 6), 6)
    with pytest.raises(SettingError, match="write 12"):
        run.clusters("five")
