"""Parses the texts of configuration files into nested values: YAML, TOML, JSON, and launch commands.

Nothing is executed and nothing is unpickled. Tags of YAML that would make a Python object are read as the
plain text, list or mapping that they tag; merges with ``<<`` are not multiplied.
"""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterable
from typing import Any

from rlpanel.errors import SettingError

# -- launch command ------------------------------------------------------------------------------------
# Settings of a launch command: options, overrides such as ``trainer.lr=1e-6``, and variables before it.


_OVERRIDE = re.compile(r"[+~]{0,2}([A-Za-z_][\w./@-]*)=(.*)", re.DOTALL)
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*$")
_OPTION = re.compile(r"--?([A-Za-z][\w./-]*)(?:=(.*))?", re.DOTALL)
_NUMBER = re.compile(r"-?\.?\d")
#: Words that end a command.
_ENDS = frozenset(("&&", "||", ";", "|", "&", ">", ">>", "2>&1", "<"))
#: Longer texts do not count as command lines.
MAX_TEXT = 64 << 10


def command_settings(text: str) -> dict[str, object]:
    """Return the settings of a shell script's commands; the last value of each name counts.

    A value that refers to a variable stays as it is written. Nothing is run.

    Parameters
    ----------
    text : str
        At most `MAX_TEXT` characters.
    """
    found: dict[str, object] = {}
    for line in text.replace("\\\r\n", " ").replace("\\\n", " ").splitlines():
        try:
            words = shlex.split(line, comments=True)
        except ValueError:  # a quotation that goes on in the next line
            words = line.split()
        found |= argument_settings(words)
    return found


def argument_settings(words: Iterable[str]) -> dict[str, object]:
    """Return the settings of a command's words, such as ``--lr 1e-6 --bf16 actor.lr=1e-6``."""
    found: dict[str, object] = {}
    waiting = ""
    for word in words:
        if word in _ENDS:
            waiting = ""
            continue
        option = None if _NUMBER.match(word) else _OPTION.fullmatch(word)
        if option is not None:
            name, value = option[1].replace("-", "_"), option[2]
            found[name] = True if value is None else value
            waiting = name if value is None else ""
            continue
        override = _OVERRIDE.fullmatch(word)
        if waiting and (found[waiting] is True or override is None):
            found[waiting] = word if found[waiting] is True else f"{found[waiting]} {word}"
            continue
        waiting = ""
        if override is not None:
            name = f"env.{override[1]}" if _VARIABLE.match(override[1]) else override[1]
            found[name] = override[2]
    return found


# -- config text ---------------------------------------------------------------------------------------


#: Largest file by the end of its name, in bytes: the reader of YAML takes a second for its limit.
MAX_BYTES = {".yaml": 192 << 10, ".yml": 192 << 10, ".json": 1 << 20, ".toml": 512 << 10}
#: Keys of a TRL ``trainer_state.json`` that are settings; the others are progress and logs.
_TRAINER_STATE = (
    "max_steps",
    "num_train_epochs",
    "train_batch_size",
    "logging_steps",
    "save_steps",
    "eval_steps",
)
#: Keys of a W&B ``wandb-metadata.json`` that describe the run; the others name machine and user.
_METADATA = ("program", "codePath", "git", "gpu", "gpu_count", "cpu_count", "python", "cudaVersion")


def parse_config(name: str, data: bytes) -> dict[str, Any]:
    """Return the content of a configuration file as a mapping.

    Parameters
    ----------
    name : str
        Path below the run's folder; its end decides about the format.
    data : bytes

    Raises
    ------
    SettingError
        If it cannot be parsed; the message names the reason.
    """
    text = data.decode("utf-8", "replace").lstrip("\ufeff")
    file = name.rpartition("/")[2]
    try:
        if file.endswith((".yaml", ".yml")):
            content = _yaml(text)
        elif file.endswith(".toml"):
            content = tomllib.loads(text)
        elif file.endswith(".json"):
            content = json.loads(text)
        elif len(text) > MAX_TEXT:
            raise SettingError(f"has more than {MAX_TEXT:,} characters")
        else:
            content = command_settings(text)
    except SettingError:
        raise
    except MemoryError:
        raise
    except RecursionError:
        raise SettingError("is nested too deeply") from None
    except Exception as error:  # whatever a parser raises for a text that somebody else wrote
        raise SettingError(" ".join(str(error).split())[:160] or type(error).__name__) from None
    if file == "overrides.yaml" and isinstance(content, list):
        return argument_settings(str(each) for each in content)
    if not isinstance(content, dict):
        raise SettingError("is not a mapping of names to values")
    if file == "trainer_state.json":
        return {key: content[key] for key in _TRAINER_STATE if key in content}
    if file == "wandb-metadata.json":
        given = content.get("args")
        words = [str(each) for each in given] if isinstance(given, list) else []
        return {key: content[key] for key in _METADATA if key in content} | argument_settings(words)
    if name.startswith("wandb/"):
        return {
            key: _unwrapped(value) for key, value in content.items() if key not in ("_wandb", "wandb_version")
        }
    return content


def _unwrapped(value: Any) -> Any:
    """Return the value of a setting that W&B wrote together with a description."""
    return (
        value["value"]
        if isinstance(value, dict) and set(value) <= {"value", "desc"} and "value" in value
        else value
    )


def _yaml(text: str) -> Any:
    import yaml  # type: ignore[import-untyped]  # Panel and Bokeh require it

    class Plain(yaml.SafeLoader):
        """Reads tagged values as plain ones, and does not expand merges."""

        def flatten_mapping(self, node: Any) -> None:
            """Keep ``<<`` as a key: merges of merges would grow without bound."""

    def plain(loader: Any, _suffix: str, node: Any) -> Any:
        if isinstance(node, yaml.ScalarNode):
            return loader.construct_scalar(node)
        if isinstance(node, yaml.SequenceNode):
            return loader.construct_sequence(node, deep=True)
        return loader.construct_mapping(node, deep=True)

    Plain.add_multi_constructor("!", plain)
    Plain.add_multi_constructor("tag:yaml.org,2002:python/", plain)
    Plain.add_constructor("tag:yaml.org,2002:merge", lambda loader, node: "<<")
    return yaml.load(text, Plain)
