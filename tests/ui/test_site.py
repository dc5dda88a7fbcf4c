"""The documentation site, opened from the disk: no requests, two languages, narrow and dark pages."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, expect

from docs.navigation import SECTIONS
from rlpanel import __version__ as version

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it: a warning fails the build."""
    folder = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-W",
        "--keep-going",
        "-c",
        "docs/site",
        ".",
        str(folder),
    ]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert built.returncode == 0, built.stderr
    return folder


@pytest.fixture
def reader(browser: Browser) -> Iterator[Page]:
    """A page that must not request anything but files."""
    context = browser.new_context(
        viewport={"width": 1440, "height": 900}, color_scheme="dark", locale="en-US"
    )
    left: list[str] = []
    context.on("request", lambda one: left.append(one.url) if not one.url.startswith("file:") else None)
    yield context.new_page()
    context.close()
    assert left == []


def test_the_first_page_leads_to_the_documentation(site: Path, reader: Page) -> None:
    reader.goto((site / "index.html").as_uri())
    expect(reader.get_by_role("heading", name="rlpanel", exact=False).first).to_be_visible()
    expect(reader.locator("html")).to_have_attribute("data-theme", "dark")
    for section in SECTIONS:
        expect(
            reader.locator(".bd-sidebar-primary .caption").get_by_text(section, exact=True)
        ).to_be_visible()


def test_the_api_page_tells_of_public_methods(site: Path, reader: Page) -> None:
    reader.goto((site / "docs/site/api.html").as_uri())
    expect(reader.locator("[id='rlpanel.Run.samples']")).to_be_visible()


def test_a_formula_is_drawn_without_a_script(site: Path, reader: Page) -> None:
    reader.goto((site / "docs/metrics.html").as_uri())
    formula = reader.locator("math mfrac").first
    expect(formula).to_be_visible()
    assert formula.evaluate("(node) => node.children.length") == 2


def test_the_search_finds_a_metric(site: Path, reader: Page) -> None:
    reader.goto((site / "search.html").as_uri() + "?q=kl_k3")
    expect(reader.locator("#search-results a", has_text="Metrics").first).to_be_visible()


def found(site: Path, reader: Page, query: str) -> list[str]:
    """Return the titles that the search finds, the best first."""
    reader.goto((site / "search.html").as_uri() + "?q=" + quote(query))
    expect(reader.locator("#search-results .search-summary")).to_contain_text(
        re.compile("found|did not match")
    )
    return [title.strip() for title in reader.locator("#search-results li > a").all_text_contents()]


@pytest.mark.parametrize(
    ("query", "title"),
    [
        ("reward hacking", "Glossary"),
        ("wandb", "Glossary"),
        ("grad_norm", "Glossary"),
        ("kl spike", "Findings"),
        ("kl_spike", "Findings"),
        ("DingTalk", "Alerts"),
        ("崩溃", "从训练脚本到崩溃的原因"),
        ("看板", "从训练脚本到崩溃的原因"),
        ("奖励", "rlpanel"),
        ("告警 飞书", "rlpanel"),
        ("安装方式", "开始"),
        ("装", "安装"),
    ],
)
def test_the_search_finds_what_people_look_for(site: Path, reader: Page, query: str, title: str) -> None:
    assert title in found(site, reader, query)


def test_a_word_that_no_page_has_is_not_found(site: Path, reader: Page) -> None:
    assert found(site, reader, "钢琴") == found(site, reader, "zeppelins") == []


@pytest.mark.parametrize(
    ("page", "name", "leads_to"),
    [
        ("docs/start", "中文", "docs/start.zh"),
        ("docs/start.zh", "English", "docs/start"),
        ("docs/store", "中文", "docs/index.zh"),
        ("README.zh", "English", "README"),
    ],
)
def test_the_switch_leads_to_the_other_language(
    site: Path, reader: Page, page: str, name: str, leads_to: str
) -> None:
    reader.goto((site / f"{page}.html").as_uri())
    reader.locator(".bd-header .rl-language", has_text=name).first.click()
    assert reader.url == (site / f"{leads_to}.html").as_uri()


