// Draws tabs in one row; those without room are in a list behind "more". Arrow keys, Home and End move between
// tabs; of the row only the open tab is in the tab order. In the list ↑ and ↓ move, and Enter opens.

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
  let wanted // key of a tab that was opened, until the server opens its page

  const open = (tab) => {
    wanted = tab.dataset.key
    place() // brings a tab of the list into the row, so that it keeps the focus when the list closes
    more.open = false
    tab.focus()
    if (wanted !== model.value) model.send_msg(wanted)
  }

  const draw = () => {
    all = model.tabs.map(({ key, title }) => {
      const tab = element("button", "tab", title)
      Object.assign(tab, { type: "button" })
      tab.dataset.key = key
      tab.setAttribute("role", "tab")
      tab.addEventListener("click", () => open(tab))
      return tab
    })
    widths = []
    if (model.label) bar.setAttribute("aria-label", model.label)
    select()
  }

  const select = () => {
    if (wanted === model.value) wanted = undefined // else the answer to an earlier click came
    for (const tab of all) tab.setAttribute("aria-selected", String(tab.dataset.key === model.value))
    place()
  }

  /** Put the tabs that fit into the row, the open and the wanted one among them, and the others into the list. */
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
    let left = whole
    if (whole > room) {
      for (const [i, tab] of all.entries()) if ([model.value, wanted].includes(tab.dataset.key)) shown.add(i)
      left = room - own - [...shown].reduce((sum, i) => sum + widths[i], 0)
    }
    for (let i = 0; i < all.length; i++) {
      if (shown.has(i)) continue
      left -= widths[i]
      if (left < 0) break
      shown.add(i)
    }
    const focused = bar.getRootNode().activeElement
    const hidden = all.filter((_, i) => !shown.has(i))
    for (const tab of all) tab.tabIndex = hidden.includes(tab) || tab.dataset.key === model.value ? 0 : -1
    list.replaceChildren(...hidden)
    more.hidden = !hidden.length
    bar.replaceChildren(...all.filter((_, i) => shown.has(i)), more)
    if (all.includes(focused)) focused.focus()
  }

  more.addEventListener("keydown", (event) => {
    const move = { ArrowUp: -1, ArrowDown: 1 }[event.key]
    if (!move) return
    event.preventDefault()
    event.stopPropagation()
    const tabs = [...list.children]
    const at = tabs.indexOf(event.target) // -1 at "more ▾"
    more.open = true
    tabs.at(at < 0 && move < 0 ? -1 : (at + move) % tabs.length).focus()
  })
  bar.addEventListener("keydown", (event) => {
    const at = all.indexOf(event.target)
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: all.length - 1 }[event.key]
    if (at < 0 || to === undefined) return
    event.preventDefault()
    event.stopPropagation()
    open(all[(to + all.length) % all.length])
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
