// The head of a card: texts and export menu above a Bokeh figure, which is the next part of the card.

export function render({ model, el }) {
  const top = element("div", "top"),
    text = element("div", "text"),
    takes = element("div", "rl-take")
  const card = () => el.getRootNode().host?.getRootNode()
  const findPlot = () => {
    const figure = card()?.querySelector(".bk-Figure")
    return figure && Bokeh.index.query_one((view) => view.el === figure)
  }
  takes.append(exportMenu(model, findPlot))
  top.append(text, takes)
  /** Name the plot for screen readers: Bokeh puts plots into the tab order without a name. */
  const namePlot = (frames = 300) => {
    const plot = card() && findDeep(card(), ".bk-events"),
      title = text.querySelector(".head b, .caption")
    if (plot && title) {
      plot.setAttribute("role", "img")
      plot.ariaLabel = t("Plot of {title}", { title: title.textContent })
    } else if (frames) {
      requestAnimationFrame(() => namePlot(frames - 1))
    }
  }
  const write = () => {
    text.innerHTML = model.head
    text.querySelector(".head")?.insertAdjacentHTML("beforeend", model.value)
  }
  model.on(["head", "value"], write)
  model.on("head", () => namePlot()) // the figure may have been replaced
  model.on("after_render", () => namePlot())
  write()
  return top
}