def test_a_chinese_page_lists_the_pages_by_chinese_names(site: Path, reader: Page) -> None:
    reader.goto((site / "docs/start.zh.html").as_uri())
    names = reader.locator(".bd-sidebar-primary .caption")
    expect(names.first).to_have_text("教程")
    expect(reader.locator("html")).to_have_attribute("lang", "zh-CN")
    expect(reader.get_by_text("On this page")).to_have_count(0)
    reader.locator(".bd-sidebar-primary").get_by_role("link", name="安装").click()
    expect(reader.get_by_role("heading", name="安装", exact=False).first).to_be_visible()


def test_the_pages_are_listed_by_names(site: Path, reader: Page) -> None:
    reader.goto((site / "docs/index.html").as_uri())
    names = reader.locator(".bd-sidebar-primary a, article li > a").all_text_contents()
    assert "Trainer against engine" in names
    assert [name for name in names if name.strip().endswith(".md")] == []
    expect(reader.locator(".bd-header .rl-version").first).to_have_text(version)


@pytest.mark.parametrize("width", [1360, 1920])
def test_no_line_of_code_is_cut_off(site: Path, reader: Page, width: int) -> None:
    reader.set_viewport_size({"width": width, "height": 900})
    names = ["index", "tutorial", "tutorial.zh", "start", "cli", "python", "recording", "sql", "install.zh"]
    for name in names:
        reader.goto((site / f"docs/{name}.html").as_uri())
        blocks = reader.locator("article pre")
        cut = blocks.evaluate_all("(all) => all.filter((each) => each.scrollWidth > each.clientWidth).length")
        assert (name, cut) == (name, 0)
        assert blocks.count() > 0, name


def test_the_moving_picture_moves_and_is_small() -> None:
    path = ROOT / "docs" / "images" / "cause.gif"
    with Image.open(path) as picture:
        assert getattr(picture, "n_frames", 1) > 2
    assert path.stat().st_size < 1_000_000
    for name in ("index.md", "index.zh.md"):
        assert "](images/cause.gif)" in (ROOT / "docs" / name).read_text("utf-8")


def test_models_find_each_page_as_markdown(site: Path) -> None:
    lines = (site / "llms.txt").read_text("utf-8").splitlines()
    assert lines[0] == "# rlpanel"
    assert lines[2].startswith("> rlpanel shows")
    pages = re.findall(r"^- \[(.+)]\((.+)\): ", "\n".join(lines), re.MULTILINE)
    assert len(pages) == sum(map(len, SECTIONS.values()))
    assert [path for _, path in pages if not (site / path).is_file()] == []
    alerts = next(line for line in lines if "(docs/alerts.md)" in line)
    assert alerts.startswith("- [Alerts](docs/alerts.md): `rlpanel serve` can send findings, the problems")


@pytest.mark.parametrize(
    ("page", "anchor", "heading"),
    [
        ("findings", "kl-spike-kl-spike", "KL spike · kl_spike"),
        ("lint", "logprobs-vary-logprob-varies", "Logprobs vary · logprob_varies"),
        ("metrics", "kl-k3-kl-k3", "KL k3 · kl_k3"),
    ],
)
def test_a_rule_and_a_metric_have_an_address(
    site: Path, reader: Page, page: str, anchor: str, heading: str
) -> None:
    reader.goto((site / f"docs/{page}.html").as_uri() + f"#{anchor}")
    expect(reader.get_by_role("heading", name=heading)).to_be_in_viewport()


@pytest.mark.parametrize(
    "name", ["docs/index", "docs/index.zh", "docs/metrics", "docs/findings", "docs/site/api"]
)
def test_a_narrow_page_does_not_scroll_sideways(site: Path, reader: Page, name: str) -> None:
    reader.set_viewport_size({"width": 390, "height": 800})
    reader.goto((site / f"{name}.html").as_uri())
    assert reader.evaluate("document.scrollingElement.scrollWidth") <= 390
