"""Programs for child processes that use up a limit of the system while they read a run.

``python -m tests.integration.security.limits_child instances FOLDER`` fails, or prints what the reader logged
as JSON. Limits of inotify apply to a user, and other tests run at the same time. The child therefore lowers
them in its own user namespace. If that is impossible and it is root, it changes to a separate user.
"""

from __future__ import annotations

import ctypes
import json
import logging
import os
import resource
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlpanel.store.index.reader import Reader
    from rlpanel.store.index.run_index import RunIndex

#: Exit code of a child that cannot limit itself in any way.
NO_NAMESPACE = 77
_NEW_USER_NAMESPACE = 0x10000000
_SYSCTL = Path("/proc/sys/user")
_OTHER_USER = 61_000 + os.getpid() % 1000
_libc = ctypes.CDLL(None, use_errno=True)
RANK0 = "rollout_data_rank_0.jsonl"


def enter_namespace() -> bool:
    """Become root of a user namespace; must run before libraries that start threads."""
    user, group = os.getuid(), os.getgid()
    if _libc.unshare(_NEW_USER_NAMESPACE) != 0:
        return False
    try:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
        limit("instances", 100)
    except OSError:  # AppArmor may allow the namespace but grant no rights in it
        return False
    return True


def limit(what: str, number: int) -> None:
    """Set the maximum number of inotify instances or watches of this namespace."""
    (_SYSCTL / f"max_inotify_{what}").write_text(str(number))


class Trial:
    """A separate reader with its log. By default, it learns of changes only by events or polling."""

    def __init__(self, folder: Path, rescan: float = 600.0) -> None:
        from rlpanel.settings import Reading
        from rlpanel.store.index import folder_watches
        from rlpanel.store.index.reader import Reader

        folder_watches.RETRY = 0.2
        self.file = folder / RANK0
        self.lines: list[str] = []
        handler = logging.Handler()
        handler.emit = lambda record: self.lines.append(record.getMessage())  # type: ignore[method-assign]
        logging.getLogger("rlpanel").addHandler(handler)
        self.reader: Reader = Reader(Reading(rescan_interval=rescan, poll_interval=0.02, cache=False))
        self.run: RunIndex = self.reader.open(folder)
        self.folder = folder

    def sees(self, samples: int) -> None:
        """Wait until this number of samples is read."""
        self.until(lambda: self.run.snapshot.samples == samples)

    def until(self, condition: Callable[[], object]) -> None:
        """Wait for a condition."""
        from tests.waiting import wait_until

        try:
            wait_until(condition, 30)
        except AssertionError as error:
            raise AssertionError(
                f"{error}; {self.run.snapshot}, {self.reader.failure}, {self.lines}"
            ) from None

    @property
    def events(self) -> bool:
        """Return whether file events are used."""
        return self.reader._watches.events

    def append(self, number: int) -> None:
        """Add a line to the first file."""
        from tests.factories import append, line

        append(self.file, line(number))


def instances(folder: Path) -> Trial:
    """All inotify instances are used up when the run is opened, and free later."""
    with ExitStack() as held:
        while (descriptor := _libc.inotify_init1(0)) >= 0:
            held.callback(os.close, descriptor)
        trial = Trial(folder)
        trial.sees(4)
        assert not trial.events
        trial.append(5)
        trial.sees(5)
    trial.until(lambda: trial.events)
    trial.append(6)
    trial.sees(6)
    with ExitStack() as held:  # take all that are left; this reader has its own
        while (descriptor := _libc.inotify_init1(0)) >= 0:
            held.callback(os.close, descriptor)
        (folder / "new").mkdir()
        trial.append(7)
        trial.sees(7)
        assert trial.events
    return trial


def folder_watches(folder: Path) -> Trial:
    """New folders use up the inotify watches while the run is followed."""
    from tests.factories import append, line

    limit("watches", 3)
    trial = Trial(folder)
    trial.sees(4)
    assert trial.events
    steps = [folder / str(number) for number in range(5)]
    for step in steps:
        step.mkdir()
        append(step / RANK0, line(9))
    late = trial.reader.open(steps[-1])  # the watch of the parent folder covers it
    trial.until(lambda: late.snapshot.samples == 1)
    append(steps[-1] / RANK0, line(10))
    trial.until(lambda: late.snapshot.samples == 2)
    assert not trial.events
    limit("watches", 100)
    trial.until(lambda: trial.events)
    append(steps[-1] / RANK0, line(11))
    trial.until(lambda: late.snapshot.samples == 3)
    return trial


def files(folder: Path) -> Trial:
    """For a while, this process cannot open any further file."""
    trial = Trial(folder, rescan=0.1)
    root = trial.reader.watch_root(folder.parent)
    trial.sees(4)
    trial.until(lambda: root.runs)
    descriptor = os.open(trial.file, os.O_WRONLY | os.O_APPEND)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    with ExitStack() as held:
        held.callback(os.close, descriptor)
        without_any = 0
        while (
            without_any < 3
        ):  # the reader may hold a file that it closes later: all are taken, again and again
            taken, rounds = 0, trial.reader.rounds
            with suppress(OSError):
                while True:
                    held.callback(os.close, os.open(os.devnull, os.O_RDONLY))
                    taken += 1
            without_any = 0 if taken else without_any + 1
            trial.until(lambda: trial.reader.rounds > rounds + 1)  # noqa: B023
        rounds = trial.reader.rounds
        os.write(descriptor, json.dumps({"step": 5, "prompt": "p", "response": "r"}).encode() + b"\n")
        trial.until(lambda: trial.reader.rounds > rounds + 5)
        assert (trial.run.snapshot.samples, len(root.runs or [])) == (4, 1)
    trial.sees(5)
    assert trial.reader.failure == ""
    return trial


def main(what: str, folder: Path) -> None:
    """Limit this process, then run one of the programs."""
    if what != "files":
        inside = enter_namespace()
        import rlpanel.store.index.reader  # noqa: F401  # another user may not be able to import it

        if not inside and (what == "watches" or os.getuid() != 0):
            sys.exit(NO_NAMESPACE)
        if inside:
            limit("instances", 4)
        else:
            os.setresuid(_OTHER_USER, _OTHER_USER, _OTHER_USER)
    trial = {"instances": instances, "watches": folder_watches, "files": files}[what](folder)
    trial.reader.stop()
    print(json.dumps(trial.lines))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
