// Draws the plots and the token view of the selected sample, and follows the system's light or dark theme.
// The server appends this file to the token view's module. All texts are already in the page, escaped.

const data = JSON.parse(document.getElementById("data").textContent, revive)
const darkness = matchMedia("(prefers-color-scheme: dark)")

// Restore values that JSON cannot express; see jsonable() in carried_samples.py.
function revive(_key, value) {
  if (value?.bytes !== undefined) {
    return Uint8Array.from(atob(value.bytes), (char) => char.charCodeAt(0)).buffer
  }
  return value?.number !== undefined && Object.keys(value).length === 1 ? Number(value.number) : value
}

// Create a model with the interface that a component's script expects: properties with change callbacks.
function createModel(values) {
  const callbacks = {}
  const notify = (name) => {
    for (const callback of callbacks[name] ?? []) callback()
  }
  const model = {
    notify,
    on: (name, callback) => {
      callbacks[name] ??= []
      callbacks[name].push(callback)
    },
  }
  for (const [name, value] of Object.entries(values)) {
    let current = value
    const set = (next) => {
      if (next === current) return
      current = next
      notify(name)
    }
    Object.defineProperty(model, name, { get: () => current, set })
  }
  return model
}

// Draw the token view of a sample into a shadow root with the view's own styles.
function drawTokens(host, index) {
  const token = index === data.first ? data.token : -1
  const { metric, metrics } = data
  const model = createModel({
    data: data.tokens[index],
    metric,
    metrics,
    token,
    dark: darkness.matches,
    scale: data.scale,
    scales: data.scales[index],
  })
  const root = host.attachShadow({ mode: "open" })
  root.append(
    ...data.styles.map((text) => Object.assign(document.createElement("style"), { textContent: text })),
  )
  root.append(tokenView({ model }))
  model.on("metric", () => {
    data.metric = model.metric
  }) // use the same metric and scale for the next sample
  model.on("scale", () => {
    data.scale = model.scale
  })
  model.notify("after_render")
  darkness.addEventListener("change", () => {
    model.dark = darkness.matches
  })
}

const rows = [...document.querySelectorAll("tr[data-sample]")]
const articles = [...document.querySelectorAll("article")]
const selected = () => Number(/^#sample-(\d+)$/.exec(location.hash)?.[1] ?? data.first)

// Show the sample that the URL names.
function show() {
  const index = Math.min(selected(), articles.length - 1)
  for (const list of [rows, articles]) {
    for (const [position, node] of list.entries()) node.classList.toggle("chosen", position === index)
  }
  // A player of a sample that is hidden would go on without controls.
  /** @type {NodeListOf<HTMLMediaElement>} */
  const unseen = document.querySelectorAll("article:not(.chosen) :is(audio, video)")
  for (const player of unseen) player.pause()
  const host = articles[index]?.querySelector(".tokens")
  if (host && !host.shadowRoot) drawTokens(host, index)
}

// Select a sample. The browser reports the new URL later, as an event; showing the sample here avoids the delay.
function go(index) {
  if (!articles[index]) return
  location.hash = `sample-${index}`
  show()
}

for (const [index, row] of rows.entries()) row.addEventListener("click", () => go(index))
addEventListener("hashchange", show)
addEventListener("keydown", (event) => {
  const by = { j: 1, k: -1 }[event.key]
  const [target] = event.composedPath()
  const typing = target instanceof Element && target.matches("input, textarea")
  if (by && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) go(selected() + by)
})
// Show a sentence instead of a player that the browser cannot play. Its error may precede this script.
for (const player of /** @type {NodeListOf<HTMLMediaElement>} */ (
  document.querySelectorAll("audio, video")
)) {
  const explain = () => {
    const kind = player.tagName.toLowerCase()
    const text = `This browser cannot play the ${kind}: it is damaged, or its codec is not known.`
    player.replaceWith(Object.assign(document.createElement("p"), { className: "note", textContent: text }))
  }
  if (player.error) {
    explain()
  } else {
    player.addEventListener("error", explain)
  }
}
document.body.classList.add("scripted")
show()

// Apply the colours of the current theme; the page contains those of both, as [dark, light].
function applyColors() {
  for (const model of Bokeh.documents.flatMap((doc) => [...doc.all_models])) {
    const colors = data.colors[model.id] ?? {}
    const current = Object.entries(colors).map(([name, both]) => [name, both[darkness.matches ? 0 : 1]])
    model.setv(Object.fromEntries(current))
  }
}

for (const [index, { plot, marker, height }] of data.bars.entries()) {
  const bars = barPlot(height, null)
  document.getElementById(`bars-${index}`).append(bars.node)
  bars.show(plot, marker)
}
if (data.plots.length) {
  await Promise.all(data.plots.map((item, index) => Bokeh.embed.embed_item(item, `plot-${index}`)))
  applyColors()
  darkness.addEventListener("change", applyColors)
}
document.body.dataset.drawn = "yes"

export {} // a module: it waits at its top level
