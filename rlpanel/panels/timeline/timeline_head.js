// What stands above a timeline: its order, its colours, the legend, and the slowest rollouts as buttons.

/** Labels of choices; names of columns stay as they are. */
const LABELS = {
  "slowest first": t("slowest first"),
  "by rank": t("by rank"),
  "by worker": t("by worker"),
  phase: t("phase"),
}

function choices(label, names, chosen, choose) {
  const root = element("div", "choice")
  root.setAttribute("role", "group")
  root.setAttribute("aria-label", label)
  root.hidden = names.length < 2
  root.append(
    ...names.map((name) => {
      const chip = button("chip", LABELS[name] ?? name, "", () => choose(name))
      chip.setAttribute("aria-pressed", name === chosen)
      return chip
    }),
  )
  return root
}

function legend(entries) {
  const root = element("div", "legend")
  root.append(
    ...entries.map(([name, color]) => {
      const entry = element("span", "", name)
      const box = element("i")
      box.style.background = color
      entry.prepend(box)
      return entry
    }),
  )
  return root
}

/** The slowest rollouts; they lead to their samples, as the bars do. */
function slowest(rollouts, pick) {
  const root = element("div", "slowest")
  root.append(
    t("Slowest:"),
    " ",
    ...rollouts.map(([position, text, title]) => button("link", text, title, () => pick(position))),
  )
  return root
}

export function render({ model }) {
  const root = element("div", "head")
  const send = (action) => (value) => model.send_msg([action, value])
  const show = () => {
    const {
      note = "",
      orders = [],
      order,
      colorings = [],
      coloring,
      entries = [],
      rollouts = [],
    } = model.data
    const focused = root.getRootNode().activeElement?.textContent
    const tools = element("div", "tools")
    tools.append(
      choices(t("Order"), orders, order, send("order")),
      choices(t("Colour"), colorings, coloring, send("color")),
      legend(entries),
    )
    if (model.zoomed) {
      tools.append(button("chip reset", t("Show all"), t("Shows all rollouts again"), () => send("all")(0)))
    }
    tools.hidden = !rollouts.length
    const links = slowest(rollouts, send("pick"))
    links.hidden = !rollouts.length
    root.replaceChildren(tools, element("div", "note", note), links)
    if (focused) [...root.querySelectorAll("button")].find((each) => each.textContent === focused)?.focus()
  }
  model.on("data", show)
  model.on("zoomed", show)
  model.on("after_render", () => {
    show()
    send("ready")(0)
  })
  return root
}
