/** Return the plot that the menu's card, or its part of a card, shows now. Ridges may have replaced a curve. */
function findPlot(view) {
  const frames = ["rl-card", "rl-plot"]
  let card = view
  while (card.parent && !frames.some((name) => card.el.classList.contains(name))) card = card.parent
  const queue = [card]
  for (const descendant of queue) {
    if (descendant.model.type === "Figure") return descendant
    queue.push(...(descendant.child_views ?? []))
  }
}

/** Name the plot after its card for screen readers: Bokeh puts plots into the tab order without a name. */
function namePlot(view, frames = 300) {
  const plot = findPlot(view)?.canvas_view?.events_el
  const title = findDeep(view.parent.parent?.el.shadowRoot ?? document, ".head b, .caption")
  if (plot && title) {
    plot.setAttribute("role", "img")
    plot.ariaLabel = t("Plot of {title}", { title: title.textContent })
  } else if (frames) {
    requestAnimationFrame(() => namePlot(view, frames - 1))
  }
}

export function render({ model, view }) {
  model.on("after_render", () => requestAnimationFrame(() => namePlot(view)))
  return exportMenu(model, () => findPlot(view))
}
