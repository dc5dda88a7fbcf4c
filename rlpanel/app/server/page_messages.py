"""Messages that a page sends to the server: reads them, applies them, and logs those that fail.

Bokeh logs a traceback for every message that it cannot apply, and sends it to the client.
"""

from __future__ import annotations

import logging
import traceback
from pathlib import Path
from typing import Any

from bokeh.protocol import Protocol
from bokeh.protocol.message import Message
from bokeh.server.connection import ServerConnection
from bokeh.server.session import ServerSession

log = logging.getLogger(__name__)

#: Kinds of messages that a page sends.
_KINDS: dict[str, Any] = {"PULL-DOC-REQ": ServerSession.pull, "PATCH-DOC": ServerSession.patch}
#: Places of rlpanel's own code whose errors are logged for one page.
_MAX_PLACES = 10
_PACKAGE = str(Path(__file__).parents[2])
#: This module and its caller are in every traceback.
_HERE = {__file__, str(Path(__file__).with_name("page_handlers.py"))}


class WrongMessage(Exception):
    """A message that no page of the board sends."""


class MessageReader:
    """Puts messages together from their parts: header, metadata and content, each a text."""

    def __init__(self) -> None:
        self._protocol, self._parts = Protocol(), list[str]()

    def take(self, part: str | bytes) -> Message[Any] | None:
        """Return a message after its last part; else None.

        Raises
        ------
        WrongMessage
            If no page sends such a message. Bokeh raises other errors for what it cannot read.
        """
        if not isinstance(part, str):
            raise WrongMessage("a message in bytes; pages send text")
        self._parts.append(part)
        if len(self._parts) < 3:
            return None
        parts, self._parts = self._parts, []
        message: Message[Any] = self._protocol.assemble(*parts)
        if message.header.get("num_buffers"):
            raise WrongMessage("a message with buffers; pages send none")
        if message.msgtype not in _KINDS:
            raise WrongMessage("a message of a kind that pages do not send")
        return message


async def apply_message(
    message: Message[Any], connection: ServerConnection, failures: MessageFailures
) -> Message[Any] | None:
    """Apply a message to the page's document and return the answer, if it is not sent already."""
    try:
        answer: Message[Any] | None = await _KINDS[message.msgtype](message, connection)
    except Exception as error:
        failures.add(error)
    else:
        return answer
    # The client learns only that there was an error. In the block above, Bokeh would add the traceback.
    return connection.error(message, "the server could not apply this change")


class MessageFailures:
    """Logs messages of one page that failed: the first wrong one, and errors of rlpanel once for each place.

    Parameters
    ----------
    address : str
        Address of the page's client.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._logged: set[str] = set()
        self._silent = 0

    def add(self, error: Exception) -> None:
        """Log an error, or count it."""
        frames = traceback.extract_tb(error.__traceback__)
        own = [each for each in frames if each.filename.startswith(_PACKAGE) and each.filename not in _HERE]
        place = f"{own[-1].filename}:{own[-1].lineno}" if own else ""
        if place in self._logged or len(self._logged) > _MAX_PLACES:
            self._silent += 1
            return
        self._logged.add(place)
        if own:
            log.error("error while handling a message of a page", exc_info=error)
        else:
            text = ascii(f"{type(error).__name__}: {error}"[:200])
            log.warning("a page of %s sent a message that cannot be applied: %s", self._address, text)

    def end(self) -> None:
        """Log how many messages failed without a message of their own."""
        if self._silent:
            log.warning("%d more messages of a page of %s failed", self._silent, self._address)
