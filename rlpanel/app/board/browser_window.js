// Keys for the whole page, left alone while somebody types; the address, with Back and Forward.
const KEYS = new Set(["ArrowLeft", "ArrowRight", "j", "k", "[", "]", "/", "f", "?"])
const BUSY = "input, textarea, select, [contenteditable], [role=slider]"

// composedPath sees through shadow roots, where event.target stops at the host
const typing = (event) => event.composedPath().some((el) => el.matches && el.matches(BUSY))

// The first element that matches, shadow roots included.
function find(root, selector) {
  const here = root.querySelector(selector)
  if (here) { return here }
  for (const el of root.querySelectorAll("*")) {
    const found = el.shadowRoot && find(el.shadowRoot, selector)
    if (found) { return found }
  }
  return null
}

export function render({ model }) {
  const listen = (event) => {
    const chord = event.ctrlKey || event.metaKey || event.altKey
    if (chord || !KEYS.has(event.key) || typing(event)) { return }
    event.preventDefault()
    if (event.key === "/") {
      find(document, "input[placeholder^='search prompts']")?.focus()
    } else if (event.key === "f") {
      find(document, "input[placeholder^='filter']")?.focus()
    } else if (event.key === "?") {
      find(document, "details.rl-help")?.toggleAttribute("open")
    } else {
      model.send_msg(event.key)
    }
  }
  document.addEventListener("keydown", listen)

  const address = () => `${location.pathname}${model.query}${location.hash}`
  const differs = () => location.search !== model.query
  if (differs()) { history.replaceState({}, "", address()) }
  model.on("query", () => { if (differs()) { history.pushState({}, "", address()) } })
  const moved = () => { model.query = location.search }
  window.addEventListener("popstate", moved)

  model.on("remove", () => {
    document.removeEventListener("keydown", listen)
    window.removeEventListener("popstate", moved)
  })
  return document.createElement("span")
}
