// Draws tabs in groups. Arrow keys, Home and End move between tabs; only the open tab is in the tab order.

export function render({ model }) {
  const bar = element("div", "tabs")
  bar.setAttribute("role", "tablist")
  const buttons = () => [...bar.querySelectorAll("[role=tab]")]

  const open = (key) => {
    if (key !== model.value) model.send_msg(key)
  }

  const draw = () => {
    bar.replaceChildren()
    let group = null
    for (const { key, title, about } of model.tabs) {
      if (group?.dataset.about !== about) {
        group = element("span", "group")
        group.dataset.about = about
        group.append(element("span", "about", about))
        bar.append(group)
      }
      const tab = element("button", "tab", title)
      Object.assign(tab, { type: "button" })
      tab.dataset.key = key
      tab.setAttribute("role", "tab")
      tab.addEventListener("click", () => open(key))
      group.append(tab)
    }
    select()
  }

  const select = () => {
    for (const tab of buttons()) {
      const chosen = tab.dataset.key === model.value
      tab.setAttribute("aria-selected", String(chosen))
      tab.tabIndex = chosen ? 0 : -1
    }
  }

  bar.addEventListener("keydown", (event) => {
    const all = buttons()
    const at = all.indexOf(event.target)
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: all.length - 1 }[event.key]
    if (at < 0 || to === undefined) return
    event.preventDefault()
    event.stopPropagation()
    const tab = all[(to + all.length) % all.length]
    tab.focus()
    open(tab.dataset.key)
  })
  model.on("tabs", draw)
  model.on("value", select)
  draw()
  return bar
}
