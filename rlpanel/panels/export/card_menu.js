// The export menu of a card: it requests an export from the server and saves what it receives.

const HELP = "help"

/** Show the help of a card below its menu, until Escape or a click elsewhere. The card itself would cut it. */
function showHelp(box, text) {
  const note = element("div", "about", text)
  Object.assign(note, { popover: "auto", tabIndex: -1, role: "note" })
  box.after(note)
  note.showPopover()
  const place = box.getBoundingClientRect()
  note.style.top = `${Math.min(place.bottom + 3, innerHeight - note.offsetHeight - 8)}px`
  note.style.left = `${Math.max(8, place.right - note.offsetWidth)}px`
  note.addEventListener("toggle", ({ newState }) => newState === "closed" && note.remove())
  note.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return
    event.stopPropagation()
    event.preventDefault()
    note.hidePopover()
    box.querySelector("summary").focus()
  })
  note.focus()
}

/** Create the menu; `getPlot` returns the view of the plot that the card shows now. */
function exportMenu(model, getPlot) {
  const files = [
    ["PNG", "png"],
    ["SVG", "svg"],
    ["CSV", "csv"],
    [t("CSV, raw"), "csv-raw"],
  ]
  const about = () => chosen.parentElement.parentElement.querySelector(".head[title], [title].caption")?.title
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
    () => (about() ? [[t("What am I seeing?"), HELP], ...entries] : entries),
    (kind) => (kind === HELP ? showHelp(chosen, about()) : model.send_msg(kind)),
  )
  return chosen
}
