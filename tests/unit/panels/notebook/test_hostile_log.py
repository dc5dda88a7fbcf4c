"""A notebook view of a hostile log: no text, name or key is passed on as markup.

Checked is what a browser takes for markup: the cell's output, the panes of HTML, tooltips, and heads of
tables. That the scripts set everything else as text is for a browser to show: ``tests/ui/test_hostile.py``.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import pytest
from bokeh.document import Document
from bokeh.models import HoverTool, TableColumn
from panel.models import HTML
from pyviz_comms import Comm

import rlpanel
from rlpanel.api.open_run import open_run
from rlpanel.api.run import Run
from tests.factories import sample

NAMED = "<img class=evil src=x onerror=window.ran=1>"
ATTACK = (
    f"</script><!--<script></textarea></title>{NAMED}<script class=evil>window.ran=1</script>"
    "\" onload='x' &lt;img class=evil>"
)
COLUMN = f"x{NAMED}"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    folder = tmp_path_factory.mktemp("runs") / f"a{NAMED}"
    folder.mkdir()
    texts = dict.fromkeys(("prompt", "response", "ref_response", "ground_truth"), ATTACK)
    names = dict.fromkeys(("group", "finish_reason"), NAMED)
    lines = [
        sample(step, index=at, reward=float(at % 3), response_tokens=[ATTACK, "b"], logprobs=[-0.1, -0.2],
               ref_logprobs=[-0.3, -0.1], values=None, token_rewards=None, **texts, **names,
               **{COLUMN: 0.5 * at, f"y{NAMED}": NAMED})
        for step in (1, 2)
        for at in range(4)
    ]  # fmt: skip
    (folder / f"r{NAMED}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lines) + ATTACK)
    (folder / "scalars.jsonl").write_text(json.dumps({"step": 1, f"s{NAMED}": 0.5}) + "\n")
    with open_run(folder, follow=False) as opened:
        yield opened


class Elements(HTMLParser):
    """The elements of some markup: [tag, attributes]."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(markup)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def planted(markup: str) -> list[tuple[str, dict[str, str | None]]]:
    """Return the elements and attributes that an injected payload created."""
    return [
        (tag, of)
        for tag, of in Elements(markup).found
        if tag in ("img", "script") or of.get("class") == "evil" or any(name.startswith("on") for name in of)
    ]


def cell(frame: Any) -> tuple[str, list[Any]]:
    """The output of a notebook's cell, and the models in it."""
    document, comm = Document(), Comm()
    root = frame.get_root(document, comm)
    return frame._render_mimebundle(root, document, comm)[0]["text/html"], list(root.references())


def markup_of(models: list[Any]) -> list[str]:
    """Strings that the browser takes for markup."""
    found = [html.unescape(model.text) for model in models if isinstance(model, HTML)]
    tools = [model for model in models if isinstance(model, HoverTool)]
    found += [part for tool in tools for pair in tool.tooltips or () for part in pair]
    return found + [model.title for model in models if isinstance(model, TableColumn)]


VIEWS = {
    "curves": lambda run: rlpanel.views.curves(run, "reward", COLUMN, f"log:s{NAMED}"),
    "tokens": lambda run: rlpanel.views.tokens(run.sample(run.samples().uid.iloc[0])),
    **{name: getattr(rlpanel.views, name) for name in ("distribution", "groups", "grid", "findings")},
}


#: Views that carry texts and names as they are; tokens carry them as bytes, the others have no use for them.
SAYS = ("curves", "groups", "grid")


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_in_a_notebook_makes_no_markup_of_the_log(run: Run, name: str) -> None:
    page, models = cell(VIEWS[name](run))
    assert [tag for tag, _ in Elements(page).found] == ["div", "div", "script"]
    assert ("class=evil src=x" in page) is (name in SAYS)
    for text in markup_of(models):
        assert planted(text) == [], text
