"""Writes a claim from where it is seen: a finding, or a text that is found in a sample's log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rlpanel.errors import RLPanelError, SettingError
from rlpanel.panels.language.labels import tr
from rlpanel.panels.session.context import Context
from rlpanel.panels.session.threads import BackgroundTask
from rlpanel.queries.run_data import RunData
from rlpanel.schema import TEXTS, Sample
from rlpanel.texts.display_text import escape_invisible

# -- claim writer --------------------------------------------------------------------------------------
# Writes a claim into the run's report from where it is seen: a finding, or a text that was selected.


#: Most characters of a selected text that the browser may send, and of the sentence beside it.
MAX_SELECTED, MAX_SENTENCE = 4_000, 2_000


class ClaimWriter:
    """Writes claims of a page's reader; a read-only board refuses, because any client can send a message.

    Parameters
    ----------
    context : Context
    said : callable
        Gets a sentence: that the claim was written, or why not.
    """

    def __init__(self, context: Context, said: Callable[[str], None]) -> None:
        self._context, self._said = context, said
        self._writing: BackgroundTask[str] = BackgroundTask(self._written, context.threads.queries)

    def finding(self, rule: str, subject: str, sentence: str) -> None:
        """Claim that a rule finds something."""
        self._write("finding", {"rule": rule, "subject": subject}, sentence)

    def quotation(self, uid: str, selected: str, sentence: str) -> None:
        """Claim that a sample says what was selected on the screen."""
        self._write("quotation", {"uid": uid, "text": selected[: MAX_SELECTED + 1]}, sentence)

    def _write(self, kind: str, claim: Mapping[str, Any], sentence: str) -> None:
        context = self._context
        if context.read_only:
            self._said(tr("This board is read-only: claims cannot be written here"))
        elif context.index is not None:
            run = RunData(context.index, context.view)
            split = context.snapshot.split
            usual = context.index.view.snapshot.split
            other = "" if split == usual else split
            self._writing.start(_added(run, kind, claim, sentence[:MAX_SENTENCE], other))

    def _written(self, said: str) -> None:
        self._said(escape_invisible(said))


def _added(run: RunData, kind: str, claim: Mapping[str, Any], text: str, split: str) -> Iterator[str]:
    """Write a claim, and yield what came of it."""
    from rlpanel.queries.reports.claim_report import add_entry

    try:
        if kind == "quotation":
            if len(claim["text"]) > MAX_SELECTED:
                yield tr("A quotation has at most {count:,} characters", count=MAX_SELECTED)
                return
            field, quote = quoted_place(run.sample(claim["uid"]), claim["text"])
            claim = {**claim, "field": field, "text": quote}
        add_entry(run, kind, claim=dict(claim), text=text, author="person", split=split)
    except RLPanelError as error:
        yield str(error)
    else:
        yield tr("Written to Investigations")


# -- quoted place --------------------------------------------------------------------------------------
# Finds where a text that a reader selected on the screen stands in a sample's log.


def quoted_place(sample: Sample, selected: str) -> tuple[str, str]:
    """Return the field of a sample that holds a selected text, and the text as it is logged.

    White space does not count, because the screen indents JSON and breaks lines. Messages of the response
    come first, then those of the prompt, then other fields.

    Parameters
    ----------
    sample : Sample
    selected : str
        As it is on the screen.

    Returns
    -------
    field : str
        ``messages.3``, or the name of a text such as ``response``.
    quote : str
        A part of that text.

    Raises
    ------
    SettingError
        If nothing was selected, or no text of the sample holds it.
    """
    wanted = "".join(selected.split())
    if not wanted:
        raise SettingError("select a text first")
    for name, text in _texts(sample):
        places = [at for at, letter in enumerate(text) if not letter.isspace()]
        at = "".join(text.split()).find(wanted)
        if at >= 0:
            return name, text[places[at] : places[at + len(wanted) - 1] + 1]
    raise SettingError(
        "the log does not hold the selected text as it is shown; select a part of one message, in Raw"
    )


def _texts(sample: Sample) -> Iterator[tuple[str, str]]:
    """Yield the names and texts of a sample that a quotation can name."""
    first = max(sample.prompt_messages, 0)
    count = len(sample.messages)
    for at in [*range(first, count), *range(first)]:
        content = sample.messages[at].get("content") if at < count else None
        if isinstance(content, str):
            yield f"messages.{at}", content
    for name in ("response", *(each for each in TEXTS if each != "response")):
        if text := getattr(sample, name):
            yield name, str(text)
