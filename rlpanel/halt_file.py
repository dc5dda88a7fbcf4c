"""The file ``HALT`` in a run's folder: it asks the training that writes the run to stop, and says why.

The checker of findings replaces it atomically; the training only looks whether it exists, which is one call
to the system. Only the standard library is used, since a training process imports it.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, fields
from typing import Any

from rlpanel.errors import SettingError
from rlpanel.safe_files import SafeFolder

#: Name of the file. It has no suffix, so that it is not taken for a log.
HALT = "HALT"
#: Most bytes of the file that are read.
_MAX_BYTES = 1 << 16
#: Most characters of the reason: a finding may quote a response.
_MAX_REASON = 1000
#: Severities of findings that can stop a training, the worst first.
HALTING = ("alarm", "warning")


@dataclass(frozen=True)
class HaltOn:
    """The findings that stop a training.

    Attributes
    ----------
    severity : str
        ``alarm``, or ``warning`` for both.
    rules : tuple of str
        Names of rules; empty for all.
    """

    severity: str = "alarm"
    rules: tuple[str, ...] = ()


def parse_halt_on(value: Any) -> HaltOn | None:
    """Return what `record` got as ``halt_on``: a severity, names of rules, or a dict of both.

    Parameters
    ----------
    value : str, sequence of str, dict or None
        ``"alarm"``, ``["not_finite"]``, ``{"severity": "warning", "rules": ["not_finite"]}``. None and an
        empty text stand for no halting.

    Raises
    ------
    SettingError
        If it is anything else.
    """
    if value is None or value is False or value == "":
        return None
    if isinstance(value, HaltOn):
        value = asdict(value)
    if isinstance(value, str):
        value = {"severity": value}
    elif isinstance(value, list | tuple | set | frozenset):
        value = {"rules": value}
    if not isinstance(value, dict) or not value.keys() <= {"severity", "rules"}:
        raise SettingError(f'halt_on={value!r}: give "alarm", "warning", names of rules, or a dict of both')
    severity, rules = value.get("severity", HALTING[0]), value.get("rules", ())
    if severity not in HALTING:
        raise SettingError(f'halt_on={severity!r}: the severity is "alarm" or "warning"')
    rules = (rules,) if isinstance(rules, str) else tuple(rules)
    if not all(isinstance(rule, str) and rule for rule in rules):
        raise SettingError(f"halt_on={rules!r}: give names of rules")
    return HaltOn(severity, tuple(sorted(rules)))


@dataclass(frozen=True)
class Halt:
    """Content of the file.

    Attributes
    ----------
    sentence : str
        The finding in a sentence.
    severity, rule : str
        Its severity, and the name of the rule that made it.
    onset : int or None
        First affected step; None if the finding is about the whole run.
    step : int
        Newest complete step when the finding was confirmed.
    time : float
        When the file was written, in seconds since the epoch.
    """

    sentence: str
    severity: str = "alarm"
    rule: str = ""
    onset: int | None = None
    step: int = -1
    time: float = 0.0

    @property
    def reason(self) -> str:
        """Severity, rule and sentence in one line, without characters that control a terminal."""
        rule = f" {self.rule}" if self.rule else ""
        text = f"{self.severity}{rule}: {self.sentence}"
        line = "".join(char if char.isprintable() else " " for char in text)
        return line if len(line) <= _MAX_REASON else f"{line[:_MAX_REASON]}…"


def should_halt(run_dir: str | os.PathLike[str], since: float = 0.0) -> str:
    """Return why the training should stop; an empty text if it should go on. Never raises.

    Without the file ``HALT`` in the folder it costs one call to the system. Call it once a step.

    Parameters
    ----------
    run_dir : path
        The run's folder.
    since : float
        Seconds since the epoch: an older file, of a training before this one, does not count.

    Returns
    -------
    str
        The finding in one line. A file that rlpanel did not write, such as that of ``touch HALT``, counts as
        well.

    Examples
    --------
    >>> if reason := rlpanel.should_halt("runs/exp1"):
    ...     print(reason)
    ...     break
    """
    try:
        status = os.stat(os.path.join(run_dir, HALT))
    except (OSError, ValueError):
        return ""
    if status.st_mtime < since:
        return ""
    halt = read_halt(run_dir)
    return halt.reason if halt is not None else f"the file {HALT} asks for it"


def read_halt(run_dir: str | os.PathLike[str]) -> Halt | None:
    """Return the content of the file; None if there is none, or if rlpanel did not write it."""
    try:
        with SafeFolder.named(run_dir) as folder:
            content = json.loads(folder.read(HALT, _MAX_BYTES))
        halt = Halt(**{each.name: content[each.name] for each in fields(Halt)})
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    whole = [halt.step] + [halt.onset] * (halt.onset is not None)
    texts = (halt.sentence, halt.severity, halt.rule)
    is_valid = all(type(each) is int for each in whole) and all(isinstance(each, str) for each in texts)
    return halt if is_valid and halt.severity in HALTING else None


def write_halt(run_dir: str | os.PathLike[str], halt: Halt) -> None:
    """Write the file atomically; raise OSError if the folder is not writable."""
    text = json.dumps(asdict(halt), indent=2, ensure_ascii=False)
    with SafeFolder.named(run_dir) as folder:
        folder.replace(HALT, f"{text}\n".encode("utf-8", "replace"))


def remove_halt(run_dir: str | os.PathLike[str]) -> bool:
    """Delete the file of an earlier training; return whether there was one. Never raises."""
    try:
        os.unlink(os.path.join(run_dir, HALT))
    except OSError:
        return False
    return True
