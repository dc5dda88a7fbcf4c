// Brings the page to life: plots, the token view of the sample that is shown, light or dark with the system.
// The server joins this file behind the token view's module. Texts stand in the page already, escaped.

const data = JSON.parse(document.getElementById("data").textContent, revive)
const darkness = matchMedia("(prefers-color-scheme: dark)")

// What JSON has no words for; see jsonable() in samples.py.
function revive(key, value) {
  if (value?.bytes !== undefined) { return Uint8Array.from(atob(value.bytes), (char) => char.charCodeAt(0)).buffer }
  return value?.number !== undefined && Object.keys(value).length === 1 ? Number(value.number) : value
}

// What a component's script expects of its model: values that tell when they change.
function modelOf(values) {
  const heard = {}
  const tell = (name) => { for (const act of heard[name] ?? []) { act() } }
  const model = { tell, on: (name, act) => { (heard[name] ??= []).push(act) } }
  for (const [name, value] of Object.entries(values)) {
    let now = value
    const set = (next) => {
      if (next === now) { return }
      now = next
      tell(name)
    }
    Object.defineProperty(model, name, { get: () => now, set })
  }
  return model
}

// The token view of one sample, in a shadow root with the view's own styles.
function drawTokens(place, at) {
  const token = at === data.first ? data.token : -1
  const { metric, metrics } = data
  const model = modelOf({ data: data.tokens[at], metric, metrics, token, dark: darkness.matches })
  const root = place.attachShadow({ mode: "open" })
  root.append(...data.styles.map((text) => Object.assign(document.createElement("style"), { textContent: text })))
  root.append(tokenView({ model }))
  model.on("metric", () => { data.metric = model.metric })  // the next sample is coloured by the same
  model.tell("after_render")
  darkness.addEventListener("change", () => { model.dark = darkness.matches })
}

const rows = [...document.querySelectorAll("tr[data-sample]")]
const articles = [...document.querySelectorAll("article")]
const wanted = () => Number(/^#sample-(\d+)$/.exec(location.hash)?.[1] ?? data.first)

// The sample that the address names.
function show() {
  const at = Math.min(wanted(), articles.length - 1)
  for (const list of [rows, articles]) {
    for (const [place, node] of list.entries()) { node.classList.toggle("chosen", place === at) }
  }
  const place = articles[at]?.querySelector(".tokens")
  if (place && !place.shadowRoot) { drawTokens(place, at) }
}

// The browser reports a new address later, as an event. Showing the sample now keeps a click and its effect together.
function go(at) {
  if (!articles[at]) { return }
  location.hash = `sample-${at}`
  show()
}

for (const [at, row] of rows.entries()) { row.addEventListener("click", () => go(at)) }
addEventListener("hashchange", show)
addEventListener("keydown", (event) => {
  const by = { j: 1, k: -1 }[event.key]
  const typing = event.composedPath()[0].matches?.("input, textarea")
  if (by && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) { go(wanted() + by) }
})
document.body.classList.add("scripted")
show()

// Both themes' colours came along, as [dark, light].
function paint() {
  for (const model of Bokeh.documents.flatMap((known) => [...known.all_models])) {
    const of = data.colors[model.id] ?? {}
    const now = Object.entries(of).map(([name, both]) => [name, both[darkness.matches ? 0 : 1]])
    model.setv(Object.fromEntries(now))
  }
}

if (data.plots.length) {
  await Promise.all(data.plots.map((item, at) => Bokeh.embed.embed_item(item, `plot-${at}`)))
  paint()
  darkness.addEventListener("change", paint)
}
document.body.dataset.drawn = "yes"
