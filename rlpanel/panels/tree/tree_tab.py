"""Tab of the sample: the rows of its episode as an indented tree; a click opens one in the conversation."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar

import panel as pn
import param
from panel.viewable import Viewer

from rlpanel.analysis.episode_tree import EpisodeTree, RolloutNode, read_episode
from rlpanel.analysis.replay_clock import replay_clock
from rlpanel.analysis.rollout_tree import BRANCH, COMPACTION, KINDS, RETRY, ROOT, SUB_AGENT, TURN
from rlpanel.number_text import number
from rlpanel.panel_fixes.component import Component
from rlpanel.panels.language.labels import marked, said, tr, trn
from rlpanel.panels.replay.replay_score import replay_score
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.ui import theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.texts.display_text import escape_invisible

#: Label of each kind of row.
KIND_LABELS = {
    ROOT: marked("root"),
    SUB_AGENT: marked("sub-agent"),
    BRANCH: marked("branch"),
    COMPACTION: marked("compaction"),
    RETRY: marked("retry"),
    TURN: marked("turn"),
}


#: Label of each known type of a message between agents; verifiers' types are those of its semantic links.
LINK_LABELS = {
    "asked": marked("asked"),
    "answered": marked("answered"),
    "subagent_call": marked("called"),
    "subagent_return": marked("returned"),
    "subagent_cancel": marked("cancelled"),
    "agent_message": marked("message"),
    "compaction": marked("compaction"),
}


class TreeView(Component):
    """The nodes drawn by ``tree_view.js``; a click on one calls ``pick`` with its uid and turn."""

    nodes = param.List(default=[], doc="Nodes as made by `node_row`, each behind its parent.")
    head = param.Dict(default={}, doc="Summary, remarks and labels of the kinds.")
    score = param.Dict(
        default={}, doc="When rows begin and end; see `tree_score`. Empty while nothing is read."
    )
    chosen = param.String(default="", doc="Uid of the sample on screen.")

    _esm = read_assets(
        "panels/ui/dom.js",
        "panels/replay/playhead.js",
        "panels/replay/transport.js",
        "panels/tree/tree_view.js",
    )
    _stylesheets: ClassVar[list[str]] = [
        theme.CSS,
        read_assets("panels/tree/tree_view.css", "panels/replay/replay.css"),
    ]

    def __init__(self, pick: Callable[[str, int], None]) -> None:
        super().__init__(sizing_mode="stretch_both", margin=(4, 8), css_classes=["rl-tree"])
        self._pick = pick

    def receive(self, message: Any) -> None:
        """Open the node that was clicked."""
        node = next((each for each in self.nodes if each["uid"] == message), None)
        if node is not None:  # another sample may have been chosen since
            self._pick(node["uid"], node["turn"] or 0)


class TreeTab(Viewer):
    """The tree of the shown sample's episode, read on a thread while the tab is open.

    Parameters
    ----------
    context : Context
    """

    active = param.Boolean(default=False, doc="Whether the tab is open; nothing is read before.")

    def __init__(self, context: Context, **params: Any) -> None:
        super().__init__(**params)
        self.context = context
        self._key: tuple[object, ...] = ()
        self._work: BackgroundTask[EpisodeTree] = BackgroundTask(self._show, context.threads.queries)
        self._view = TreeView(self._pick)
        self._column = pn.Column(self._view, sizing_mode="stretch_both", margin=0)
        context.param.watch(self._draw, ["sample", "view"])
        self.param.watch(self._draw, "active")
        self._draw()

    def __panel__(self) -> pn.viewable.Viewable:
        return self._column

    def _draw(self, *_: Any) -> None:
        context, sample = self.context, self.context.sample
        if not self.active:
            self._work.stop()
            return
        if sample is None or context.index is None:
            self._key = ()
            self._view.param.update(nodes=[], head={}, score={}, chosen="")
            return
        if sample.uid in {each["uid"] for each in self._view.nodes}:
            self._view.chosen = sample.uid
        # The rows of an episode are written together: a new version of the step may have more of them.
        steps = context.snapshot.steps
        at = steps.values.searchsorted(sample.step)
        count = int(steps.samples[at]) if at < len(steps.samples) else 0
        key = (context.index, sample.uid, count)
        if key == self._key:
            return
        if self._key[:1] == key[:1] and self._key[2:] == key[2:] and self._view.chosen == sample.uid:
            self._key = key  # another row of the same tree
            return
        self._key = key
        self._work.start(read_episode(context.index, context.view, sample.uid))

    def _show(self, found: EpisodeTree) -> None:
        sample = self.context.sample
        if not found.nodes and found.read < found.total:
            if found.read:
                text = tr("Reading {read:,} of {total:,} rows …", read=found.read, total=found.total)
                self._view.param.update(nodes=[], head={"summary": text, "remarks": [], "kinds": {}})
            return
        self._view.param.update(
            nodes=[node_row(each) for each in found.nodes],
            head={
                "summary": summary(found.nodes),
                "remarks": [escape_invisible(said(each)) for each in found.remarks],
                "kinds": {kind: tr(label) for kind, label in KIND_LABELS.items()},
            },
            score=tree_score(found),
            chosen=sample.uid if sample is not None else "",
        )

    def _pick(self, uid: str, turn: int) -> None:
        self.context.choose_sample(uid)
        self.context.selection.param.update(tab="conversation", turn=turn or None)


def node_row(node: RolloutNode) -> dict[str, Any]:
    """Return a node as plain texts and numbers."""
    words = []
    for link in node.messages:
        known = LINK_LABELS.get(link.type)
        label = tr(known) if known else link.type.replace("_", " ")
        turn = "" if link.turn is None else tr("{type} in turn {turn}", type=label, turn=link.turn)
        words.append(turn or label)
    return {
        "uid": node.uid,
        "parent": node.parent,
        "kind": node.kind,
        "name": escape_invisible(node.name),
        "agent": escape_invisible(node.agent if node.agent != node.name else ""),
        "text": escape_invisible(node.text),
        "turn": node.first_turn,
        "turns": node.turns,
        "shared": node.shared,
        "tokens": node.tokens,
        "trained": node.trained_tokens,
        "reward": "" if node.reward is None else number(node.reward),
        "advantage": "" if node.advantage is None else number(node.advantage, sign=True),
        "seconds": "" if node.seconds is None else f"{node.seconds:,.1f}",
        "start": node.start,
        "took": node.seconds,
        "asked": next((link.turn for link in node.messages if link.uid == node.parent and link.turn), None),
        "status": escape_invisible(node.status if node.status not in ("", "ok") else ""),
        "reason": escape_invisible(node.status_reason),
        "links": [escape_invisible(each) for each in words],
        "inferred": not node.logged and node.kind != ROOT,
    }


def tree_score(found: EpisodeTree) -> dict[str, Any]:
    """Return the score of an episode: `replay_score` of the moments at which its rows begin and end.

    Rows without a start have no moment; without any two moments the score is empty, and the tree follows the
    replay of one row's turns.
    """
    times = [(node.start, node.start + max(node.seconds or 0.0, 0.0)) for node in found.nodes if node.start]
    moments = sorted({moment for pair in times for moment in pair})
    clock = replay_clock(moments)
    if not clock.is_timed:
        return {}
    notes = []
    untimed = len(found.nodes) - len(times)
    if untimed:
        said = trn(
            "{count:,} row has no start in the log; it is always shown.",
            "{count:,} rows have no start in the log; they are always shown.",
            untimed,
        )
        notes.append(said)
    most = _most_at_once(times)
    if most > 1:
        notes.append(tr("Up to {most:,} rows run at the same time; each is marked while it runs.", most=most))
    return replay_score("", found.episode, clock, tr("Played by the logged times of the rows."), notes)


def _most_at_once(times: list[tuple[float, float]]) -> int:
    """Return how many rows run at the same time at most; a row that ends makes room for one that begins."""
    changes = sorted([*((begin, 1) for begin, _ in times), *((end, -1) for _, end in times)])
    return max(itertools.accumulate(change for _, change in changes), default=0)


def summary(nodes: list[RolloutNode]) -> str:
    """Return the number of rows by kind, and their tokens, trained tokens and cost as far as known."""
    kinds = Counter(node.kind for node in nodes)
    counts = ", ".join(f"{tr(KIND_LABELS[kind])} {kinds[kind]:,}" for kind in KINDS if kinds[kind])
    if len(nodes) == 1:
        rows = tr("1 row: the rollout has neither sub-agents nor branches")
    else:
        rows = tr("{rows:,} rows", rows=len(nodes)) + f" ({counts})"
    parts = [rows]
    tokens = [node.tokens for node in nodes if node.tokens is not None]
    trained = [node.trained_tokens for node in nodes if node.trained_tokens is not None]
    if tokens:
        parts.append(tr("{tokens:,} tokens", tokens=sum(tokens)))
    if trained and tokens:
        parts.append(tr("{tokens:,} trained", tokens=sum(trained)))
    costs = [node.cost for node in nodes if node.cost is not None]
    if costs:
        parts.append(f"${sum(costs):,.4g}")
    return " · ".join(parts)
