"""Client of a board's server, by which tools of another process move an open page."""

from __future__ import annotations

import http.client
import json
from urllib.parse import urlsplit

from rlpanel.errors import SettingError

#: Path of the board's endpoint, seconds to wait for it, and most bytes of its answer.
PATH, _SECONDS, _MAX_ANSWER = "/show", 10.0, 4096


class BoardClient:
    """Sends requests to one board, and follows no redirect.

    Parameters
    ----------
    url : str
        Address of the board.
    token : str
        The board's token; empty if it asks for none.
    """

    def __init__(self, url: str, token: str = "") -> None:
        self._url, self._token = url.rstrip("/"), token

    def show(self, address: str, code: str) -> str:
        """Move the page of a code to an address, and return the address.

        Raises
        ------
        SettingError
            If the board cannot be reached, or refuses; the message is the board's.
        """
        try:
            parts = urlsplit(self._url)
            kinds = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
            connection = kinds[parts.scheme](parts.hostname or "", parts.port, timeout=_SECONDS)
        except (KeyError, ValueError) as error:
            raise SettingError(f"{self._url[:200]!r} is no address of a board; give --board") from error
        headers = {"Content-Type": "application/json"}
        headers |= {"Authorization": f"Bearer {self._token}"} if self._token else {}
        body = json.dumps({"view": address, "code": code})
        try:
            connection.request("POST", f"{parts.path}{PATH}", body, headers)
            response = connection.getresponse()
            said = response.read(_MAX_ANSWER).decode("utf-8", "replace")
        except (OSError, http.client.HTTPException) as error:
            raise SettingError(f"the board at {self._url} cannot be reached: {error}") from error
        finally:
            connection.close()
        if response.status == 401:
            raise SettingError("the board asks for its token: set RLPANEL_TOKEN for rlpanel mcp")
        if response.status != 200:
            raise SettingError(f"the board refused: {said.strip()[:300] or response.status}")
        try:
            return str(json.loads(said)["shown"])
        except (ValueError, KeyError, TypeError) as error:
            raise SettingError(f"{self._url} did not answer as a board does") from error
