// The menu of a card: what it shows, as a file.

/** The plot that stands in the same card, or part of one, now; it is another one when ridges take a curve's place. */
function plotBeside(view) {
  const frames = ["rl-card", "rl-plot"]
  let card = view
  while (card.parent && !frames.some((name) => card.el.classList.contains(name))) { card = card.parent }
  const found = [card]
  for (const one of found) {
    if (one.model.type === "Figure") { return one }
    found.push(...(one.child_views ?? []))
  }
}

export function render({ model, view }) {
  const entries = [["PNG", "png"], ["SVG", "svg"], ["CSV: the numbers", "csv"], ["CSV, raw", "csv-raw"]]
  model.on("msg:custom", async (told) => {
    if (told.kind === "csv") { save([told.text], told.file, "text/csv"); return }
    const plot = plotBeside(view)
    if (!plot) { return }
    const picture = draw(plot, told)
    if (told.kind === "svg") { save([picture.text], told.file, "image/svg+xml") }
    else { save([await raster(picture)], told.file, "image/png") }
  })
  return menu("⋮", "take this plot away: PNG, SVG, or its numbers as CSV", () => entries, (kind) => model.send_msg(kind))
}
