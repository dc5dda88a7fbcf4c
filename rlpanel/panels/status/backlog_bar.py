"""Progress bar of the backlog, with a button that pauses reading; hidden when everything is read."""

from __future__ import annotations

from typing import Any

from rlpanel.panels.language.labels import tr
from rlpanel.panels.session.context import Context
from rlpanel.panels.status.notice import Notice
from rlpanel.store.snapshot.snapshot import Progress, describe

#: From this fraction on the bar is hidden, so that it does not flicker for short backlogs.
NEARLY = 0.99


class BacklogBar(Notice):
    """Progress bar above the curves, shown while older lines of the run are not read yet."""

    def __init__(self, context: Context) -> None:
        super().__init__(buttons={"halt": tr("pause")}, css_classes=["rl-backlog"])
        self.context = context
        context.param.watch(self._draw, "view")
        self._draw()

    def _draw(self, *_: Any) -> None:
        progress = self.context.snapshot.progress
        if progress.fraction < NEARLY and (progress.halted or not progress.caught_up):
            note = tr("older steps are not read") if progress.halted else tr("newest steps first")
            label = tr("resume") if progress.halted else tr("pause")
            self.param.update(html=bar_html(progress, note), buttons={"halt": label}, visible=True)
        elif self.visible:
            self.visible = False

    def receive(self, message: Any) -> None:
        """Pause or resume reading the backlog, for all sessions that show the run."""
        if message == "halt" and self.context.index is not None:
            self.context.index.pause(not self.context.snapshot.progress.halted)


def bar_html(progress: Progress, note: str = "") -> str:
    """Return the progress bar as HTML, with bytes, throughput and remaining time."""
    share = min(progress.fraction, 1.0)
    text = describe(progress.bytes_read, progress.bytes_total, 0.0 if progress.halted else progress.rate)
    verb = tr("Paused at") if progress.halted else tr("Reading")
    return (
        f'<div class="row"><span class="num">{verb} {text}</span>'
        f'<span class="bar" role="progressbar" '
        f'aria-valuenow="{100 * share:.0f}"><i style="width:{share:.1%}"></i></span>'
        f"<span>{note}</span></div>"
    )
