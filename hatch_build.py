"""The parts of the package's metadata that depend on the repository's address: links, and the README.

An index of packages shows the README apart from the repository. Its relative links would lead nowhere there.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

#: A picture or a link of Markdown: its mark, text and target. A picture may be the text of a link.
_LINK = re.compile(r"(!?)\[((?:!\[[^]]*]\([^)]*\)|[^][])*)]\(([^)\s]+)\)")
#: Names of a project's links, as PyPI knows them, to the paths below the repository's address.
_PAGES = {
    "Source": "",
    "Documentation": "/blob/main/docs/index.md",
    "Changelog": "/blob/main/CHANGELOG.md",
    "Issues": "/issues",
}


def repository(declared: str) -> str:
    """Return the declared address of the repository, else that of the workflow that builds; else empty."""
    server, name = os.environ.get("GITHUB_SERVER_URL", ""), os.environ.get("GITHUB_REPOSITORY", "")
    return (declared or (f"{server}/{name}" if server and name else "")).rstrip("/")


def links(address: str) -> dict[str, str]:
    """Return the project's links; none if the address is not known."""
    return {title: f"{address}{path}" for title, path in _PAGES.items()} if address else {}


def absolute(text: str, address: str, tag: str) -> str:
    """Return Markdown whose relative links lead into the repository at a tag.

    Without an address, a link is its text, and a picture is left out. Code blocks stay as they are.
    """

    def link(found: re.Match[str]) -> str:
        mark, shown, target = found.groups()
        shown = _LINK.sub(link, shown)
        if re.match(r"[a-z]+:|#", target):
            return f"{mark}[{shown}]({target})"
        if not address:
            return "" if mark else shown
        return f"{mark}[{shown}]({address}/{'raw' if mark else 'blob'}/{tag}/{target})"

    parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else _LINK.sub(link, part) for part in parts)


class PackagePage(MetadataHookInterface):
    """Adds the README and the links of the project to the metadata."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the fields that pyproject.toml declares as dynamic."""
        address = repository(self.config["repository"])
        # The version is another plugin's field, which may not be set yet.
        version = re.search(r'^__version__ = "(.+)"$', self._read("rlpanel/__init__.py"), re.MULTILINE)
        assert version is not None
        text = absolute(self._read("README.md"), address, f"v{version[1]}")
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = links(address)

    def _read(self, name: str) -> str:
        return (Path(self.root) / name).read_text("utf-8")
