"""Keys for the whole page: ←/→ step, j/k sample, / search; left alone while somebody types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import param
from panel.custom import JSComponent

_ESM = """
const KEYS = new Set(["ArrowLeft", "ArrowRight", "j", "k", "/"])

function typing(event) {
  // composedPath sees through shadow roots, where event.target stops at the host
  return event.composedPath().some((el) => el.matches && el.matches("input, textarea, select, [contenteditable], [role=slider], .rl-tokens"))
}

function search(root) {
  for (const el of root.querySelectorAll("*")) {
    if (el.shadowRoot) {
      const found = search(el.shadowRoot)
      if (found) { return found }
    }
    if (el.matches(".rl-search input") || (el.matches("input") && (el.placeholder || "").startsWith("search prompts"))) { return el }
  }
  return null
}

export function render({ model }) {
  const listen = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey || !KEYS.has(event.key) || typing(event)) { return }
    event.preventDefault()
    if (event.key === "/") { search(document)?.focus(); return }
    model.send_msg(event.key)
  }
  document.addEventListener("keydown", listen)
  model.on("remove", () => document.removeEventListener("keydown", listen))
  return document.createElement("span")
}
"""


class Keyboard(JSComponent):
    """Sends the page's keys to ``on_key``."""

    on_key = param.Callable(doc="Called with the key's name.", precedence=-1)

    _esm = _ESM
    _rename = {"on_key": None}

    def __init__(self, on_key: Callable[[str], None], **params: Any) -> None:
        super().__init__(on_key=on_key, width=0, height=0, margin=0, **params)

    def _handle_msg(self, msg: Any) -> None:
        if isinstance(msg, str):
            self.on_key(msg)
