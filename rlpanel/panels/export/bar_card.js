// A card: title, notes and export menu above bars.

export function render({ model }) {
  const card = element("div", "card"),
    top = element("div", "top")
  const head = element("div", "head")
  const pick = model.clickable ? (x) => model.send_msg(["pick", x]) : null
  const brush = model.brushable ? (from, to) => model.send_msg(["brush", from, to]) : null
  const bars = barPlot(model.height_px, pick, brush)
  const takes = element("div", "rl-take")
  takes.append(exportMenu(model, () => bars.view()))
  top.append(head, takes)
  card.append(top, bars.node)
  const write = () => {
    const { title = "", tip = "", notes = [] } = model.head
    head.title = [tip, ...notes.map(([text]) => text)].filter(Boolean).join("\n")
    // The blanks separate the parts for screen readers and copies; the layout ignores them.
    head.replaceChildren(
      element("b", "", title),
      ...notes.flatMap(([text, style]) => [" ", element("span", `unit ${style}`, text)]),
    )
    bars.node.setAttribute("role", "img")
    bars.node.setAttribute("aria-label", [title, ...notes.map(([text]) => text)].join(", "))
  }
  const show = () => bars.show(model.plot, model.marker)
  model.on("head", write)
  model.on(["plot", "marker"], show)
  model.on("after_render", show)
  write()
  return card
}
