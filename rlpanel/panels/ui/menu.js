// Create a button that opens a list of entries: [label, key passed to `act`, reason if disabled]. Escape closes it
// and returns the focus; the arrow keys move between the entries.
function menu(title, tip, entries, act) {
  const box = element("details", "menu")
  const summary = element("summary", "", title)
  summary.title = tip
  if (!/\p{L}/u.test(title)) summary.ariaLabel = tip
  const list = element("div", "list")
  box.append(summary, list)
  closeOnEscape(box, summary)
  box.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    const enabled = [...list.querySelectorAll("button:enabled")]
    if (!step || !box.open || !enabled.length) return
    event.preventDefault()
    event.stopPropagation()
    const at = enabled.indexOf(box.getRootNode().activeElement)
    enabled[
      at < 0 ? (step > 0 ? 0 : enabled.length - 1) : (at + step + enabled.length) % enabled.length
    ].focus()
  })
  box.addEventListener("toggle", () => {
    if (!box.open) return
    list.replaceChildren(
      ...entries().map(([label, key, reason]) => {
        const button = element("button", "", label)
        Object.assign(button, { disabled: Boolean(reason), title: reason ?? "" })
        button.addEventListener("click", () => {
          box.open = false
          summary.focus()
          act(key, label)
        })
        return button
      }),
    )
  })
  return box
}
