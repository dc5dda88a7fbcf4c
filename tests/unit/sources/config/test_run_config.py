"""Configuration files of a run: names, values, secrets, limits and links."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlpanel.sources.config.config_text import command_settings
from rlpanel.sources.config.config_values import MAX_LEVELS, is_secret
from rlpanel.sources.config.run_config import MAX_FILES, compare_configs, read_run_config

HYDRA = """
trainer: &t {lr: 1e-6, betas: [0.9, 0.95], eos_token: <eos>, hub_token: hf_abcdefghijklmnopqrstuv}
ref:
  <<: *t
  max_tokens: 512
shape: !!python/tuple [1, 2]
run: !!python/object/apply:os.system ["touch pwned"]
db: postgres://me:secret1@host/db
"""
SCRIPT = """#!/bin/bash
export WANDB_API_KEY=0123456789012345678901234567890123456789
python train.py --lr 1e-5 --bf16 \\
  --stop "a b" data.path=x.parquet  # the last one
"""


def write(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_settings_of_all_kinds_of_files_are_read_under_dotted_names(tmp_path: Path) -> None:
    write(tmp_path, ".hydra/config.yaml", HYDRA)
    write(tmp_path, ".hydra/overrides.yaml", "- +trainer.warmup=10\n- trainer.lr=2e-6\n")
    write(tmp_path, "configs/orchestrator.toml", "batch_size = 64\n[sampling]\ntemperature = 1.0\n")
    write(tmp_path, "trainer_state.json", '{"max_steps": 50, "log_history": [{"loss": 1}]}')
    write(tmp_path, "wandb/run-1/files/config.yaml", "beta:\n  desc: null\n  value: 0.04\n_wandb: {v: 1}\n")
    write(tmp_path, "wandb/run-1/files/wandb-metadata.json", '{"host": "n1", "args": ["--seed", "7"]}')
    write(tmp_path, "run.sh", SCRIPT)
    config = read_run_config(tmp_path)
    found = config.values
    expected = {
        "trainer.lr": 1e-6,
        "trainer.betas": "[0.9, 0.95]",
        "trainer.eos_token": "<eos>",
        "ref.lr": 1e-6,
        "ref.max_tokens": 512,
        "shape": "[1, 2]",
        "trainer.warmup": 10,
        "batch_size": 64,
        "sampling.temperature": 1.0,
        "max_steps": 50,
        "beta": 0.04,
        "seed": 7,
        "lr": 1e-5,
        "bf16": True,
        "stop": "a b",
        "data.path": "x.parquet",
    }
    assert {name: found.get(name) for name in expected} == expected
    assert not any(name.startswith(("log_history", "host", "_wandb")) for name in found)
    assert not config.skipped
    assert not (tmp_path / "pwned").exists()


def test_no_secret_is_in_the_result(tmp_path: Path) -> None:
    write(tmp_path, "config.yaml", HYDRA)
    write(tmp_path, "run.sh", SCRIPT)
    write(
        tmp_path,
        "args.json",
        '{"nested": [{"password": 123456}], "sk-abcdefghijklmnopqrst": 1, "l": ["hf_abcdefghijklmnopqr"]}',
    )
    config = read_run_config(tmp_path)
    text = repr(config)
    for secret in ("hf_", "secret1", "0123456789", "123456", "sk-abc"):
        assert secret not in text
    hidden = {each.name for each in config.settings if each.hidden}
    assert {"trainer.hub_token", "db", "env.WANDB_API_KEY", "nested.0.password", "l"} <= hidden


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("api_key", "x"), ("wandb.token", "x"), ("aws_secret", 5), ("auth", "x"), ("url", "https://u:p@h"),
        ("hook", "https://hooks.slack.com/services/T/B/x"), ("cmd", "KEY=1 API_KEY=abcdef12 python"),
        ("any", "ghp_abcdefghijklmnopqrstuv12"), ("id", "a" * 40), ("x", "https://h/f?X-Amz-Signature=abc"),
        ("header", "Bearer abcdefghijklmnop"), ("env.OPENAI_KEY", "x"), ("t", "aB3" * 12),
    ],
)  # fmt: skip
def test_what_looks_like_a_secret_is_hidden(name: str, value: object) -> None:
    assert is_secret(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_tokens", 512), ("pad_token", "<pad>"), ("data.prompt_key", "prompt"), ("lr", 1e-6),
        ("loss_agg_mode", "token-mean"), ("git.commit", "a" * 40), ("model", "Qwen/Qwen2.5-0.5B-Instruct"),
        ("push_to_hub_token", None), ("add_bos_token", True), ("tokenizer", "/data/tokenizers/llama"),
        ("num_key_value_heads", 8), ("author_note", "none"), ("url", "https://example.org/x"),
    ],
)  # fmt: skip
def test_usual_settings_are_shown(name: str, value: object) -> None:
    assert not is_secret(name, value)


def test_links_pickles_and_broken_files_are_named_and_not_read(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    write(outside, "config.yaml", "stolen: 1\n")
    write(outside, "hydra/config.yaml", "stolen: 2\n")
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.yaml").symlink_to(outside / "config.yaml")
    (run / ".hydra").symlink_to(outside / "hydra")
    (run / "training_args.bin").write_bytes(b"\x80\x04N.")
    write(run, "config.json", "[" * 100_000)
    write(run, "args.yaml", "a: [1\n")
    write(run, "hparams.json", "x" * 2_000_000)
    config = read_run_config(run)
    assert config.settings == ()
    assert set(dict(config.skipped)) == {
        "config.yaml", "config.json", "args.yaml", "hparams.json", "training_args.bin"
    }  # fmt: skip
    assert "link" in dict(config.skipped)["config.yaml"]
    assert "pickle" in dict(config.skipped)["training_args.bin"]


def test_bombs_end_at_the_limits(tmp_path: Path) -> None:
    aliases = "\n".join(f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 9)}]" for at in range(1, 12))
    write(tmp_path, "config.yaml", f"a0: &a0 [x]\n{aliases}\n")
    merges = "\n".join(f"b{at}: &b{at} {{<<: [{', '.join([f'*b{at - 1}'] * 9)}]}}" for at in range(1, 12))
    write(tmp_path, "args.yaml", f"b0: &b0 {{x: 1}}\n{merges}\n")
    write(tmp_path, "args.json", '{"d": ' * (MAX_LEVELS + 3) + "1" + "}" * (MAX_LEVELS + 3))
    for at in range(MAX_FILES + 5):
        write(tmp_path, f"configs/c{at}.toml", f"k{at} = {at}\n")
    config = read_run_config(tmp_path)
    assert len(config.settings) <= 2000
    assert len(config.files) == MAX_FILES
    assert config.left_out > 0
    assert any("files" in reason for _, reason in config.skipped)


def test_the_folder_above_is_read_below_the_root_only(tmp_path: Path) -> None:
    write(tmp_path, "config.yaml", "root: 1\n")
    write(tmp_path / "exp", "config.yaml", "exp: 1\n")
    rollouts = tmp_path / "exp" / "rollouts"
    write(rollouts, "args.yaml", "own: 1\n")
    assert read_run_config(rollouts, tmp_path).values == {"own": 1, "exp": 1}
    assert read_run_config(tmp_path / "exp", tmp_path).values == {"exp": 1}
    assert read_run_config(rollouts).values == {"own": 1}


def test_differences_name_both_values_and_skip_hidden_ones(tmp_path: Path) -> None:
    write(tmp_path / "a", "config.yaml", "lr: 1e-6\nseed: 1\nflag: true\nonly: x\napi_key: aaa\n")
    write(tmp_path / "b", "config.yaml", "lr: 1.0e-06\nseed: 2\nflag: 1\napi_key: bbb\n")
    pairs = compare_configs(*(read_run_config(tmp_path / name) for name in "ab"))
    found = [(pair.name, pair.here, pair.there, pair.in_there) for pair in pairs]
    assert found == [("seed", 1, 2, True), ("flag", True, 1, True), ("only", "x", None, False)]


def test_words_of_a_command() -> None:
    text = "CUDA_VISIBLE_DEVICES=0,1 python -m t.main actor.lr=1e-6 ~a.b=1 --n -3 --list a b && echo --no x"
    assert command_settings(text) == {
        "env.CUDA_VISIBLE_DEVICES": "0,1", "m": "t.main", "actor.lr": "1e-6", "a.b": "1", "n": "-3",
        "list": "a b", "no": "x",
    }  # fmt: skip


def test_what_the_recorder_says_about_itself_is_no_setting(tmp_path: Path) -> None:
    for name, session in (("a", "1a-1"), ("b", "2b-2")):
        logged = {"beta": 0.1, "session": session, "not_recorded": "no logprobs", "data": {"session": 3}}
        write(tmp_path / name, "run.json", json.dumps(logged))
    a, b = (read_run_config(tmp_path / name) for name in ("a", "b"))
    assert [each.name for each in a.settings] == ["beta", "data.session"]
    assert compare_configs(a, b) == []
