"""Address to listen on, and access control.

Without Panel, so that the command line reports a wrong option before it imports the server.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from urllib.parse import urlencode

from rlpanel.app.security import login
from rlpanel.app.security.http_headers import WILDCARDS, check_origins
from rlpanel.app.security.login import check_length
from rlpanel.board_url import USUAL_PORT


@dataclass(frozen=True)
class Access:
    """Address to listen on, and access control.

    Attributes
    ----------
    host, port : str, int
        Address to listen on.
    token : str
        Token that every viewer needs; an empty one admits everybody who reaches the port.
    origins : tuple of str
        Additional ``host:port`` under which browsers reach the board, such as a proxy's. Pages of other
        origins are refused.
    show : bool
        Open a browser on this machine.
    linger : float
        Seconds for which a session is kept after its connection closed, so that the browser can reconnect.
    read_only : bool
        Refuse all that a viewer could write to the disk.
    max_pages : int
        Most open pages; 0 means without a limit.
    embed_in : tuple of str
        Origins whose pages may show the board in a frame, such as ``https://example.org``.

    Raises
    ------
    SettingError
        If the token is too short, or an origin in ``embed_in`` is not valid.
    """

    host: str = "127.0.0.1"
    port: int = USUAL_PORT
    token: str = ""
    origins: tuple[str, ...] = ()
    show: bool = False
    linger: float = 15.0
    read_only: bool = False
    max_pages: int = 0
    embed_in: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_length(self.token)
        check_origins(self.embed_in)

    @property
    def login_path(self) -> str:
        """Path that opens the board, with the token; browsers do not send the part after ``#``."""
        return f"{login.PATH}#{urlencode({'token': self.token})}" if self.token else "/"

    @property
    def printed_urls(self) -> list[str]:
        """URLs with the token: one for other machines and, for a wildcard address, one for this machine."""
        return [f"{url}{self.login_path}" for url in self._hosts]

    @property
    def login_urls(self) -> list[str]:
        """URLs of the page that asks for the token."""
        return [f"{url}{login.PATH}" for url in self._hosts]

    @property
    def _hosts(self) -> tuple[str, ...]:
        return (self.url, *([f"http://localhost:{self.port}"] if self.host in WILDCARDS else []))

    @property
    def url(self) -> str:
        """URL of the board for other machines; a wildcard address is replaced by this machine's name."""
        host = socket.gethostname() if self.host in WILDCARDS else self.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"
