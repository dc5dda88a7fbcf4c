// The export menu of a card: it requests an export from the server and saves what it receives.

/** Create the menu; `getPlot` returns the view of the plot that the card shows now. */
function exportMenu(model, getPlot) {
  const files = [
    ["PNG", "png"],
    ["SVG", "svg"],
    ["CSV", "csv"],
    [t("CSV, raw"), "csv-raw"],
  ]
  const entries = [...files, ...(model.entries ?? []).map((label) => [label, label])]
  model.on("msg:custom", async (message) => {
    if (message.kind === "csv") {
      save([message.text], message.file, "text/csv")
      return
    }
    if (message.kind === "copy") {
      await copy(message.text)
      showCopied(chosen.querySelector("summary"))
      return
    }
    const plot = getPlot()
    if (!plot) return
    const picture = draw(plot, message)
    if (message.kind === "svg") save([picture.text], message.file, "image/svg+xml")
    else {
      save([await raster(picture)], message.file, "image/png")
    }
  })
  const chosen = menu(
    "⋮",
    t("Export this plot as PNG or SVG, or its data as CSV"),
    () => entries,
    (kind) => model.send_msg(kind),
  )
  return chosen
}
