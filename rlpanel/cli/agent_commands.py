"""The commands ``mcp | skill``: a server of the Model Context Protocol, and a page for agents."""

from __future__ import annotations

from typing import Annotated

import typer

from rlpanel.board_url import USUAL_ADDRESS
from rlpanel.cli.shared_options import DefaultStep, FollowLinks, Map, set_reader_environment
from rlpanel.cli.terminal_messages import say


def mcp(
    root: Annotated[str, typer.Argument(help="Folder that holds runs; no tool reads outside.")] = ".",
    http: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=65535,
            help="Serve over HTTP on this port, not over standard input.",
            show_default=False,
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="Loopback address to listen on.")] = "127.0.0.1",
    token: Annotated[
        str,
        typer.Option(envvar="RLPANEL_MCP_TOKEN", help="Token of HTTP clients.", show_default="a random one"),
    ] = "",
    notes: Annotated[bool, typer.Option("--notes", help="Let agents write tags, notes and claims.")] = False,
    board: Annotated[
        str, typer.Option(help="Address of the board, for links and the tool show.")
    ] = USUAL_ADDRESS,
    board_token: Annotated[
        str,
        typer.Option(
            envvar="RLPANEL_TOKEN", help="Token of the board, for the tool show.", show_default="none"
        ),
    ] = "",
    max_bytes: Annotated[int, typer.Option(min=2000, help="Most bytes of an answer.")] = 60_000,
    max_tokens: Annotated[int, typer.Option(min=700, help="Most tokens of an answer, estimated.")] = 15_000,
    keys: Map = None,
    default_step: DefaultStep = None,
    follow_links: FollowLinks = False,
) -> None:
    """Serve the runs below a folder to an agent (Model Context Protocol); it needs the extra mcp."""
    set_reader_environment(keys, None, follow_links, default_step)
    from rlpanel.app.security.login import check_length, new_token
    from rlpanel.mcp_server.answer import AnswerLimits
    from rlpanel.mcp_server.http_server import PATH, BoardClient, check_loopback, serve_http
    from rlpanel.mcp_server.run_pool import RunPool
    from rlpanel.mcp_server.server_setup import create_server
    from rlpanel.sources.files.file_access import path_of

    check_loopback(host)
    check_length(token)
    pool = RunPool(path_of(root).resolve())
    pool.infos()  # raises if the folder does not exist
    limits, shower = AnswerLimits(max_bytes, max_tokens), BoardClient(board, board_token)
    server = create_server(pool, limits, board=board, notes=notes, shower=shower)
    if http is None:
        server.run("stdio")
        return
    secret = token or new_token()
    shown = "the given token" if token else secret
    name = f"[{host}]" if ":" in host else host
    say(f"http://{name}:{http}{PATH}, header Authorization: Bearer {shown}", typer.colors.GREEN)
    serve_http(server, host, http, secret)


def skill() -> None:
    """Print how an agent watches a run: what to look at first, and how to report with links."""
    from rlpanel.mcp_server.doc_pages import read_page

    typer.echo(read_page("agents-cli.md"), nl=False)


COMMANDS = {
    mcp: "rlpanel mcp runs",
    skill: "rlpanel skill",
}
