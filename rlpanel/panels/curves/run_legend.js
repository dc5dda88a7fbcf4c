// The legend of all curves; it also scrolls to a card. Names of runs are set as text, never as HTML.
/** Frames to wait for a card that is not drawn yet, and pixels that stay free above a card. */
const FRAMES = 300
const HEADER = 60

/** Scroll to a card and outline it for a moment. */
function show(el, { position, count }, frames = FRAMES) {
  const row = el.getRootNode().host?.getRootNode().querySelector(".rl-curves")
  const cards = [...(row?.shadowRoot?.querySelectorAll(".rl-curve") ?? [])]
  const card = cards[position]
  if (cards.length !== count || !card.offsetHeight) {
    if (frames) requestAnimationFrame(() => show(el, { position, count }, frames - 1))
    return
  }
  card.style.scrollMarginTop = `${HEADER}px`
  card.scrollIntoView({ block: "nearest" })
  const color = getComputedStyle(card).getPropertyValue("--rl-policy")
  card.animate([{ boxShadow: `0 0 0 2px ${color}` }, { boxShadow: "0 0 0 2px transparent" }], 1200)
}

function chip(model, run) {
  const item = element("button", "run")
  item.type = "button"
  item.dataset.run = run.key
  item.title = run.on ? t("Hide this run's curves") : t("Show this run's curves")
  item.setAttribute("aria-pressed", run.on)
  const line = element("i")
  line.style.background = run.color
  item.append(line, element("span", "", run.label))
  if (run.said) item.append(element("em", "", run.said))
  item.addEventListener("click", () => model.send_msg(run.key))
  return item
}

export function render({ model, el }) {
  const box = element("div", "runs")
  const draw = () => {
    box.replaceChildren(...model.runs.map((run) => chip(model, run)))
    if (model.note) box.append(element("span", "note", model.note))
  }
  model.on(["runs", "note"], draw)
  model.on("msg:custom", (place) => show(el, place))
  draw()
  return box
}
