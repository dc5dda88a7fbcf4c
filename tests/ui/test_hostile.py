"""Text that a model wrote, names of files, runs and columns, links: shown as text, never run.

Every view is opened over one payload. Nothing of it may run, be asked for, or stand in the page for a moment.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Locator, Page, expect

from rlpanel.investigations.report_file import FILE
from tests.factories import sample
from tests.ui.board import BoardPage, Served, cells_of
from tests.ui.conftest import OpenBoard, Profile

RUN = "window.ran=1"
#: Names on disk hold no slash and are short.
NAMED = f"<img class=evil src=x onerror={RUN}>"
ATTACK = (
    f"{NAMED}<svg class=evil onload='{RUN}'></svg><script class=evil>{RUN}</script>"
    f"<iframe class=evil srcdoc='<script>parent.ran=1</script>'></iframe>"
    f"<a class=evil href='javascript:{RUN}'>x</a><img class=evil src='https://outside.invalid/x'>"
    f"<input class=evil autofocus onfocus={RUN}><details class=evil open ontoggle={RUN}>"
    "</textarea></title><style class=evil>*{display:none; background:url(https://outside.invalid/y)}</style>"
    f'" onmouseover="{RUN}" x="\' onmouseover=\'{RUN}\' @x{{safe}} {{{{{RUN}}}}} ${{{RUN}}} javascript:{RUN}'
)
#: A prompt in a chat template whose every turn is an attack.
CHAT = "".join(
    f"<|im_start|>{role}\n{ATTACK} {number}<|im_end|>\n"
    for number, role in enumerate(("system", "user", NAMED, "assistant", "user", "assistant", "user"))
)
#: Notes what a payload plants, in any shadow root, and what notices say, even if it is gone again when
#: somebody looks.
SENTRY = """
    window.planted = []
    window.noticed = []
    const note = (node) => {
        const said = node.matches?.(".notyf__message") ? node : node.querySelector?.(".notyf__message")
        if (said) { window.noticed.push(said.textContent) }
        const found = node.matches?.(".evil") ? node : node.querySelector?.(".evil")
        if (found) { window.planted.push(found.outerHTML.slice(0, 100)) }
    }
    const watch = (root) => {
        const observer = new MutationObserver((all) => all.forEach((one) => one.addedNodes.forEach(note)))
        observer.observe(root, {childList: true, subtree: true})
    }
    const attach = Element.prototype.attachShadow
    Element.prototype.attachShadow = function (...how) {
        const root = attach.apply(this, how)
        watch(root)
        return root
    }
    watch(document)
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hostile_root(tmp_path_factory.mktemp("root"))


def hostile_root(parent: Path) -> Path:
    """A folder with a plain run, and with one whose every text, name and key is an attack."""
    folder = parent / f"r{NAMED}"
    (folder / "plain").mkdir(parents=True)
    (folder / "plain" / "rollout_data_rank_0.jsonl").write_text(json.dumps(sample(1)) + "\n")
    run = folder / f"a{NAMED}"
    run.mkdir()
    lines = [
        sample(
            step,
            index=index,
            prompt=CHAT if index == 3 else ATTACK,
            response=f"{index} {ATTACK}",
            response_tokens=[ATTACK, "▁<b>", "ok"],
            logprobs=[-0.1, -0.2, -2.0],
            ref_logprobs=[-0.3, -0.1, -0.2],
            values=[0.1, 0.2, 0.3],
            token_rewards=[0.0, 1.0, 0.5],
            reward=1.0,
            ref_response=ATTACK,
            ground_truth=ATTACK,
            group=NAMED,
            lang=NAMED,
            finish_reason=NAMED,
            rewards={NAMED: 1.0 * index},
            note=ATTACK * 3,
            **{f"x{NAMED}": 0.5 * index, f"y{NAMED}": NAMED, f"z{NAMED}": {NAMED: [NAMED]}},
        )
        for step in (1, 2)
        for index in range(4)
    ]
    odd = sample(2, index=9, logprobs=[NAMED], rewards={NAMED: NAMED}, prompt="odd")
    text = "".join(json.dumps(line) + "\n" for line in [*lines, odd])
    bad = f"{ATTACK}\n" + json.dumps(sample(NAMED)) + "\n" + json.dumps(ATTACK) + "\n"
    (run / f"rollout_data_rank_0{NAMED}.jsonl").write_text(text + bad)
    scalars = [{"step": step, f"s{NAMED}": 0.5, "reward": 9.0} for step in (1, 2)]
    (run / "scalars.jsonl").write_text("".join(json.dumps(row) + "\n" for row in scalars))
    write_agents(folder / f"agents{NAMED}")
    write_judged(folder / f"judged{NAMED}")
    return folder


