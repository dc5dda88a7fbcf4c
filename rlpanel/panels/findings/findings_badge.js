// A badge that counts the findings; a list of them below it. Texts are set as text, never as HTML.
function make(tag, name, text) {
  const element = document.createElement(tag)
  if (name) { element.className = name }
  if (text !== undefined) { element.textContent = text }
  return element
}

function entry(model, finding, close) {
  const item = make("li", finding.severity)
  const open = make("button", "open")
  open.type = "button"
  open.append(make("span", "mark", finding.severity === "alarm" ? "▲" : "●"), make("b", "", finding.sentence))
  open.title = "Show the step and the samples behind it"
  open.addEventListener("click", () => { model.send_msg(finding.key); close() })
  item.append(open, ...finding.evidence.map((line) => make("p", "", line)))
  return item
}

const heading = (count) => `${count} ${count === 1 ? "finding" : "findings"}`

export function render({ model, el }) {
  const box = make("details", "rl-finding-list")
  const badge = make("summary", "pill")
  const list = make("ul")
  box.append(badge, list)
  const close = () => { box.open = false }
  const outside = (event) => { if (!event.composedPath().includes(box)) { close() } }
  const escape = (event) => { if (event.key === "Escape") { close() } }
  document.addEventListener("pointerdown", outside)
  document.addEventListener("keydown", escape)

  const draw = () => {
    const found = model.found
    const alarm = found.some((finding) => finding.severity === "alarm")
    badge.className = `pill${found.length ? (alarm ? " alarm" : " warning") : ""}`
    badge.textContent = model.checked ? heading(found.length) : "checking …"
    const nothing = make("li", "none", "The rules found nothing in the steps that are complete.")
    list.replaceChildren(...(found.length ? found.map((f) => entry(model, f, close)) : [nothing]))
  }
  model.on("found", draw)
  model.on("checked", draw)
  model.on("remove", () => {
    document.removeEventListener("pointerdown", outside)
    document.removeEventListener("keydown", escape)
  })
  draw()
  return box
}
