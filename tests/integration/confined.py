"""Runs a command under the limits of docs/deploy/rlpanel.service that need neither systemd nor root.

``python -m tests.integration.confined COMMAND …`` applies the filters of system calls, address families and
executable memory, sets the umask, and executes the command. Folders, devices and /proc are not restricted.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

UNIT = Path(__file__).parents[2] / "docs" / "deploy" / "rlpanel.service"
_SWITCHES = {"NoNewPrivileges": 38, "MemoryDenyWriteExecute": 65}  # constants of prctl
_ALLOW, _FAIL, _EQUAL = 0x7FFF0000, 0x00050000, 4  # constants of libseccomp


class Directives(dict[str, list[str]]):
    """The directives of the unit's section ``[Service]``; lists, because a name may occur twice."""

    def __init__(self, unit: Path = UNIT) -> None:
        section = unit.read_text("utf-8").partition("[Service]")[2].partition("\n[")[0]
        for name, value in re.findall(r"^(\w+)=(.*)$", section, re.MULTILINE):
            self.setdefault(name, []).append(value)


class _Comparison(ctypes.Structure):
    _fields_ = (
        ("argument", ctypes.c_uint),
        ("operator", ctypes.c_int),
        ("value", ctypes.c_uint64),
        ("other", ctypes.c_uint64),
    )


def allowed_calls(filters: list[str]) -> set[str]:
    """Return the system calls that a list of ``SystemCallFilter=`` allows."""
    found = subprocess.run(
        ["systemd-analyze", "--no-pager", "syscall-filter"], capture_output=True, text=True, check=True
    )
    sets: dict[str, list[str]] = {}
    for line in found.stdout.splitlines():
        if line.startswith("@"):
            members = sets.setdefault(line.strip(), [])
        elif line.startswith(" ") and not line.strip().startswith("#"):
            members.append(line.strip())

    def expand(name: str) -> set[str]:
        return set[str]().union(*map(expand, sets[name])) if name.startswith("@") else {name}

    allowed: set[str] = set()
    for text in filters:
        names = set[str]().union(*map(expand, text.lstrip("~").split()))
        allowed = allowed - names if text.startswith("~") else allowed | names
    return allowed


def confine(said: Directives) -> None:
    """Forbid this process and its children what the directives forbid."""
    libc, seccomp = ctypes.CDLL(None, use_errno=True), ctypes.CDLL("libseccomp.so.2")
    seccomp.seccomp_init.restype = ctypes.c_void_p
    calls = allowed_calls(said["SystemCallFilter"])
    fail = _FAIL | getattr(errno, said["SystemCallErrorNumber"][0])
    os.umask(int(said["UMask"][0], 8))
    for name, option in _SWITCHES.items():
        if said[name] == ["yes"]:
            _check(libc.prctl(option, 1, 0, 0, 0))
    rules = ctypes.c_void_p(seccomp.seccomp_init(fail))
    for name in calls - {"socket"}:
        number = seccomp.seccomp_syscall_resolve_name(name.encode())
        if number >= 0:  # negative numbers: calls of other architectures
            _check(seccomp.seccomp_rule_add_array(rules, _ALLOW, number, 0, None))
    number = seccomp.seccomp_syscall_resolve_name(b"socket")
    for family in said["RestrictAddressFamilies"][0].split():
        equal = _Comparison(0, _EQUAL, getattr(socket, family), 0)
        _check(seccomp.seccomp_rule_add_array(rules, _ALLOW, number, 1, ctypes.byref(equal)))
    _check(seccomp.seccomp_load(rules))


def _check(result: int) -> None:
    if result:
        raise OSError(ctypes.get_errno() or -result, "a directive could not be applied")


if __name__ == "__main__":
    confine(Directives())
    os.execvp(sys.argv[1], sys.argv[1:])