def write_agents(run: Path) -> None:
    """A rollout of agents whose names, parents and messages are attacks, and one in flight."""
    (run / "in_flight").mkdir(parents=True)
    turn = {"role": "assistant", "content": ATTACK}
    rows = [
        {"agent": NAMED, "branch": NAMED},
        {"agent": f"b{NAMED}", "branch": "b", "parent": NAMED, "branch_kind": NAMED, "status_reason": NAMED},
        {"agent": "c", "branch": "c", "parent": f"gone{NAMED}", "status": "timeout"},
    ]
    links = {"links": [{"type": NAMED, "from": NAMED, "turn": 1}]}
    lines = [
        sample(
            1, index=at, tokens=False, episode=NAMED, messages=[{"role": "user", "content": str(at)}, turn]
        )
        | row
        | links
        for at, row in enumerate(rows)
    ]
    (run / "rollout_data_rank_0.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    named = dict.fromkeys(("agent", "env", "worker", "phase", "text", "group"), NAMED)
    live = [{"rlpanel_live": 1, "rank": NAMED}, {"begin": NAMED, "step": 1, "time": 1.0, **named}]
    text = "".join(json.dumps(delta) + "\n" for delta in live)
    (run / "in_flight" / f"rank_0{NAMED}.live").write_text(f"{text}{ATTACK}")
    (run / "scalars.jsonl").write_text(json.dumps({"step": 1, f"idle/{NAMED}": 0.5}) + "\n")


def write_judged(run: Path) -> None:
    """Two rollouts that part, their judges, their failures, and a report, all of whose texts are attacks."""
    run.mkdir()
    judged = dict.fromkeys(("name", "model", "verdict", "request", "answer", "error"), ATTACK)
    lines = [
        sample(
            1,
            index=at,
            tokens=False,
            group=NAMED,
            env=NAMED,
            reward=1.0 * at,
            messages=[
                {"role": "user", "content": ATTACK},
                {"role": "assistant", "content": f"{at} {ATTACK}"},
                {"role": NAMED, "content": ATTACK},
                {"role": "assistant", "content": ATTACK},
            ],
        )
        | {"judge_calls": [judged], "judge": {NAMED: ATTACK}, "verifier": {NAMED: ATTACK}}
        | {"status": ("timeout", "ok")[at], "status_reason": ATTACK}
        for at in (0, 1)
    ]
    (run / "rollout_data_rank_0.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    claim = {"metric": NAMED, "steps": "1", "expected": 1.0}
    entries = [
        {"id": "t", "report": NAMED, "kind": "text", "text": f"# {ATTACK}\n\n[x](javascript:{RUN})"},
        {"id": "n", "report": NAMED, "kind": "number", "text": ATTACK, "claim": claim},
        {"id": "f", "report": NAMED, "kind": "finding", "claim": {"rule": ATTACK}},
    ]
    (run / FILE).write_text("".join(json.dumps(entry) + "\n" for entry in entries))


@pytest.fixture(scope="module", autouse=True)
def sentry(profile: Profile) -> None:
    profile.context.add_init_script(SENTRY)


def nothing_ran(page: Page) -> None:
    assert page.evaluate("() => [window.ran, window.planted]") == [None, []]
    assert page.locator(".evil").count() == 0


def hover(place: Locator) -> None:
    expect(place).to_be_visible()  # a forced hover does not wait for a card that is just drawn
    place.hover(force=True)


def choose(board: BoardPage, select: str, option: str) -> None:
    """Choose the option whose label starts with a text; some labels end with a count."""
    label = board.page.locator(select).locator("option", has_text=option).first.inner_text()
    board.pick(select, label)


def test_nothing_that_a_log_says_is_run(board: BoardPage) -> None:
    board.open(run=f"a{NAMED}", step=1).settled(1)
    look_at_names(board)
    look_at_grid(board)
    look_at_curves(board)
    look_at_tokens(board)
    look_at_pairs(board)
    look_at_parts(board)
    board.go(run=f"a{NAMED}", step=2, search="odd")
    expect(board.count).to_contain_text("1 of 5 match")
    expect(board.sample_head).to_contain_text("is not a number")
    nothing_ran(board.page)


def look_at_names(board: BoardPage) -> None:
    """Runs, files, and the reasons of bad lines."""
    expect(board.page.locator(".rl-runs")).to_contain_text(f"a{NAMED}")
    expect(board.badge.locator("b").first).to_have_text(f"a{NAMED}")
    board.badge.locator("summary").first.click()
    expect(board.badge.locator("li")).to_have_count(5)
    expect(board.badge.locator("li").nth(1)).to_contain_text("'rewards/<img class=evil")
    expect(board.badge.locator("li").nth(3)).to_contain_text("not an integer: '<img")
    board.badge.locator("summary").first.click()
    hover(board.sample_head.locator("[data-uid]"))
    board.page.locator(".rl-finding-list > summary").click()
    expect(board.page.locator(".rl-finding-list li").first).to_be_visible()
    board.page.keyboard.press("Escape")


def look_at_grid(board: BoardPage) -> None:
    """Titles, cells, filters; a column's field name is the log's as well."""
    for title in (f"x{NAMED}", f"y{NAMED}", f"rewards/{NAMED}"):
        expect(board.grid.locator(".tabulator-col-title").get_by_text(title, exact=True)).to_have_count(1)
    hover(board.rows.nth(1).locator(cells_of("prompt")))
    hover(board.header("prompt"))
    board.page.get_by_role("button", name="Filter single columns").click()
    board.header("lang").locator("input").fill(NAMED)
    board.header("lang").locator("input").press("Enter")
    expect(board.rows).to_have_count(4)
    board.header("reward").click()
    board.rows.nth(1).click()
    board.search.fill("<img class=evil")
    board.search.press("Enter")
    expect(board.count).to_contain_text("4 of 4 match")


def look_at_curves(board: BoardPage) -> None:
    """The menu of columns, a curve named by the log, and hover over the plot."""
    metrics = board.settings().get_by_role("group", name="Metrics")
    for option in (f"x{NAMED}", f"trainer log: s{NAMED}"):
        metrics.get_by_label(option, exact=True).check()
    for name in (f"x{NAMED}", f"s{NAMED}"):
        curve = board.page.locator(".rl-curve").filter(has_text=name)
        hover(curve.locator(".head"))
        hover(curve.locator("canvas").first)


def look_at_tokens(board: BoardPage) -> None:
    """Running text, its card, its search, the strip, and the step's tokens."""
    page = board.page
    first = page.locator(".rl-tokens-text [data-i]").first
    expect(first).to_contain_text("onerror")
    hover(first)
    expect(page.locator(".rl-tip")).to_contain_text("onerror")
    first.click()
    hover(page.locator("canvas.rl-strip"))
    board.tab("Token ranking")
    choose(board, ".rl-least", "Seen at least once")
    tokens = page.locator('.rl-ranking [tabulator-field="c_token"]')
    expect(tokens.get_by_text("<img class=evil")).to_be_visible()


def look_at_pairs(board: BoardPage) -> None:
    """The pair with the line's further keys, and every side of the comparison."""
    board.tab("Samples")
    board.tab("Text")
    board.pair.locator("details.extra summary").click()
    expect(board.pair.locator("details.extra")).to_contain_text(f"z{NAMED}")
    expect(board.pair.locator("section p")).to_contain_text(["onerror"] * 3)
    board.tab("Diff")
    compare = board.page.locator(".rl-compare")
    for kind in (
        "Reference response",
        "Ground truth",
        "Another sample of the group",
        "Same prompt at another step",
    ):
        choose(board, ".rl-against", kind)
        expect(compare.locator(".sides > div").nth(1)).to_contain_text("onerror")
    board.tab("History")
    expect(board.page.locator(".rl-over-time .rl-strip .tabulator-row").first).to_contain_text("onerror")


def look_at_parts(board: BoardPage) -> None:
    """A prompt's folded parts, and the places that a search found in them."""
    board.go(run=f"a{NAMED}", step=1, search="javascript:window.ran=1 0")
    expect(board.count).to_contain_text("1 of 4 match")
    board.tab("Text")
    prompt = board.pair.locator("details.prompt")
    expect(prompt.locator("mark").first).to_be_visible()
    expect(prompt.locator("details[open]")).to_contain_text("<iframe class=evil")
    prompt.locator("details").evaluate_all("(folds) => folds.forEach((fold) => { fold.open = true })")
    expect(prompt.locator("details details")).to_have_count(4)
    expect(prompt).to_contain_text("onerror")


def test_nothing_that_agents_say_is_run(board: BoardPage) -> None:
    """The tree of a rollout, and rollouts in flight."""
    board.go(run=f"agents{NAMED}", step=1, tab="tree").settled(1)
    tree = board.page.locator(".rl-tree")
    expect(tree.locator(".node")).to_have_count(3)
    expect(tree.locator(".node strong").first).to_contain_text("<img class=evil")
    expect(tree.locator(".remark").first).to_contain_text("onerror")
    expect(tree.locator(".link").first).to_contain_text("<img class=evil")
    hover(tree.locator(".node").nth(1))
    nothing_ran(board.page)
    board.tab("In flight")
    flight = board.page.locator(".rl-in-flight")
    expect(flight.locator(".rollout strong")).to_contain_text("<img class=evil")
    expect(flight.locator(".remark")).to_contain_text(["ends in the middle of a line"])
    expect(flight.locator(".idle")).to_contain_text("<img class=evil")
    hover(flight.locator(".rollout"))
    nothing_ran(board.page)


def test_nothing_that_judges_failures_and_reports_say_is_run(board: BoardPage) -> None:
    """Cards of judges, classes of failures, claims, a replay, and two rollouts beside each other."""
    run = f"judged{NAMED}"
    board.go(run=run, step=1, page="samples", tab="judging").settled(1)
    page = board.page
    card = page.locator(".rl-judging .card").first
    expect(card).to_contain_text("<img class=evil")
    card.locator("summary").first.click()
    expect(card.locator("pre").first).to_contain_text("onerror")
    nothing_ran(page)
    board.go(run=run, page="failures")
    failures = page.locator(".rl-failures-view")
    failures.locator("details").evaluate_all("(folds) => folds.forEach((fold) => { fold.open = true })")
    expect(failures.locator(".sample").first).to_contain_text("<img class=evil")
    nothing_ran(page)
    board.go(run=run, page="investigations")
    expect(page.locator(".rl-investigations .claim.broken")).to_have_count(2)
    expect(page.locator(".rl-investigations")).to_contain_text("onerror")
    nothing_ran(page)
    board.go(run=run, step=1, page="samples", tab="conversation")
    talk = page.locator(".rl-conversation").first
    expect(talk).to_contain_text("<img class=evil")
    talk.locator(".replay-toggle").click()
    board.press("b")
    expect(page).to_have_url(re.compile("pair="))
    expect(page.locator(".rl-conversation:visible")).to_have_count(2)
    nothing_ran(page)


def test_nothing_that_a_link_says_is_run(open_board: OpenBoard) -> None:
    link = ATTACK[:250]
    board = open_board(
        run="plain", **dict.fromkeys(("step", "token", "theme", "metric", "curves", "scope"), link)
    )
    for key in ("step", "token", "theme"):
        expect(board.notice.first).to_contain_text(f"{key}=<img class=evil")
    board.settled()
    nothing_ran(board.page)
    board.go(run="plain", step=1, search=link)
    expect(board.count).to_contain_text("0 of 1 match")
    expect(board.page.locator(".rl-query")).to_contain_text("<img class=evil")
    nothing_ran(board.page)
    board.go(run="plain", step=1, sample=link)
    expect(board.sample_head).to_contain_text("<img class=evil")
    nothing_ran(board.page)
    board.go(run="plain", step=1, sort=link)
    expect(board.page.locator(".rl-query .says")).to_contain_text("<img class=evil")
    board.go(run="plain", step=1, filter=link)
    expect(board.page.locator(".rl-query input")).to_have_value(link)
    expect(board.page.locator(".rl-query .says .wrong")).to_be_visible()
    nothing_ran(board.page)
    other = open_board(run=link)
    other.page.wait_for_function("() => window.noticed.some((said) => said.includes('<img class=evil'))")
    nothing_ran(other.settled().page)


def test_a_folder_without_runs_is_named_as_text(tmp_path: Path, open_board: OpenBoard) -> None:
    empty = tmp_path / f"e{NAMED}"
    empty.mkdir()
    with Served(empty) as server:
        board = open_board(server=server)
        expect(board.stage).to_contain_text(NAMED)
        assert quote(NAMED) not in board.page.url
        nothing_ran(board.page)
