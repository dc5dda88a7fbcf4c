"""Logs in no known format: a mapping, by setting or in an rlpanel.toml beside the run; texts for ids."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import tokenizers
from tokenizers import models, pre_tokenizers

import rlpanel
from rlpanel.errors import RunNotFound, SettingError
from rlpanel.settings import Reading
from rlpanel.sources.discovery.folder_config import from_settings
from rlpanel.store.index.run_index import RunIndex
from tests.factories import append

ODD = {
    "question": "2 + 2?",
    "answer": "4",
    "mark": {"total": 0.5},
    "iteration": 3,
    "reward": "raw",
    "seed": 7,
}
TOML = '[map]\nprompt = "question"\nresponse = "answer"\nreward = "mark.total"\nstep = "iteration"\n'


def line(**fields: Any) -> bytes:
    return json.dumps(ODD | fields).encode() + b"\n"


def look(index: RunIndex) -> RunIndex:
    index.rescan()
    while index.read():
        pass
    return index


def vocabulary(path: Path) -> Path:
    """A tokenizer.json of four words."""
    words = {"<unk>": 0, "two": 1, "and": 2, "four": 3}
    made = tokenizers.Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.save(str(path))
    return path


def test_a_mapping_by_setting_reads_lines_of_any_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(tmp_path / "log.jsonl", line(), line(iteration="4"))
    monkeypatch.setenv("RLPANEL_MAP", "prompt=question, response=answer,reward=mark.total,step=iteration")
    with rlpanel.open_run(tmp_path, follow=False) as run:
        frame = run.samples(text=True)
    assert frame[["step", "prompt", "response", "reward", "logged_reward", "seed"]].values.tolist() == [
        [3, "2 + 2?", "4", 0.5, "raw", 7.0],
        [4, "2 + 2?", "4", 0.5, "raw", 7.0],
    ]


def test_a_toml_beside_the_run_does_the_same_for_runs_below_it(tmp_path: Path) -> None:
    (tmp_path / "rlpanel.toml").write_text(TOML)
    (tmp_path / "exp" / "deep").mkdir(parents=True)
    append(tmp_path / "exp" / "deep" / "log.jsonl", line())
    (found,) = rlpanel.discover(tmp_path)
    index = look(RunIndex(found.path, "deep", root=tmp_path))
    assert (found.name, index.snapshot.number("reward").tolist()) == ("exp/deep", [0.5])


def test_a_mapping_that_comes_later_is_taken_up_and_one_that_changes_too(tmp_path: Path) -> None:
    append(tmp_path / "log.jsonl", line())
    index = look(RunIndex(tmp_path, "run"))
    nothing = index.snapshot.samples
    (tmp_path / "rlpanel.toml").write_text(TOML)
    first = look(index).snapshot.number("reward").tolist()
    (tmp_path / "rlpanel.toml").write_text(TOML.replace("mark.total", "seed"))
    snapshot = look(index).snapshot
    assert (nothing, first) == (0, [0.5])
    assert snapshot.number("reward")[snapshot.alive_rows].tolist() == [7.0]


@pytest.mark.parametrize(
    ("name", "step"), [("rollouts_step_12.jsonl", 12), ("12.jsonl", 12), ("worker_3.jsonl", 3)]
)
def test_the_step_may_stand_in_the_files_name_or_is_inferred(tmp_path: Path, name: str, step: int) -> None:
    (tmp_path / "rlpanel.toml").write_text('[map]\nprompt = "question"\n')
    append(tmp_path / name, line())
    index = look(RunIndex(tmp_path, "run"))
    assert index.snapshot.steps.values.tolist() == [step]


def test_a_line_without_the_mapped_keys_is_kept_as_bad(tmp_path: Path) -> None:
    (tmp_path / "rlpanel.toml").write_text(TOML)
    append(tmp_path / "log.jsonl", line(), b'{"iteration": 4}\n', b'{"question": "q"}\n')
    index = look(RunIndex(tmp_path, "run"))
    assert [bad.reason for bad in index.snapshot.bad_lines] == [
        "neither 'question' nor 'answer', which the mapping requires",
        "no 'iteration', and the file's name contains no step",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("promt=input", "unknown name 'promt'; did you mean prompt"),
        ("prompt", "'prompt' has no '='"),
        ("prompt=", "prompt must be a key of the file's lines"),
    ],
)
def test_a_mapping_that_is_not_understood_says_what_to_write(text: str, said: str) -> None:
    with pytest.raises(SettingError, match=said.replace("'", ".")):
        from_settings(Reading(map=text))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[map\n", "rlpanel.toml is ignored: "),
        ("[maps]\n", "unknown key 'maps'; the keys are map, reward_weights, step, tokenizer"),
        ('[map]\nprmpt = "x"\n', "did you mean prompt"),
        ('tokenizer = "nowhere.json"\n', "nowhere.json is not a valid tokenizer.json"),
    ],
)
def test_a_toml_that_is_not_understood_is_a_problem_and_hides_nothing(
    tmp_path: Path, text: str, said: str
) -> None:
    append(tmp_path / "rank_0.jsonl", b'{"step": 1, "prompt": "p", "response": "r"}\n')
    (tmp_path / "rlpanel.toml").write_text(text)
    snapshot = look(RunIndex(tmp_path, "run")).snapshot
    assert snapshot.samples == 1
    assert said in snapshot.problems[0]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("rlpanel.toml", "a = " + "[" * 60_000, "rlpanel.toml is ignored: nested too deeply"),
        ("rlpanel.toml", f"[reward_weights]\na = 1{'0' * 400}\n", "rlpanel.toml is ignored: [rewa"),
        ("rlpanel.toml", "[reward_weights]\na = nan\n", "rlpanel.toml is ignored: [reward_weights]"),
        ("rlpanel.toml", f"a = {'9' * 5000}\n", "rlpanel.toml is ignored: "),
        ("run.json", f'{{"reward_weights": {{"a": 1{"0" * 400}}}}}', "run.json: the weight of 'a'"),
        ("run.json", '{"reward_weights": {"a": NaN, "b": 0.5}}', "run.json: the weight of 'a'"),
        ("run.json", '{"reward_weights": {"a": [1]}}', "run.json: the weight of 'a'"),
        ("run.json", '{"a": ' + "[" * 100_000, "run.json is ignored: "),
        ("run.json", "[1]", "run.json is ignored: not a JSON object"),
        ("run.json", " " * (1 << 20) + "{}", "run.json: has 1,048,578 bytes; the limit is 1,048,576"),
    ],
    ids=[
        *("deep lists", "huge weight", "weight without value", "huge integer", "huge weight in JSON"),
        *("NaN as weight", "list as weight", "deep lists in JSON", "a list", "large"),
    ],
)
def test_nonsense_in_a_file_of_the_run_is_a_problem_and_hides_nothing(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    append(tmp_path / "rank_0.jsonl", b'{"step": 1, "prompt": "p", "response": "r"}\n')
    (tmp_path / name).write_text(text)
    snapshot = look(RunIndex(tmp_path, "run")).snapshot
    assert snapshot.samples == 1
    assert snapshot.problems[0].startswith(said)


@pytest.mark.parametrize("key", ["gamma", "epsilon", "kl_coef", "pass_reward", "count_failed", "algo"])
def test_a_constant_of_any_size_in_run_json_is_no_error(tmp_path: Path, key: str) -> None:
    append(tmp_path / "rank_0.jsonl", b'{"step": 1, "prompt": "p", "response": "r"}\n')
    (tmp_path / "run.json").write_text(f'{{"{key}": -1{"0" * 400}}}')
    assert look(RunIndex(tmp_path, "run")).snapshot.samples == 1


def test_ids_become_texts_by_the_tokenizer_beside_the_run(tmp_path: Path) -> None:
    trace = {"step": 1, "prompt_tokens": [1, 2, 1], "response_tokens": [3, 2, 99], "logprobs": [-1, -2, -3]}
    append(tmp_path / "r_rollouts_000000.jsonl", json.dumps(trace).encode() + b"\n")
    with rlpanel.open_run(tmp_path, follow=False) as run:
        plain = run.sample(run.samples()["uid"][0])
    vocabulary(tmp_path / "tokenizer.json")
    (tmp_path / "rlpanel.toml").write_text('tokenizer = "tokenizer.json"\n')
    with rlpanel.open_run(tmp_path, follow=False) as run:
        sample = run.sample(run.samples()["uid"][0])
    assert (plain.response_tokens, plain.response) == (None, None)
    assert sample.response_tokens == ["four", "and", "#99"]
    assert (sample.prompt, sample.response) == ("two and two", "four and")
    assert sample.response_token_ids is not None
    assert sample.response_token_ids.tolist() == [3, 2, 99]


class Shared(NamedTuple):
    """A root below which another user can write, and a folder of the user who looks at it."""

    root: Path
    home: Path

    def problem(self, tokenizer: str, mode: int = 0o666) -> str:
        """Return what is said about an ``rlpanel.toml`` with a tokenizer; by default, all may write it."""
        run = self.root / "run"
        run.mkdir(exist_ok=True)
        append(run / "rank_0.jsonl", b'{"step": 1, "prompt": "p", "response": "r"}\n')
        (run / "rlpanel.toml").write_text(f'tokenizer = "{tokenizer}"\n')
        (run / "rlpanel.toml").chmod(mode)
        return "".join(look(RunIndex(run, "run", root=self.root)).snapshot.problems)


@pytest.fixture
def shared(tmp_path: Path) -> Shared:
    made = Shared(tmp_path / "root", tmp_path / "home")
    made.root.mkdir()
    made.home.mkdir()
    vocabulary(made.home / "tokenizer.json")
    (made.home / "id_rsa").write_text("PRIVATE")
    return made


def test_a_foreign_toml_does_not_show_which_files_of_the_user_exist(shared: Shared) -> None:
    names = ("tokenizer.json", "id_rsa", "missing", "")
    said = {shared.problem(f"{place}/{name}") for place in (shared.home, "../../home") for name in names}
    (problem,) = said
    assert problem.startswith("rlpanel.toml is ignored: it names a tokenizer outside of")
    assert "--tokenizer" in problem


def test_a_foreign_toml_may_not_name_a_link(shared: Shared) -> None:
    (shared.root / "link.json").symlink_to(shared.home / "tokenizer.json")
    assert shared.problem("../link.json").endswith("is a link")
    (shared.root / "folder").symlink_to(shared.home)
    assert "is a link" in shared.problem("../folder/tokenizer.json")


def test_a_foreign_toml_may_name_a_tokenizer_below_the_root(shared: Shared) -> None:
    vocabulary(shared.root / "tokenizer.json")
    assert shared.problem("../tokenizer.json") == ""


def test_an_own_toml_may_name_any_tokenizer_and_own_links(shared: Shared) -> None:
    (shared.root / "link.json").symlink_to(shared.home / "tokenizer.json")
    assert shared.problem(f"{shared.home}/tokenizer.json", 0o644) == ""
    assert shared.problem("../link.json", 0o644) == ""
    if os.geteuid() == 0:  # only root can give a link away
        os.chown(shared.root / "link.json", 65534, 65534, follow_symlinks=False)
        assert "leads through a link of user 65534" in shared.problem("../link.json", 0o644)


def test_a_configuration_that_cannot_be_read_is_named_until_it_can(tmp_path: Path) -> None:
    append(tmp_path / "log.jsonl", line())
    os.mkfifo(tmp_path / "rlpanel.toml")
    index = look(RunIndex(tmp_path, "run"))
    assert [item.file for item in index.snapshot.unread] == ["rlpanel.toml"]
    (tmp_path / "rlpanel.toml").unlink()
    (tmp_path / "rlpanel.toml").write_text(TOML)
    snapshot = look(index).snapshot
    assert (snapshot.number("reward").tolist(), snapshot.unread) == ([0.5], ())


def test_texts_that_were_logged_are_kept(tmp_path: Path) -> None:
    (tmp_path / "rlpanel.toml").write_text(f'tokenizer = "{vocabulary(tmp_path / "t.json").name}"\n')
    logged = {"step": 1, "response": "said", "response_tokens": ["sa", "id"], "response_token_ids": [1, 2]}
    append(tmp_path / "rank_0.jsonl", json.dumps(logged).encode() + b"\n")
    with rlpanel.open_run(tmp_path, follow=False) as run:
        sample = run.sample(run.samples()["uid"][0])
    assert (sample.response, sample.response_tokens) == ("said", ["sa", "id"])


def test_a_folder_of_odd_lines_alone_names_the_mapping_as_a_way(tmp_path: Path) -> None:
    append(tmp_path / "log.jsonl", line())
    with pytest.raises(RunNotFound, match="--map response=answer,prompt=question"):
        rlpanel.open_run(tmp_path, follow=False)
