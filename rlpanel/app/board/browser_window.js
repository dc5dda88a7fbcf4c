// Handles the page's keyboard shortcuts, except while a field has the focus, and keeps the URL in sync,
// including Back and Forward.
const KEYS = new Set(["ArrowLeft", "ArrowRight", "j", "k", "[", "]", "/", "f", "m", "Escape", "?"])
// A box has no letters: its keys are the page's, but for the space.
const FIELDS = "input:not([type=checkbox]), textarea, select, [contenteditable], [role=slider]"

// composedPath includes elements inside shadow roots; event.target is only the shadow host.
const typing = (event) => event.composedPath().some((el) => el.matches?.(FIELDS))

/** Focus the first text field of an element, which may have a shadow root. */
function focusField(selector) {
  const host = findDeep(document, selector)
  if (host) findDeep(host.shadowRoot ?? host, "input")?.focus()
}

export function render({ model }) {
  const onKeyDown = (event) => {
    const moves = { ArrowDown: "j", ArrowUp: "k" }
    const inTable = event.composedPath().some((el) => el.classList?.contains("rl-grid")) && !typing(event)
    if (inTable && moves[event.key]) {
      event.preventDefault()
      model.send_msg(moves[event.key])
      return
    }
    const chord = event.ctrlKey || event.metaKey || event.altKey
    if (chord || !KEYS.has(event.key) || typing(event)) return
    if (event.key === "Escape") {
      if (!event.defaultPrevented) model.send_msg(event.key)
      return
    }
    event.preventDefault()
    if (event.key === "/") {
      focusField(".rl-search")
    } else if (event.key === "f") {
      focusField(".rl-query")
    } else if (event.key === "?") {
      findDeep(document, "details.rl-help")?.toggleAttribute("open")
    } else {
      model.send_msg(event.key)
    }
  }
  document.addEventListener("keydown", onKeyDown)

  const show = (query, method) => {
    if (location.search !== query) {
      history[method]({}, "", `${location.pathname}${query}${location.hash}`)
    }
  }
  show(model.query, "replaceState")
  const entitle = () => {
    document.title = model.title
  }
  model.on("title", entitle)
  entitle()

  // The server answers each Back or Forward with the query that the board shows. Until the last answer, other
  // queries belong to pages that the user has left. A corrected query replaces the history entry: with a new
  // entry, Back would lead to the wrong query again.
  let unanswered = 0
  const onPopState = () => {
    unanswered += 1
    model.send_msg({ navigated: location.search })
  }
  model.on("msg:custom", ({ answer }) => {
    unanswered -= 1
    if (!unanswered) show(answer, "replaceState")
  })
  // The turn in sight changes while the reader scrolls: Back leads to what was chosen before.
  const withoutTurn = (query) => {
    const values = new URLSearchParams(query)
    values.delete("turn")
    return String(values)
  }
  model.on("query", () => {
    const isScrolled = withoutTurn(model.query) === withoutTurn(location.search)
    if (!unanswered) show(model.query, isScrolled ? "replaceState" : "pushState")
  })
  window.addEventListener("popstate", onPopState)

  model.on("remove", () => {
    document.removeEventListener("keydown", onKeyDown)
    window.removeEventListener("popstate", onPopState)
  })
  return document.createElement("span")
}
