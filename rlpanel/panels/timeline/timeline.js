// Draws the lanes of a step's rollouts. Only the lanes in view are drawn, on a canvas that stays in view.

const AXIS = 20, NAMES = 52, THINNEST = 3, THICKEST = 16, TALLEST = 30_000
const PHASE_COLORS = {queue: "faint", generation: "policy", tool: "entropy", environment: "length", score: "reference", other: "line"}
const LAG_COLORS = ["good", "kl", "policy", "bad"]

/** Decode the arrays of the payload. */
function readTimes(data) {
  const view = (name, kind) => new kind(data[name] ?? new ArrayBuffer(0))
  const ints = Object.fromEntries(["lane", "owner", "phase"].map((name) => [name, view(name, Int32Array)]))
  const floats = Object.fromEntries(["offset", "duration", "lag", "begin", "end"].map((name) => [name, view(name, Float32Array)]))
  const times = {...data, ...ints, ...floats, failed: view("failed", Uint8Array)}
  times.first = new Int32Array(times.lane.length + 1) // first segment of each rollout
  for (const owner of times.owner) { times.first[owner + 1]++ }
  for (let i = 0; i < times.lane.length; i++) { times.first[i + 1] += times.first[i] }
  times.inLane = Array.from({length: data.lanes ?? 0}, () => [])
  times.lane.forEach((lane, i) => times.inLane[lane].push(i))
  return times
}

const formatSeconds = (x) => (x >= 100 ? x.toFixed(0) : x >= 1 ? x.toFixed(1) : x.toPrecision(2)) + " s"

class Timeline {
  constructor(model) {
    this.model = model
    this.colorBy = "phase"
    this.root = element("div", "timeline")
    this.tools = element("div", "tools")
    this.orders = element("div", "choice")
    this.colors = element("div", "choice")
    this.legend = element("div", "legend")
    this.tools.append(this.orders, this.colors, this.legend)
    this.note = element("div", "note")
    this.frame = element("div", "frame")
    this.frame.tabIndex = 0
    this.canvas = element("canvas")
    this.canvas.setAttribute("role", "img")
    this.space = element("div", "space")
    this.frame.append(this.canvas, this.space)
    this.tip = element("div", "tip")
    this.tip.hidden = true
    this.root.append(this.tools, this.note, this.frame, this.tip)
    this.frame.addEventListener("scroll", () => this.draw(), {passive: true})
    this.resizing = new ResizeObserver(() => this.draw())
    this.resizing.observe(this.frame)
    this.canvas.addEventListener("pointermove", (event) => this.#hover(event))
    this.canvas.addEventListener("pointerleave", () => { this.tip.hidden = true })
    this.canvas.addEventListener("click", (event) => {
      const found = this.#at(event)
      if (found >= 0) { this.model.send_msg(["pick", found]) }
    })
  }

  show() {
    this.times = readTimes(this.model.data)
    const {order, orders = [], note, empty} = this.times
    this.note.textContent = empty ?? note ?? ""
    this.tools.hidden = this.frame.hidden = Boolean(empty) || !this.times.lane.length
    this.canvas.setAttribute("aria-label", `Timeline of ${this.times.lane.length} rollouts`)
    this.#choices(this.orders, orders, order, (name) => this.model.send_msg(["order", name]))
    const hasLag = this.times.lag.some(Number.isFinite)
    if (!hasLag) { this.colorBy = "phase" }
    this.#choices(this.colors, hasLag ? ["phase", "lag"] : [], this.colorBy, (name) => { this.colorBy = name; this.show() })
    this.#drawLegend()
    this.draw()
  }

  get row() {
    const room = Math.max(1, this.frame.clientHeight - AXIS)
    return Math.min(TALLEST / this.times.lanes, Math.max(THINNEST, Math.min(THICKEST, Math.floor(room / this.times.lanes))))
  }

  draw() {
    const {times, frame, canvas} = this
    if (!times?.lane.length || !frame.clientWidth || !frame.clientHeight) { return }
    const ratio = window.devicePixelRatio || 1
    const [width, height, row] = [frame.clientWidth, frame.clientHeight, this.row]
    this.space.style.height = `${Math.max(0, times.lanes * row + AXIS - height)}px`
    canvas.style.height = `${height}px`
    canvas.width = Math.round(width * ratio)
    canvas.height = Math.round(height * ratio)
    const pen = canvas.getContext("2d")
    pen.scale(ratio, ratio)
    const style = getComputedStyle(this.root)
    this.color = (name) => style.getPropertyValue(`--rl-${name}`).trim()
    const first = Math.floor(frame.scrollTop / row)
    const last = Math.min(times.lanes, first + Math.ceil((height - AXIS) / row) + 1)
    for (let lane = first; lane < last; lane++) {
      for (const i of times.inLane[lane]) { this.#drawRollout(pen, i, lane * row - frame.scrollTop, row) }
    }
    this.#drawNames(pen, row)
    this.#drawAxis(pen, width, height)
  }

  get left() {
    return this.times.names.length ? NAMES : 0
  }

  /** Pixels of a time on the axis. */
  x(seconds) {
    return this.left + (seconds / (this.times.seconds || 1)) * (this.frame.clientWidth - this.left - 8)
  }

  #drawRollout(pen, i, top, row) {
    const {times} = this
    const tall = Math.max(1, row >= 6 ? row - 2 : row >= 4 ? row - 1 : row)
    const start = times.offset[i]
    const fill = (begin, end, color) => {
      pen.fillStyle = this.color(color)
      const from = this.x(start + begin)
      pen.fillRect(from, top, Math.max(0.6, this.x(start + end) - from), tall)
    }
    if (this.colorBy === "lag") {
      const lag = times.lag[i]
      fill(0, times.duration[i], Number.isFinite(lag) ? LAG_COLORS[Math.min(3, Math.max(0, Math.floor(lag)))] : "line")
    } else {
      for (let s = times.first[i]; s < times.first[i + 1]; s++) {
        fill(times.begin[s], times.end[s], PHASE_COLORS[times.phases[times.phase[s]]] ?? "muted")
      }
    }
    if (times.failed[i]) {
      pen.fillStyle = this.color("bad")
      pen.fillRect(this.x(start + times.duration[i]), top, 4, tall)
    }
    if (i === this.model.chosen) {
      pen.strokeStyle = this.color("text")
      pen.lineWidth = 1.5
      pen.strokeRect(this.x(start) - 1, top - 1, this.x(start + times.duration[i]) - this.x(start) + 2, tall + 2)
    }
  }

  #drawNames(pen, row) {
    pen.font = "11px " + this.color("font")
    pen.fillStyle = this.color("muted")
    pen.textBaseline = "top"
    for (const [lane, name] of this.times.names) { pen.fillText(name, 0, lane * row - this.frame.scrollTop) }
  }

