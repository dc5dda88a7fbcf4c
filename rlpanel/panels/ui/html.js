// Shows HTML that the server has escaped; an element with the attribute data-in-sight is scrolled into view.
export function render({ model }) {
  const box = document.createElement("div")
  const draw = () => {
    box.innerHTML = model.html
    const place = box.querySelector("[data-in-sight]")
    if (place) requestAnimationFrame(() => place.scrollIntoView({ block: "center" }))
  }
  model.on("html", draw)
  draw()
  if (model.reports) model.send_msg("drawn")
  return box
}
