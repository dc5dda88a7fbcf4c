"""Conversation view: outline, messages and tokens; it follows theme, metric and scale of the session."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Executor
from typing import Any, ClassVar

import panel as pn
import param

from rlpanel.board_url import SCALES
from rlpanel.errors import FilterError
from rlpanel.panel_fixes.component import Component
from rlpanel.panels.conversation.blocks import MessageBlock
from rlpanel.panels.conversation.conversation_payload import PackedConversation, pack_conversation, part_text
from rlpanel.panels.conversation.hits import Hit, hits_of
from rlpanel.panels.conversation.safe_markdown import markdown_html
from rlpanel.panels.language.labels import current_language, tr
from rlpanel.panels.session.context import Selection
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.panels.tokens.metric_rows import KL_ESTIMATORS
from rlpanel.panels.tokens.token_view import TokenView, metric_declarations, token_theme
from rlpanel.panels.ui.assets import read_assets
from rlpanel.schema import Sample
from rlpanel.sources.records.embedded_media import Image, Medium
from rlpanel.store.query.query import parse_search
from rlpanel.store.query.sample_media import where_it_is
from rlpanel.store.query.text_predicate import TextPredicate
from rlpanel.store.snapshot.snapshot_cache import cached_on
from rlpanel.texts.display_text import escape_invisible

# -- conversation view ---------------------------------------------------------------------------------
# Conversation view: an outline of turns, messages with calls and results, and the tokens of each turn.
#
# A JSComponent draws it with the scripts in this folder. The server sends the beginnings of all texts at
# once; the browser asks for the rest, for the HTML of Markdown, for images and for players when they come
# into view.


#: How texts are shown: Markdown as HTML, the text as logged, or its tokens coloured by a metric.
MODES = ("text", "raw", "tokens")
#: Most characters of a part that the browser can ask for.
MAX_CHARACTERS = 5_000_000

# Joined into one JavaScript module, in this order; the last file exports ``render``.
_SCRIPTS = (
    "panels/ui/dom.js",
    "panels/tokens/formulas.js",
    "panels/tokens/payload.js",
    "panels/tokens/color_scale.js",
    "panels/tokens/running_text.js",
    "panels/tokens/tooltip.js",
    "panels/tokens/toolbar.js",
    "panels/replay/playhead.js",
    "panels/replay/transport.js",
    "panels/conversation/turn_tokens.js",
    "panels/conversation/media_player.js",
    "panels/conversation/message_images.js",
    "panels/conversation/hit_marks.js",
    "panels/conversation/message_block.js",
    "panels/conversation/turn_stops.js",
    "panels/conversation/turn_map.js",
    "panels/conversation/turn_outline.js",
    "panels/conversation/conversation_view.js",
)


def unplayed(medium: Medium) -> str:
    """Return why a medium is not played outside of a server of ours, and where to find it."""
    served = tr("The player needs a board that rlpanel serve has started.")
    return tr(
        "The {medium} is not played here. {served} {where_it_is}",
        medium=medium["kind"],
        served=served,
        where_it_is=where_it_is(medium),
    )


class ConversationComponent(Component):
    """JavaScript component that draws one packed conversation. Use it through `ConversationView`."""

    data = param.Dict(default={}, doc="The conversation as `sent_conversation` returns it.")
    mode = param.Selector(default="text", objects=list(MODES), doc="How texts are shown.")
    metric = param.String(default="log_ratio", doc="Requested metric; it may be missing in the sample.")
    token = param.Integer(default=-1, doc="Index of the pinned token; -1 for none.")
    dark = param.Boolean(default=True, doc="Dark or light colours.")
    metrics = param.Dict(default={}, doc="Declarations of all token metrics, logged or not.")
    traces = param.List(default=[], doc="Uid and name of each trace of the sample's episode.")
    scale = param.Selector(default="run", objects=list(SCALES), doc="What the colour scale is taken from.")
    scales = param.Dict(default={}, doc="Ends of the scales as `sample_scales` returns them.")
    turn = param.Integer(default=0, doc="Turn to show, from 1; 0 for the beginning, or the first hit.")
    find = param.String(default="", doc="What the reader looks for in this conversation.")
    weights = param.Dict(default={}, doc="Shares of the turns in the gradient, as of `ConversationView`.")
    others = param.Integer(default=0, doc="Number of other rollouts of the group.")
    paired = param.Boolean(
        default=False, doc="Whether it stands beside another conversation, which has the keys."
    )
    parting = param.Dict(
        default={},
        doc="`uid`, position of the first `message` that differs from the other rollout's, `words` for how, "
        "and `jump`, a number that changes when the view shall scroll there.",
    )
    hits = param.Dict(default={}, doc="Uid of the conversation, its `hits`, and `words`: why there are none.")

    _esm = read_assets(*_SCRIPTS)
    _stylesheets: ClassVar[list[str]] = [
        token_theme(),
        read_assets(
            "panels/tokens/token_view.css",
            "panels/conversation/conversation_view.css",
            "panels/replay/replay.css",
        ),
    ]


class ConversationView(pn.viewable.Viewer):
    """Conversation of one sample.

    Parameters
    ----------
    pool : Executor
        Threads that format Markdown.
    **params

    Notes
    -----
    ``opened`` counts the clicks on the link from a turn to the token view.
    """

    sample = param.ClassSelector(class_=Sample, allow_None=True, doc="Sample to show, or None.")
    mode = param.Selector(default="text", objects=list(MODES), doc="How texts are shown.")
    metric = param.String(default="log_ratio", doc="Token metric that colours the text.")
    token = param.Integer(default=-1, allow_None=False, doc="Index of the pinned token; -1 for none.")
    dark = param.Boolean(default=True, doc="Dark or light colours.")
    pad_token = param.String(default="", doc="Tokens equal to it are drawn in grey; empty for none.")
    kl_estimator = param.Selector(
        default="kl_k3", objects=list(KL_ESTIMATORS), doc="Estimator among the metrics."
    )
    scale = param.Selector(default="run", objects=list(SCALES), doc="What the colour scale is taken from.")
    scales = param.Dict(default={}, doc="Ends of the scales as `sample_scales` returns them.")
    tests = param.ClassSelector(
        class_=tuple, default=(), doc="Conditions on texts (`TextPredicate`) whose places are marked."
    )
    find = param.String(default="", doc="What the reader looks for instead, written as in the search box.")
    turn = param.Integer(
        default=None, allow_None=True, doc="Turn in sight, from 1; None for what stands before the first."
    )
    chosen = param.Boolean(
        default=False, doc="Whether the reader went to that turn, and did not just scroll."
    )
    weights = param.Dict(
        default={},
        doc="``uid``, and ``shares``: of each turn, share and push in the gradient; or ``why`` not.",
    )
    traces = param.List(default=[], doc="Uid and name of each trace of the sample's episode.")
    trace = param.String(default="", doc="Uid of the trace that was clicked.")
    others = param.Integer(default=0, doc="Number of other rollouts of the group.")
    paired = param.Boolean(default=False, doc="Whether it stands beside another conversation.")
    parting = param.Dict(default={}, doc="Where another rollout parts, as of `ConversationComponent`.")
    pairs = param.Integer(default=0, doc="Counter of the requests for another rollout beside it.")
    drawn = param.String(default="", doc="Uid of the sample that the browser has painted.")
    opened = param.Integer(default=0, doc="Counter of the requests to show a turn in the token view.")

    #: Called with the sample, one of its images, whether it is wanted in full size, and a function that takes
    #: its data URL, or the reason why there is none. Without it no image is shown.
    find_image: Callable[[Sample, Image, bool, Callable[[str], None]], None] | None = None
    #: Called with the sample, its audio or video, a key for that within the sample, and a function that takes
    #: ``address`` or ``reason``. Without it nothing is played, and the view says so.
    find_medium: Callable[[Sample, Medium, Hashable, Callable[[dict[str, str]], None]], None] | None = None

    def __init__(self, pool: Executor, **params: Any) -> None:
        super().__init__(**params)
        self._packed = self._pack()
        #: Parts whose Markdown the browser waits for: block and part → conversation and number of characters.
        self._wanted: dict[tuple[int, str], tuple[PackedConversation, int]] = {}
        self._formatting: BackgroundTask[dict[str, Any] | None] = BackgroundTask(self._on_formatted, pool)
        self._formats = False
        self._component = ConversationComponent(
            data=sent_conversation(self._packed.payload),
            mode=self.mode,
            metric=self.metric,
            token=self.token,
            dark=self.dark,
            metrics=metric_declarations(),
            scale=self.scale,
            scales=self.scales,
            turn=self.turn or 0,
            hits=self._hits(),
            paired=self.paired,
            sizing_mode="stretch_both",
        )
        self._component.link(
            self, bidirectional=True, metric="metric", token="token", mode="mode", find="find", scale="scale"
        )
        self._component.on_message(self._on_message)
        for name in ("traces", "weights", "others", "parting"):
            self.param.watch(lambda event: setattr(self._component, event.name, event.new), name)
        self.param.watch(
            self._update_component,
            ["sample", "pad_token", "kl_estimator", "dark", "scales", "tests", "find", "turn"],
        )

    def __panel__(self) -> pn.viewable.Viewable:
        return self._component

    @property
    def blocks(self) -> list[MessageBlock]:
        """Messages of the shown conversation."""
        return self._packed.blocks

    @property
    def turns(self) -> int:
        """Number of turns of the policy in the shown conversation."""
        return sum(block.turn > 0 for block in self._packed.blocks)

    def _pack(self) -> PackedConversation:
        sample, options = self.sample, {"pad_token": self.pad_token, "kl_estimator": self.kl_estimator}
        if sample is None:
            return PackedConversation([], [], [], {})
        key = (current_language(), *options.values())
        return cached_on(sample, "conversation", key, lambda: pack_conversation(sample, **options), most=1)

    def _update_component(self, *events: param.parameterized.Event) -> None:
        values: dict[str, Any] = {"dark": self.dark, "scales": self.scales, "turn": self.turn or 0}
        changed = {event.name for event in events}
        is_other = bool(changed & {"sample", "pad_token", "kl_estimator"})
        if is_other:
            self._packed = self._pack()
        if changed - {"dark", "scales", "turn"}:
            values["hits"] = self._hits()  # before the texts, so that they are drawn once
        if is_other:
            values["data"] = sent_conversation(self._packed.payload)
        self._component.param.update(**values)

    def _hits(self) -> dict[str, Any]:
        """Return the places that the reader's words, else the conditions, find in the conversation."""
        tests: tuple[TextPredicate, ...] = self.tests
        words = ""
        try:
            own = parse_search(self.find)
            tests = tests if own is None else (own,)
        except FilterError as error:
            tests, words = (), str(error)
        sample = self.sample
        logged = {"prompt": sample.prompt, "response": sample.response} if sample is not None else {}
        texts = {name: text for name, text in logged.items() if text is not None}
        found = hits_of(self._packed.blocks, tests, texts)
        if tests and not found and not words:
            words = tr("not in this conversation")
            if self.find.strip() == "":
                words = tr("found outside of these texts: see the tab Text")
        hits: list[Hit] = found
        return {"uid": self._packed.payload.get("uid", ""), "hits": hits, "words": escape_invisible(words)}

    def _on_message(self, asked: Any) -> None:
        """Answer a request of the browser; a request for another sample or for nothing is ignored."""
        if not isinstance(asked, dict) or self.sample is None or asked.get("uid") != self.sample.uid:
            return
        try:
            if asked.get("want") == "tokens":
                self.param.update(token=int(asked["token"]), opened=self.opened + 1)
            elif asked.get("want") == "turn":
                self.param.update(turn=int(asked["turn"]) or None, chosen=asked.get("chosen") is True)
            elif asked.get("want") == "pair":
                self.pairs += 1
            elif asked.get("want") == "weights":
                self.drawn = self.sample.uid
            elif asked.get("want") == "trace":
                self.trace = next(uid for uid, _ in self.traces if uid == asked["trace"])
            elif asked.get("want") == "image":
                self._send_image(asked)
            elif asked.get("want") == "medium":
                self._send_medium(asked)
            else:
                self._send_part(asked)
        except (LookupError, ValueError, TypeError, StopIteration):  # a browser may ask for anything
            return

    def _send_part(self, asked: dict[str, Any]) -> None:
        """Send the text of a part that was cut; the HTML of its Markdown comes later, from a thread."""
        block, part = int(asked["block"]), str(asked["part"])
        length = min(int(asked["length"]), MAX_CHARACTERS)
        answer = _part_answer(self._packed, block, part, length)
        if not (self._packed.payload["blocks"][block]["markdown"] and part == "text"):
            self._component.send(answer)
            return
        packed, known = self._wanted.get((block, part), (None, 0))
        # The browser asks for the text up to a hit, then for the HTML of what it shows: the longer counts.
        self._wanted[block, part] = self._packed, max(length, known if packed is self._packed else 0)
        self._format_wanted()

    def _format_wanted(self) -> None:
        if self._wanted and not self._formats:
            self._formats = True
            self._formatting.start(self._formatted_parts())

    def _formatted_parts(self) -> Iterator[dict[str, Any] | None]:
        """Yield the wanted parts with their HTML, the last one first, and None at the end."""
        while self._wanted:
            (block, part), (packed, length) = self._wanted.popitem()
            answer = _part_answer(packed, block, part, length)
            if self.sample is not None and answer["uid"] == self.sample.uid:
                yield answer | {"html": markdown_html(answer["text"])}
        yield None

    def _on_formatted(self, answer: dict[str, Any] | None) -> None:
        if answer is not None:
            self._component.send(answer)
            return
        self._formats = False
        self._format_wanted()  # what was asked for after the thread had looked

    def _send_image(self, asked: dict[str, Any]) -> None:
        """Send an image of a message; its data URL comes later, from a thread."""
        if self.find_image is None or self.sample is None:
            return
        message, position, full = int(asked["message"]), int(asked["position"]), bool(asked["full"])
        image = self._packed.images[message][position]
        answer = {"message": message, "position": position, "full": full, "uid": self.sample.uid}
        self.find_image(
            self.sample, image, full, lambda address: self._component.send(answer | {"image": address})
        )

    def _send_medium(self, asked: dict[str, Any]) -> None:
        """Send the address of audio or video, or why it cannot be played."""
        message, position = int(asked["message"]), int(asked["position"])
        medium, sample = self._packed.media[message][position], self.sample
        answer = {"message": message, "position": position, "uid": asked["uid"]}
        if self.find_medium is None or sample is None:
            self._component.send(answer | {"reason": unplayed(medium)})
            return
        send = self._component.send
        self.find_medium(sample, medium, (message, position), lambda found: send(answer | found))


