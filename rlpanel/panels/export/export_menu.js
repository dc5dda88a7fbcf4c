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

export function render({ model, view }) { return exportMenu(model, () => findPlot(view)) }
