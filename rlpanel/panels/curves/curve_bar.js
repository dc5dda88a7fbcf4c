// The bar above the curves: band, zoom, events, and the legend of runs. It shows the values at the mouse in the heads of
// all cards, and scrolls to a card. Names of runs are set as text, never as HTML.
/** Frames to wait for a card that is not drawn yet, and pixels that stay free above a card. */
const FRAMES = 300
const HEADER = 60

/** Return the row of cards. */
const rowOf = (el) => el.getRootNode().host?.getRootNode().querySelector(".rl-curves")
const cardsOf = (el) => [...(rowOf(el)?.shadowRoot?.querySelectorAll(".rl-curve") ?? [])]

/** Scroll to a card and outline it for a moment. */
function show(el, { position, count }, frames = FRAMES) {
  const cards = cardsOf(el)
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

// -- the figures of the cards ------------------------------------------------------------------------

/** Return Bokeh's view of a card's figure; null for ridges and cards that are not drawn yet. */
function figureOf(card) {
  const node = findDeep(card.shadowRoot ?? card, ".bk-Figure")
  const view = node && Bokeh.index.query_one((each) => each.el === node)
  return view?.model.toolbar?.tools.some(({ type }) => type === "CrosshairTool") ? view : null
}

/** Let the axis that all figures share show a range, as a drag does, once they are drawn. */
function zoom(el, model, asked = model.asked, frames = FRAMES) {
  if (asked !== model.asked) return
  const view = cardsOf(el)
    .map(figureOf)
    .find((each) => each?.frame.bbox.width)
  if (!view) {
    if (frames) requestAnimationFrame(() => zoom(el, model, asked, frames - 1))
    return
  }
  const range = view.model.x_range
  const [start, end] = model.ends
  if (start === undefined) return showAll(el)
  const differs = Math.max(Math.abs(range.start - start), Math.abs(range.end - end)) > (end - start) / 200
  if (!differs) return
  view.update_range({ xrs: new Map([[range, { start, end }]]), yrs: new Map() })
  view.trigger_ranges_update_event()
}

function showAll(el) {
  for (const view of cardsOf(el).map(figureOf)) view?.model.reset.emit()
}

// -- values at the mouse -----------------------------------------------------------------------------

/** Write a number with at most three significant digits, as the heads do. */
function short(value) {
  if (value === null || Number.isNaN(value)) return "–"
  const size = Math.abs(value)
  const text =
    size && (size >= 1e6 || size < 1e-4)
      ? value.toExponential(2).replace(/\.?0+e\+?/, "e")
      : size >= 100
        ? Math.round(value).toLocaleString("en")
        : String(Number(value.toPrecision(3)))
  return text.replace(/-/g, "−")
}

/** Return the last position whose x is not above the given one, or the nearer one after it; -1 for none. */
function nearest(xs, x) {
  let best = -1
  for (let at = 0; at < xs.length; at += 1) {
    if (best < 0 || Math.abs(xs[at] - x) <= Math.abs(xs[best] - x)) best = at
  }
  return best
}

/** Show the values at a position of the axis in a card's head. */
function showValue(card, x) {
  const number = findDeep(card.shadowRoot ?? card, ".head .number")
  const source = figureOf(card)?.model.renderers.find(({ glyph }) => glyph.type === "Line")?.data_source
  if (!number || !source) return
  const column = (name) => source.get_array(name)
  const at = nearest(column("x"), x)
  if (at < 0) return
  number.dataset.value ??= number.textContent
  const low = column("lo")[at],
    high = column("hi")[at]
  number.textContent = short(column(source.columns().includes("raw") ? "raw" : "y")[at])
  const where = number.previousElementSibling?.matches(".at")
    ? number.previousElementSibling
    : number.parentElement.insertBefore(element("span", "at delta"), number)
  const band = Number.isFinite(low) && Number.isFinite(high) ? ` (${short(low)} … ${short(high)})` : ""
  where.textContent = t("at {x}", { x: short(column("x")[at]) })
  where.title = `n = ${short(column("n")[at])}`
  const rest = number.nextElementSibling?.matches(".delta") ? number.nextElementSibling : null
  if (rest) rest.hidden = true
  let spread = number.parentElement.querySelector(".spread")
  if (!spread) {
    spread = element("span", "spread delta")
    number.after(spread)
  }
  spread.textContent = band
}

/** Show the values of the selected step again. */
function restore(card) {
  const number = findDeep(card.shadowRoot ?? card, ".head .number")
  if (!number || number.dataset.value === undefined) return
  number.textContent = number.dataset.value
  delete number.dataset.value
  for (const node of number.parentElement.querySelectorAll(".at, .spread")) node.remove()
  for (const node of number.parentElement.querySelectorAll(".delta")) node.hidden = false
}

/** Follow the mouse over the figures; at most one update a frame. */
function followMouse(el) {
  const row = rowOf(el)
  if (!row) return false
  let last = null
  let due = 0
  const update = () => {
    due = 0
    const card = last?.composedPath().find((node) => node.matches?.(".rl-curve"))
    const view = card && figureOf(card)
    const box = view?.el.getBoundingClientRect()
    const x = box && view.frame.bbox.contains(last.x - box.left, last.y - box.top) ? last.x - box.left : null
    const position = x === null ? null : view.frame.x_scale.invert(x)
    for (const each of cardsOf(el)) position === null ? restore(each) : showValue(each, position)
  }
  const moved = (event) => {
    last = event && {
      x: event.clientX,
      y: event.clientY,
      composedPath: (
        (path) => () =>
          path
      )(event.composedPath()),
    }
    due ||= requestAnimationFrame(update)
  }
  row.addEventListener("pointermove", moved)
  row.addEventListener("pointerleave", () => moved(null))
  return true
}

// -- the bar -----------------------------------------------------------------------------------------

function chip(model, run) {
  const item = element("button", "run")
  item.type = "button"
  item.dataset.run = run.key
  item.title = `${run.title}\n${run.on ? t("Hide this run's curves") : t("Show this run's curves")}`
  item.setAttribute("aria-pressed", run.on)
  const line = element("i")
  line.style.background = run.color
  item.append(line, element("span", "", run.label))
  if (run.said) item.append(element("em", "", run.said))
  item.addEventListener("click", () => model.send_msg(["run", run.key]))
  return item
}

export function render({ model, el }) {
  const box = element("div", "bar")
  const label = element("label", "band")
  const select = element("select")
  for (const [value, text] of model.bands) {
    const option = element("option", "", text)
    option.value = value
    select.append(option)
  }
  const said = element("span", "note said")
  label.append(t("Band"), " ", select)
  select.addEventListener("change", () => {
    box.setAttribute("aria-busy", "true")
    said.textContent = t("drawing …")
    model.send_msg(["band", select.value])
  })
  const around = button(
    "zoom",
    t("Zoom"),
    t("Show the steps around the selected one; a drag over a curve chooses any"),
    () => model.send_msg(["zoom", true]),
  )
  const whole = button("zoomed", "", t("Show all steps again (or double click a curve)"), () =>
    model.send_msg(["zoom", false]),
  )
  const events = element("select", "events")
  events.addEventListener("change", () => {
    if (events.value) model.send_msg(["event", Number(events.value)])
  })
  const runs = element("div", "runs")
  const note = element("span", "note")
  box.append(label, said, runs, note, events, whole, around)

  const drawPlots = () => {
    for (const part of [label, said, around]) part.hidden = !model.plots
    box.hidden = !model.plots && !model.runs.length && !model.note && !model.events.length
  }
  const drawBand = () => {
    box.removeAttribute("aria-busy")
    select.value = model.band
    said.textContent = said.title = model.said
  }
  const drawZoom = () => {
    whole.textContent = `${model.zoom} ×`
    whole.hidden = !model.zoom
  }
  const drawRuns = () => {
    runs.replaceChildren(...model.runs.map((run) => chip(model, run)))
    note.textContent = model.note
  }
  // A native list: arrow keys go from event to event, and a screen reader says each.
  const drawEvents = () => {
    const first = element("option", "", t("Events: {count}", { count: model.events.length }))
    first.value = ""
    const rest = model.events.map(([step, text]) => {
      const option = element("option", "", `${step}: ${text}`)
      option.value = String(step)
      return option
    })
    events.replaceChildren(first, ...rest)
    events.hidden = !rest.length
    events.setAttribute("aria-label", t("Events on the curves"))
    drawStep()
  }
  const drawStep = () => {
    events.value = String(model.step)
    if (events.selectedIndex < 0) events.value = ""
  }
  model.on(["band", "said", "drawn"], drawBand)
  model.on("events", drawEvents)
  model.on("step", drawStep)
  model.on("zoom", drawZoom)
  model.on(["runs", "note"], drawRuns)
  model.on(["plots", "runs", "note", "events"], drawPlots)
  model.on("asked", () => zoom(el, model))
  model.on("msg:custom", (message) => show(el, message))
  for (const draw of [drawPlots, drawBand, drawZoom, drawRuns, drawEvents]) draw()
  if (model.ends.length) zoom(el, model)
  const wait = (frames = FRAMES) => {
    if (!followMouse(el) && frames) requestAnimationFrame(() => wait(frames - 1))
  }
  model.on("after_render", () => wait())
  return box
}