def sent_conversation(payload: dict[str, Any]) -> dict[str, Any]:
    """Return a payload with its blocks and its score as one JSON text.

    Bokeh encodes nested values one by one: four times as long as the whole text takes, for 1,000 turns.
    """
    if not payload:
        return payload
    parts = {name: payload[name] for name in ("blocks", "score")}
    return {**payload, **dict.fromkeys(parts), "json": json.dumps(parts, ensure_ascii=False, allow_nan=False)}


def _part_answer(packed: PackedConversation, block: int, part: str, length: int) -> dict[str, Any]:
    """Return the beginning of a part's text, and its whole length if that is more."""
    whole = part_text(packed.blocks, block, part)
    answer = {"uid": packed.payload["uid"], "block": block, "part": part, "text": whole[:length]}
    if length >= len(whole):
        return answer
    return answer | {"length": len(whole), "lines": whole.count("\n") + 1}


# -- follow selection ----------------------------------------------------------------------------------
# Lets a view of texts follow theme, metric, scale and pinned token of the selection.


#: Parameters that views and selection have in common.
SHARED = ("metric", "token", "scale")


def follow_selection(
    view: TokenView | ConversationView, selection: Selection, shared: Sequence[str] = SHARED
) -> None:
    """Let a view follow the theme; the shared parameters go both ways with the selection."""
    view.scale = selection.scale
    for name in shared:
        selection.param.watch(lambda event: setattr(view, event.name, event.new), name)
        view.param.watch(lambda event: setattr(selection, event.name, event.new), name)
    selection.param.watch(lambda event: setattr(view, "dark", event.new), "dark")
