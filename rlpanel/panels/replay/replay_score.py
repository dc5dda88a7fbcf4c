"""The payload of a replay: when each event is shown, and sentences about what the log lacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlpanel.analysis.replay_clock import MAX_PAUSE, ReplayClock
from rlpanel.panels.language.labels import tr, trn

#: A time that is later than this is one of Unix; others count from the rollout's beginning.
_UNIX = 1e8


def replay_score(
    uid: str, episode: str, clock: ReplayClock, source: str = "", notes: Sequence[str] = ()
) -> dict[str, Any]:
    """Return what the browser plays.

    Parameters
    ----------
    uid, episode : str
        Of the sample; views of the same sample, or of one episode with Unix times, share the playhead.
    clock : ReplayClock
    source : str
        Sentence that says where the times are from.
    notes : sequence of str
        Further sentences.
    """
    is_unix = clock.is_timed and clock.start is not None and clock.start >= _UNIX
    return {
        "uid": uid,
        "episode": episode,
        "timed": clock.is_timed,
        "start": clock.start if is_unix else None,
        "recorded": clock.recorded.tolist(),
        "shown": clock.shown.tolist(),
        "notes": [*clock_notes(clock, source), *notes],
    }


def clock_notes(clock: ReplayClock, source: str) -> list[str]:
    """Return sentences about the times, the source of them first."""
    events = len(clock.shown)
    if not clock.is_timed:
        notes = [tr("Played by turn, one second each: the log has no times of turns.")]
        if 2 * clock.backwards >= events - clock.missing > 1:
            notes = [tr("Played by turn, one second each: at least half of the logged times go backwards.")]
        elif events - clock.missing > 1:
            notes = [tr("Played by turn, one second each: all logged times are the same.")]
        if events < 2:
            notes.append(tr("There is one message only; there is nothing to play."))
        return notes
    notes = [source] if source else []
    if clock.pauses:
        said = trn(
            "{count:,} stretch of more than {most:g} s without an event is shortened; "
            "{left:,.0f} s are left out.",
            "{count:,} stretches of more than {most:g} s without an event are shortened; "
            "{left:,.0f} s are left out.",
            clock.pauses,
            most=MAX_PAUSE,
            left=clock.left_out,
        )
        notes.append(said)
    if clock.backwards:
        said = trn(
            "{count:,} time goes backwards; it is shown at the time before it.",
            "{count:,} times go backwards; they are shown at the time before them.",
            clock.backwards,
        )
        notes.append(said)
    if clock.missing:
        said = trn(
            "{count:,} of {events:,} messages has no time; it is shown with the one before it.",
            "{count:,} of {events:,} messages have no time; they are shown with the one before them.",
            clock.missing,
            events=events,
        )
        notes.append(said)
    return notes
