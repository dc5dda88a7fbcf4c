// Create a button that opens a list of entries: [label, key passed to `act`, reason if disabled].
function menu(title, tip, entries, act) {
  const box = element("details", "menu")
  const summary = element("summary", "", title)
  summary.title = tip
  const list = element("div", "list")
  box.append(summary, list)
  const closeIfOutside = (event) => { if (!event.composedPath().includes(box)) { box.open = false } }
  box.addEventListener("toggle", () => {
    const method = box.open ? "addEventListener" : "removeEventListener"
    document[method]("pointerdown", closeIfOutside)
    if (!box.open) { return }
    list.replaceChildren(...entries().map(([label, key, reason]) => {
      const button = element("button", "", label)
      Object.assign(button, { disabled: Boolean(reason), title: reason ?? "" })
      button.addEventListener("click", () => { box.open = false; act(key, label) })
      return button
    }))
  })
  return box
}
