// Draws a badge with the number of findings, and their list below it. Texts are inserted as text, never as
// HTML.
function createElement(tag, name, text) {
  const element = document.createElement(tag)
  if (name) { element.className = name }
  if (text !== undefined) { element.textContent = text }
  return element
}

function createItem(model, finding, close) {
  const item = createElement("li", finding.severity)
  const open = createElement("button", "open")
  const mark = createElement("span", "mark", finding.severity === "alarm" ? "▲" : "●")
  open.type = "button"
  open.append(mark, createElement("b", "", finding.sentence))
  open.title = "Show the affected step and samples"
  open.addEventListener("click", () => { model.send_msg(finding.key); close() })
  item.append(open, ...finding.evidence.map((line) => createElement("p", "", line)))
  return item
}

const heading = (count) => `${count} ${count === 1 ? "finding" : "findings"}`

export function render({ model, el }) {
  const box = createElement("details", "rl-finding-list")
  const badge = createElement("summary", "pill")
  const list = createElement("ul")
  box.append(badge, list)
  const close = () => { box.open = false }
  const onPointerDown = (event) => { if (!event.composedPath().includes(box)) { close() } }
  const onKeyDown = (event) => { if (event.key === "Escape") { close() } }
  document.addEventListener("pointerdown", onPointerDown)
  document.addEventListener("keydown", onKeyDown)

  const draw = () => {
    const findings = model.found
    const alarm = findings.some((finding) => finding.severity === "alarm")
    badge.className = `pill${findings.length ? (alarm ? " alarm" : " warning") : ""}`
    badge.textContent = model.checked ? heading(findings.length) : "checking …"
    const none = createElement("li", "none", "No findings in the complete steps.")
    list.replaceChildren(...(findings.length ? findings.map((f) => createItem(model, f, close)) : [none]))
  }
  model.on("found", draw)
  model.on("checked", draw)
  model.on("remove", () => {
    document.removeEventListener("pointerdown", onPointerDown)
    document.removeEventListener("keydown", onKeyDown)
  })
  draw()
  return box
}
