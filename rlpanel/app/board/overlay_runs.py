"""What a session looks at beside what it selects: other runs, which are kept open, and splits of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rlpanel.app.session_hub import hub
from rlpanel.errors import RLPanelError
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.overlay_run import MOST_OTHERS, SPLIT, OverlayRun, split_label
from rlpanel.sources.files.files import AnyPath
from rlpanel.store.index.run_index import RunIndex


class OverlayRuns:
    """Opens what the selection names, lets go of what it names no more.

    Parameters
    ----------
    context : Context
    path_of : callable
        The folder of a run's name; RLPanelError where there is none, None while there is no root.
    say : callable
        Takes what went wrong, in words.
    """

    def __init__(
        self, context: Context, path_of: Callable[[str], AnyPath | None], say: Callable[[str], None]
    ) -> None:
        self._context, self._path_of, self._say = context, path_of, say
        self._open: dict[str, RunIndex] = {}
        self._slots: dict[str, int] = {}
        self._missed: set[str] = set()  # what was said to be missing; it is asked for again, but not said
        context.selection.param.watch(self._choose, ["run", "split", "over", "beside", "against"])
        context.param.watch(self._choose, "runs")

    def looks_at(self, index: RunIndex) -> bool:
        """Whether a run is one of those that are kept open; any thread may ask."""
        return index in list(self._open.values())

    def changed(self, changed: Iterable[RunIndex | None]) -> None:
        """Some runs grew."""
        looked_at = set(self._open.values())
        if self._context.selection.beside:
            looked_at |= {index for index in (self._context.index,) if index is not None}
        if not looked_at.isdisjoint(changed):
            self.show()

    def close(self) -> None:
        """Let go of all."""
        for index in self._open.values():
            hub().reader.close(index)
        self._open = {}

    def _choose(self, *_: Any) -> None:
        selection = self._context.selection
        over = [name for name in selection.over if name != selection.run][:MOST_OTHERS]
        wanted = dict.fromkeys([*over, *([selection.against] if selection.against else [])])
        for name in set(self._open) - set(wanted):
            hub().reader.close(self._open.pop(name))
        problems = {name: self._begin(name) for name in wanted if name not in self._open}
        missing = {name for name, problem in problems.items() if problem}
        news = [problems[name] for name in problems if name in missing - self._missed]
        self._missed = missing
        keys = [*(SPLIT + name for name in selection.beside), *over][:MOST_OTHERS]
        self._slots = {name: slot for name, slot in self._slots.items() if name in keys}
        for name in keys:
            free = (slot for slot in range(MOST_OTHERS) if slot not in self._slots.values())
            self._slots.setdefault(name, next(free, 0))
        self.show()
        if news:
            self._say("; ".join(news))

    def _begin(self, name: str) -> str:
        """Open a run; what went wrong, or nothing."""
        try:
            path = self._path_of(name)
        except RLPanelError as error:
            return str(error)
        if path is not None:
            self._open[name] = hub().reader.open(path, name)
        return ""

    def show(self) -> None:
        """Tell the views what there is now."""
        context = self._context
        found = {name: self._other(name, index) for name, index in self._open.items()}
        found |= self._splits()
        context.param.update(
            others=[found[name] for name in self._slots if name in found],
            against=found.get(context.selection.against),
        )

    def _other(self, name: str, index: RunIndex) -> OverlayRun:
        """Another run, in the split that is shown where it has that."""
        view = index.view.in_split(self._context.snapshot.split)
        label = next((info.label for info in self._context.runs if info.name == name), name)
        return OverlayRun(name, split_label(label, view.snapshot), self._slots.get(name, 0), index, view)

    def _splits(self) -> dict[str, OverlayRun]:
        """The splits of the run itself that lie over the shown one."""
        context, index, found = self._context, self._context.index, {}
        for key in self._slots:
            split = key.removeprefix(SPLIT)
            if index is None or split == key or split == context.snapshot.split:
                continue
            if split in index.snapshot.splits:
                view = index.view.in_split(split)
                found[key] = OverlayRun(key, split, self._slots[key], index, view)
        return found
