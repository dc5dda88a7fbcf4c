"""Clusters of nearly equal responses over a range of steps: a plot of sizes, and rows that lead to them."""

from __future__ import annotations

from typing import Any

import numpy as np
import panel as pn
import param
from panel.viewable import Viewer

from rlpanel.analysis.response_clusters import Clustering, ResponseCluster, response_clusters
from rlpanel.analysis.step_change import samples_filter
from rlpanel.errors import SettingError
from rlpanel.number_text import number
from rlpanel.panels.explain.contrast_sides import parse_range
from rlpanel.panels.explain.link_rows import (
    LABEL_CHARS,
    LinkRows,
    RowsPlot,
    caption,
    link_row,
    note_pane,
    show_samples,
)
from rlpanel.panels.export.card_export import well_formed
from rlpanel.panels.inputs.input_fields import button, text_field
from rlpanel.panels.language.labels import tr
from rlpanel.panels.plots.plot_elements import cluster_bars
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.ui.theme import note_html
from rlpanel.store.snapshot.snapshot import Snapshot
from rlpanel.texts.shorten import marked_line

#: Maximum number of listed clusters.
MAX_ROWS = 40


class ClusterView(Viewer):
    """Choice of the steps, progress, plot and rows."""

    active = param.Boolean(default=False, doc="Whether the view is visible; nothing is read before.")

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(**params)
        self.context = context
        self._found: Clustering | None = None
        self._snapshot: Snapshot = context.snapshot
        self._key: tuple[object, ...] = ()
        self._work: BackgroundTask[Clustering] = BackgroundTask(self._show, context.threads.views)
        self._first, self._last = (_step_field(name) for name in ("first", "last"))
        self._stop = button(tr("Stop"), self._on_stop, visible=False, css_classes=["rl-cluster-stop"])
        self._note = note_pane("rl-cluster-note")
        self._rows = LinkRows(self._pick, "rl-cluster-rows")
        self._plot = RowsPlot(self._rows, "rl-cluster-plot", self._element)
        self._column = pn.Column(
            pn.FlexBox(
                caption(tr("Steps")), self._first, caption(tr("to")), self._last, self._stop,
                margin=(6, 10, 0, 10), gap="4px",
            ),
            self._note,
            self._plot,
            self._rows,
            sizing_mode="stretch_width",
            margin=0,
        )  # fmt: skip
        for field in (self._first, self._last):
            field.param.watch(self._draw, "value")
        context.param.watch(self._draw, "index")
        context.selection.param.watch(self._draw, "split")
        context.selection.param.watch(self._plot.update, "dark")
        self.param.watch(self._draw, "active")

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    def _draw(self, *_: Any) -> None:
        """Find the clusters, unless they are shown already; a run that grows is not read again by itself."""
        context, snapshot = self.context, self.context.snapshot
        if not self.active:
            if self._stop.visible:  # an unfinished search starts again when the view is opened
                self._work.stop()
                self._key = ()
            return
        steps = snapshot.steps.values
        if context.index is None or not len(steps):
            self._say(tr("This run has no samples yet."))
            return
        try:
            first, last = _bounds(self._first.value or "", self._last.value or "", steps)
        except SettingError as error:
            self._say(f"{error}.")
            return
        counted = snapshot.split, snapshot.version, snapshot.counts_rows
        key = (context.index, *counted, self._first.value, self._last.value)
        if key == self._key:
            return
        self._key, self._snapshot = key, snapshot
        self._work.start(response_clusters(context.index, snapshot, first, last))

    def _on_stop(self, *_: Any) -> None:
        self._work.stop()
        self._key = ()
        self._stop.visible = False
        self._say(tr("Stopped. Change the steps to start again."))

    def _say(self, text: str) -> None:
        self._note.html = note_html(text)

    def _show(self, found: Clustering) -> None:
        self._stop.visible = not found.complete
        if not found.complete:
            self._say(
                tr("Reading {read:,} of {total:,} different responses …", read=found.read, total=found.total)
            )
            return
        self._found = found
        self._say(_summary(found))
        self._plot.update()
        rows = [_row(str(at), cluster, found) for at, cluster in enumerate(found.clusters[:MAX_ROWS])]
        titles = ["", tr("samples"), "response", tr("steps"), tr("prompts"), "reward"]
        self._rows.param.update(titles=titles if rows else [], rows=rows, chosen="")

    def _element(self) -> Any:
        clusters = self._found.clusters if self._found is not None else ()
        labels = [
            well_formed(marked_line(cluster.example or tr("(empty)"), LABEL_CHARS)) for cluster in clusters
        ]
        sizes = np.array([cluster.size for cluster in clusters])
        return cluster_bars(labels, sizes, self.context.selection.dark) if clusters else None

    def _pick(self, key: str) -> None:
        if self._found is None or not key.isdecimal() or int(key) >= len(self._found.clusters):
            return
        cluster = self._found.clusters[int(key)]
        where = samples_filter(self._snapshot, cluster.rows)
        show_samples(self.context, where, [cluster.uid])


def _summary(found: Clustering) -> str:
    if not found.all_samples:
        return tr("These steps have no responses.")
    inside = sum(cluster.size for cluster in found.clusters)
    share = inside / max(found.samples, 1)
    text = tr(
        "{inside:,} of {samples:,} samples ({share:.0%}) have a response that others nearly repeat",
        inside=inside,
        samples=found.samples,
        share=share,
    )
    if found.samples < found.all_samples:
        text += tr(
            "; {all_samples:,} samples have a response, only a part of them was read",
            all_samples=found.all_samples,
        )
    return f"{text}."


def _row(key: str, cluster: ResponseCluster, found: Clustering) -> dict[str, Any]:
    steps = f"{cluster.first:,}–{cluster.last:,}" if cluster.first != cluster.last else f"{cluster.first:,}"
    return link_row(
        key,
        cluster.example or tr("(empty)"),
        f"{cluster.size:,}",
        cluster.size / max(found.clusters[0].size, 1),
        [steps, f"{cluster.prompts:,}", number(cluster.reward)],
        tip=tr("{texts:,} different texts. Click to see the samples.", texts=cluster.texts),
    )


def _bounds(first: str, last: str, steps: np.ndarray) -> tuple[int, int]:
    """Return the first and last step; an empty field means that of the run."""
    low = parse_range(first)[0] if first.strip() else int(steps[0])
    return low, parse_range(last)[1] if last.strip() else int(steps[-1])


def _step_field(name: str) -> pn.widgets.TextInput:
    return text_field(f"cluster-{name}", f"Clusters: {name}", name, width=76)
