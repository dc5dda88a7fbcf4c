// A button that opens a list: [label, what is sent when it is chosen, why it cannot be].
function menu(title, tip, entries, act) {
  const box = element("details", "menu")
  const summary = element("summary", "", title)
  summary.title = tip
  const list = element("div", "list")
  box.append(summary, list)
  const outside = (event) => { if (!event.composedPath().includes(box)) { box.open = false } }
  box.addEventListener("toggle", () => {
    const listen = box.open ? "addEventListener" : "removeEventListener"
    document[listen]("pointerdown", outside)
    if (!box.open) { return }
    list.replaceChildren(...entries().map(([label, sent, why]) => {
      const button = element("button", "", label)
      Object.assign(button, { disabled: Boolean(why), title: why ?? "" })
      button.addEventListener("click", () => { box.open = false; act(sent, label) })
      return button
    }))
  })
  return box
}
