// The export menu of a card.

/** Return the plot that the menu's card, or its part of a card, shows now. Ridges may have replaced a curve. */
function findPlot(view) {
  const frames = ["rl-card", "rl-plot"]
  let card = view
  while (card.parent && !frames.some((name) => card.el.classList.contains(name))) { card = card.parent }
  const queue = [card]
  for (const descendant of queue) {
    if (descendant.model.type === "Figure") { return descendant }
    queue.push(...(descendant.child_views ?? []))
  }
}

export function render({ model, view }) {
  const entries = [["PNG", "png"], ["SVG", "svg"], ["CSV", "csv"], ["CSV, raw", "csv-raw"]]
  model.on("msg:custom", async (message) => {
    if (message.kind === "csv") { save([message.text], message.file, "text/csv"); return }
    const plot = findPlot(view)
    if (!plot) { return }
    const picture = draw(plot, message)
    if (message.kind === "svg") { save([picture.text], message.file, "image/svg+xml") }
    else { save([await raster(picture)], message.file, "image/png") }
  })
  return menu("⋮", "Export this plot as PNG or SVG, or its data as CSV", () => entries, (kind) => model.send_msg(kind))
}