  #drawAxis(pen, width, height) {
    const {seconds} = this.times
    const steps = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 3600, 7200, 14400]
    const step = steps.find((each) => seconds / each <= 8) ?? seconds / 4
    pen.fillStyle = this.color("surface")
    pen.fillRect(0, height - AXIS, width, AXIS)
    pen.fillStyle = this.color("muted")
    pen.font = "11px " + this.color("font")
    pen.textBaseline = "bottom"
    for (let at = 0; at <= seconds * 1.0001; at += step) {
      const label = formatSeconds(at)
      const place = Math.min(this.x(at), width - pen.measureText(label).width)
      pen.fillText(at === 0 ? "0" : label, place, height - 2)
    }
  }

  #at(event) {
    const {times} = this
    const box = this.canvas.getBoundingClientRect()
    const lane = Math.floor((event.clientY - box.top + this.frame.scrollTop) / this.row)
    const x = event.clientX - box.left
    const inLane = times.inLane[lane] ?? []
    const hit = inLane.find((i) => x >= this.x(times.offset[i]) - 2 && x <= this.x(times.offset[i] + times.duration[i]) + 5)
    return hit ?? (inLane.length === 1 ? inLane[0] : -1)
  }

  #hover(event) {
    const i = this.#at(event)
    this.canvas.style.cursor = i < 0 ? "" : "pointer"
    this.tip.hidden = i < 0
    if (i < 0) { return }
    const {times} = this
    const sums = new Map()
    for (let s = times.first[i]; s < times.first[i + 1]; s++) {
      const name = times.phases[times.phase[s]]
      sums.set(name, (sums.get(name) ?? 0) + times.end[s] - times.begin[s])
    }
    const lines = [`${formatSeconds(times.duration[i])} in total`, ...[...sums].map(([name, sum]) => `${name} ${formatSeconds(sum)}`)]
    if (Number.isFinite(times.lag[i])) { lines.push(`lag ${times.lag[i]}`) }
    if (times.status[i]) { lines.push(`status ${times.status[i]}`) }
    this.tip.replaceChildren(...lines.map((line) => element("div", "", line)))
    const box = this.root.getBoundingClientRect()
    this.tip.style.left = `${Math.min(event.clientX - box.left + 12, box.width - this.tip.offsetWidth - 4)}px`
    this.tip.style.top = `${Math.min(event.clientY - box.top + 12, box.height - this.tip.offsetHeight - 4)}px`
  }

  #choices(root, names, chosen, choose) {
    root.hidden = names.length < 2
    root.replaceChildren(...names.map((name) => {
      const chip = button("chip", name, "", () => choose(name))
      chip.setAttribute("aria-pressed", name === chosen)
      return chip
    }))
  }

  #drawLegend() {
    const {phases = [], phase, failed} = this.times
    const used = new Set(phase)
    const entries = this.colorBy === "lag"
      ? ["lag 0", "1", "2", "3 and more"].map((name, k) => [name, LAG_COLORS[k]])
      : phases.map((name, k) => [name, PHASE_COLORS[name] ?? "muted", k]).filter(([, , k]) => used.has(k))
    if (failed?.some(Boolean)) { entries.push(["failed", "bad"]) }
    this.legend.replaceChildren(...entries.map(([name, color]) => {
      const entry = element("span", "", name)
      const box = element("i")
      box.style.background = `var(--rl-${color})`
      entry.prepend(box)
      return entry
    }))
  }
}

export function render({model}) {
  const timeline = new Timeline(model)
  model.on("data", () => timeline.show())
  model.on("chosen", () => timeline.draw())
  model.on("dark", () => requestAnimationFrame(() => timeline.draw())) // after the page's own colours changed
  model.on("after_render", () => timeline.show())
  model.on("remove", () => timeline.resizing.disconnect())
  return timeline.root
}
