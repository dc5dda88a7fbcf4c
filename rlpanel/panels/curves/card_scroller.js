// Scrolls to the card of a curve and outlines it for a moment. The card may not be drawn yet.
const FRAMES = 300
const HEADER = 60

export function render({ model, el }) {
  const cards = () => {
    const row = el.getRootNode().host?.getRootNode().querySelector(".rl-curves")
    return [...(row?.shadowRoot?.querySelectorAll(".rl-curve") ?? [])]
  }
  const show = (position, count, frames) => {
    const found = cards()
    if (found.length !== count || !found[position].offsetHeight) {
      if (frames) requestAnimationFrame(() => show(position, count, frames - 1))
      return
    }
    const card = found[position]
    card.style.scrollMarginTop = `${HEADER}px`
    card.scrollIntoView({ block: "nearest" })
    const color = getComputedStyle(card).getPropertyValue("--rl-policy")
    card.animate([{ boxShadow: `0 0 0 2px ${color}` }, { boxShadow: "0 0 0 2px transparent" }], 1200)
  }
  model.on("msg:custom", ({ position, count }) => show(position, count, FRAMES))
  return document.createElement("span")
}
