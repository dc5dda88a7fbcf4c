"""Players of a report: small audio and video as data URLs, and a sentence for those that are not embedded."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass

from rlpanel.errors import RLPanelError
from rlpanel.number_text import size_text
from rlpanel.panels.session.context import Context
from rlpanel.panels.ui.theme import safe_text
from rlpanel.schema import Sample
from rlpanel.sources.records.embedded_media import Medium
from rlpanel.store.query.sample_media import MediumTooLarge, media_bytes, where_it_is
from rlpanel.texts.display_text import escape_invisible

#: Most bytes of one medium, of all media of a report, and most media of a report that are read.
MAX_EACH, MAX_TOTAL, MAX_READ = 2_000_000, 10_000_000, 50


@dataclass
class MediaBudget:
    """Bytes and files that a report may still embed; each sample takes its share in turn.

    Attributes
    ----------
    each, total, read : int
        Bytes of one medium, bytes of all, and number of media that are read.
    """

    each: int = MAX_EACH
    total: int = MAX_TOTAL
    read: int = MAX_READ


@dataclass(frozen=True)
class SamplePlayers:
    """Audio and video of one sample in a report.

    Attributes
    ----------
    html : str
        A section with players and sentences; empty if the sample has neither audio nor video.
    embedded_chars : int
        Number of characters of the embedded data in ``html``.
    left_out : int
        Number of media that are not embedded.
    """

    html: str = ""
    embedded_chars: int = 0
    left_out: int = 0


def sample_players(context: Context, sample: Sample, budget: MediaBudget) -> SamplePlayers:
    """Return the players of a sample's audio and video. What they embed is taken from the budget."""
    figures, chars, left_out = [], 0, 0
    for place, medium in _media(sample):
        name = f"{medium['kind']} · {place}"
        try:
            address, size = _address(context, sample, medium, budget)
        except MediumTooLarge as error:
            left_out += 1
            figures.append(_sentence(name, f", {size_text(error.size)}, not embedded: {error}.", medium))
        except RLPanelError as error:
            left_out += 1
            figures.append(_sentence(name, f", not embedded: {error}.", medium))
        else:
            chars += len(address)
            figures.append(_player(medium["kind"], f"{name}, {size_text(size)}", address))
    if not figures:
        return SamplePlayers()
    caption = '<h4 class="caption">Audio and video</h4>'
    return SamplePlayers(f'<section class="media">{caption}{"".join(figures)}</section>', chars, left_out)


def _media(sample: Sample) -> Iterator[tuple[str, Medium]]:
    """Yield the audio and video of the messages and beside them, each with a text of its place."""
    for number, message in enumerate(sample.messages, 1):
        for medium in message.get("media", ()):
            yield f"message {number}, {str(message.get('role', ''))[:40]}", medium
    for medium in sample.media:
        yield "beside the messages", medium  # type: ignore[misc]  # `Sample` names the shape in its docstring


def _address(context: Context, sample: Sample, medium: Medium, budget: MediaBudget) -> tuple[str, int]:
    """Return a data URL of a medium, and its size; the type comes from the file's content."""
    assert context.index is not None
    known = medium.get("size", 0)
    if known > budget.each:
        raise _too_large(known, budget)
    if budget.read <= 0:
        raise RLPanelError(f"a report reads at most {MAX_READ} media")
    budget.read -= 1
    most = min(budget.each, budget.total)
    try:
        content_type, data = media_bytes(context.index, context.snapshot, sample.uid, medium, most)
    except MediumTooLarge as error:
        raise _too_large(error.size, budget) from error
    budget.total -= len(data)
    return f"data:{content_type};base64,{base64.b64encode(data).decode()}", len(data)


def _too_large(size: int, budget: MediaBudget) -> MediumTooLarge:
    if size > budget.each:
        return MediumTooLarge(f"a report embeds files of at most {size_text(budget.each)}", size)
    return MediumTooLarge(f"a report embeds at most {size_text(MAX_TOTAL)} in all", size)


def _player(kind: str, name: str, address: str) -> str:
    label = safe_text(escape_invisible(name))
    element = "video" if kind == "video" else "audio"
    return (
        f"<figure><figcaption>{label}</figcaption>"
        f'<{element} controls preload="metadata" aria-label="{label}" src="{safe_text(address)}"></{element}>'
        "</figure>"
    )


def _sentence(name: str, reason: str, medium: Medium) -> str:
    text = f"{name}{reason} {where_it_is(medium)}"
    return f'<p class="note">{safe_text(escape_invisible(text))}</p>'
