"""How to begin: what a folder without runs holds, and what would be shown."""

from __future__ import annotations

from rlpanel.panels.ui.theme import safe_text
from rlpanel.sources.adapters import accepted
from rlpanel.sources.discovery.diagnose import Diagnosis


def getting_started_html(root: str, found: Diagnosis | None) -> str:
    """What stands in the board's place while there are no runs.

    Parameters
    ----------
    root : str
        The folder, as it was given; empty if none was.
    found : Diagnosis or None
        What is there; None while nobody looked.
    """
    if not root or found is None:
        where = "Nothing to show yet" if root else "No folder was given"
        return f"<h2>No runs yet</h2><p>{where}: <code>rlpanel serve FOLDER</code>.</p>{_LINE}{_kinds()}"
    head = (
        f"<h2>{safe_text(found.title)}</h2><p><code>{safe_text(root)}</code></p>"
        f"<p>{safe_text(found.sentence)}</p>"
    )
    return f"{head}{_seen(found)}{_hints(found)}{_mapping(root, found)}{_LINE}{_kinds()}"


def _seen(found: Diagnosis) -> str:
    rows = "".join(
        f"<li><code>{safe_text(sight.name)}</code> {safe_text(sight.what)}</li>" for sight in found.seen
    )
    word = "file" if found.others == 1 else "files"
    more = f"<li>and {found.others:,} other {word}</li>" if found.others and rows else ""
    return f'<h3>Seen</h3><ul class="rl-seen">{rows}{more}</ul>' if rows else ""


def _hints(found: Diagnosis) -> str:
    rows = "".join(f"<li>{safe_text(hint)}</li>" for hint in found.hints)
    return f'<ul class="rl-hints">{rows}</ul>' if rows else ""


def _mapping(root: str, found: Diagnosis) -> str:
    if not found.mapping:
        return ""
    pairs = "\n".join(
        f'{name} = "{key}"' for name, _, key in (pair.partition("=") for pair in found.mapping.split(","))
    )
    return (
        "<h3>Other keys</h3><p>Say which key is which, on the command line or in an "
        "<code>rlpanel.toml</code> beside the log, which is followed at once:</p>"
        f"<pre>rlpanel serve {safe_text(root)} --map {safe_text(found.mapping)}</pre>"
        f"<pre>[map]\n{safe_text(pairs)}</pre>"
    )


_LINE = (
    "<h3>One line a sample</h3><p>This page follows the folder: a run appears as soon as a rank writes its "
    "first line, for example to <code>rollout_data_rank_0.jsonl</code>:</p>"
    '<pre>{"step": 3, "prompt": "2 + 2 =", "response": "4", "reward": 1.0,\n'
    ' "response_tokens": ["4"], "logprobs": [-0.02], "ref_logprobs": [-0.11]}</pre>'
    "<p>Only <code>step</code> and one of <code>prompt</code> and <code>response</code> are needed; "
    "what is not logged is not shown.</p>"
)


def _kinds() -> str:
    """Every kind of file that is read."""
    rows = "".join(f"<li>{safe_text(looks)}</li>" for looks in accepted())
    return f'<details class="rl-kinds"><summary>All kinds of files that are read</summary><ul>{rows}</ul>' + (
        "</details>"
    )
