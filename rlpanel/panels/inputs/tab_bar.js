// Draws tabs in one row; those without room are in a list behind "more". Arrow keys, Home and End move between
// tabs; only the open tab is in the tab order.

export function render({ model }) {
  const bar = element("div", "tabs")
  bar.setAttribute("role", "tablist")
  const more = element("details", "more")
  const summary = element("summary", "tab", t("more ▾"))
  const list = element("div", "list")
  more.append(summary, list)
  const stop = closeOnEscape(more, summary)
  let all = []
  let widths = [] // of all tabs, once they are on the screen

  const open = (key) => {
    more.open = false
    if (key !== model.value) model.send_msg(key)
  }

  const draw = () => {
    all = model.tabs.map(({ key, title }) => {
      const tab = element("button", "tab", title)
      Object.assign(tab, { type: "button" })
      tab.dataset.key = key
      tab.setAttribute("role", "tab")
      tab.addEventListener("click", () => open(key))
      return tab
    })
    widths = []
    if (model.label) bar.setAttribute("aria-label", model.label)
    select()
  }

  const select = () => {
    for (const tab of all) {
      const chosen = tab.dataset.key === model.value
      tab.setAttribute("aria-selected", String(chosen))
      tab.tabIndex = chosen ? 0 : -1
    }
    place()
  }

  /** Put the tabs that fit into the row, the open one among them, and the others into the list. */
  const place = () => {
    if (!bar.clientWidth) {
      bar.replaceChildren(...all)
      return
    }
    if (!widths.length) {
      more.hidden = false
      bar.replaceChildren(...all, more)
      widths = [...all, more].map((tab) => tab.getBoundingClientRect().width)
    }
    const own = widths.at(-1)
    const whole = widths.slice(0, -1).reduce((sum, width) => sum + width, 0)
    bar.style.width = `${Math.ceil(whole)}px`
    const room = bar.clientWidth
    const shown = new Set()
    const chosen = all.findIndex((tab) => tab.dataset.key === model.value)
    let left = whole <= room ? whole : room - own - (widths[chosen] ?? 0)
    if (whole > room) shown.add(chosen)
    for (let i = 0; i < all.length; i++) {
      if (shown.has(i)) continue
      left -= widths[i]
      if (left < 0) break
      shown.add(i)
    }
    const focused = bar.getRootNode().activeElement
    const hidden = all.filter((_, i) => !shown.has(i))
    list.replaceChildren(...hidden)
    more.hidden = !hidden.length
    bar.replaceChildren(...all.filter((_, i) => shown.has(i)), more)
    if (all.includes(focused)) focused.focus()
  }

  bar.addEventListener("keydown", (event) => {
    const at = all.indexOf(event.target)
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: all.length - 1 }[event.key]
    if (at < 0 || to === undefined) return
    event.preventDefault()
    event.stopPropagation()
    const tab = all[(to + all.length) % all.length]
    if (list.contains(tab)) more.open = true
    tab.focus()
    open(tab.dataset.key)
  })
  const watch = new ResizeObserver(place)
  watch.observe(bar)
  document.fonts?.ready.then(() => {
    widths = []
    place()
  })
  model.on("tabs", draw)
  model.on("value", select)
  model.on("remove", () => {
    watch.disconnect()
    stop()
  })
  draw()
  return bar
}
