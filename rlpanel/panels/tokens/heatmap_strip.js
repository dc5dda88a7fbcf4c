// Heatmap strip: one canvas with one row per metric, in the colours of the text; labels on the left,
// ranges on the right. The line chart below shares its axis. Dragging zooms in.

/** Heights in CSS pixels, larger on a large screen: of a row with its gap, and of the lines below. */
const LARGE = matchMedia("(min-width: 1800px) and (min-height: 1000px)")
const rowHeight = () => (LARGE.matches ? 24 : 18)
const lineHeight = () => (LARGE.matches ? 120 : 58)
const GAP = 3 // between the cells of two rows
const DRAG = 5 // distance in pixels from which a click is a drag

/** For each of `columns` pixels, its token farthest from the row's centre; -1 if it has none. */
function extremes(row, from, to, columns) {
  const best = new Int32Array(columns).fill(-1)
  const farthest = new Float64Array(columns).fill(-1)
  const end = Math.min(to, row.values.length)
  for (let i = from; i < end; i++) {
    const column = Math.min(columns - 1, Math.floor(((i - from) / (to - from)) * columns))
    const distance = Math.abs(row.values[i] - row.center)
    if (distance > farthest[column]) {
      farthest[column] = distance
      best[column] = i
    } else if (best[column] < 0) best[column] = i
  }
  return best
}

class Strip {
  constructor(root, { choose, hover, pin, zoom }) {
    this.labels = element("div", "rl-strip-labels")
    this.ranges = element("div", "rl-strip-ranges")
    this.plot = element("div", "rl-strip-plot")
    this.canvas = element("canvas", "rl-strip")
    this.lines = new Lines()
    this.band = element("div", "rl-band") // tokens visible in the text
    this.cursors = { hover: element("div", "rl-cursor hover"), pin: element("div", "rl-cursor pin") }
    this.brush = element("div", "rl-brush")
    this.plot.append(this.canvas, this.lines.canvas, this.band, this.brush, ...Object.values(this.cursors))
    root.append(this.labels, this.plot, this.ranges)
    this.choose = choose
    this.hover = hover
    this.pin = pin
    this.zoom = zoom
    this.positions = { hover: -1, pin: -1 }
    this.textRange = null
    this.hits = []
    this.#listen()
  }

  show(sample, palette, rows) {
    this.sample = sample
    this.palette = palette
    this.range = [0, sample.cells]
    this.hits = []
    this.setRows(rows)
  }

  /** Set the rows in order; the caller then draws them. */
  setRows(rows) {
    this.rows = rows
    this.labels.replaceChildren(...rows.map((row) => this.#label(row)))
    if (this.sample.outside) this.labels.append(element("div", "rl-mask-label", t("masked from loss")))
    this.labels.append(this.lines.axis)
    this.lines.show(rows)
    this.rescale()
  }

  restyle(palette) {
    this.palette = palette
    this.#drawLegends()
    this.draw()
  }

  /** Show the ranges of another scale. */
  rescale() {
    this.ranges.replaceChildren(...this.rows.map((row) => this.#rangeOf(row)))
    if (this.sample.outside) this.ranges.append(element("div", "rl-mask-label", ""))
    this.#drawLegends()
  }

  /** Mark the row that colours the text; the line chart shows it if no lines were chosen. */
  select(row) {
    for (const label of this.labels.children)
      label.classList.toggle("chosen", label.dataset.row === row?.name)
    this.lines.setFallback(row)
    this.draw()
  }

  setRange(from, to) {
    this.range = [from, to]
    this.draw()
  }

  setHits(hits) {
    this.hits = hits
    this.draw()
  }

  /** Move a cursor ("hover" or "pin") to a token; -1 hides it. */
  setCursor(name, i) {
    this.positions[name] = i
    const [from, to] = this.range ?? [0, 0]
    this.#setExtent(this.cursors[name], i >= from && i < to ? [i, i + 1] : null)
  }

  /** Mark the tokens that are visible in the text; null if all are. */
  showTextRange(range) {
    this.textRange = range
    this.#setExtent(this.band, range)
  }

  /** The token under the pointer; of many in a pixel, the one that is drawn in the row under the pointer. */
  indexAt(event) {
    const box = this.canvas.getBoundingClientRect()
    const [from, to] = this.range
    const share = Math.min(0.999999, Math.max(0, (event.clientX - box.left) / box.width))
    const columns = this.canvas.width
    const row = this.rows[Math.floor((event.clientY - box.top) / rowHeight())]
    if (to - from <= columns || !row) return from + Math.floor(share * (to - from))
    return extremes(row, from, to, columns)[Math.floor(share * columns)]
  }

  draw() {
    const width = this.plot.clientWidth
    if (!this.sample || !width) return
    const ratio = window.devicePixelRatio || 1
    const step = rowHeight()
    const height = (this.rows.length + (this.sample.outside ? 1 : 0)) * step
    this.canvas.style.height = `${height}px`
    this.plot.style.height = `${height + this.lines.height}px`
    this.canvas.width = Math.round(width * ratio)
    this.canvas.height = Math.round(height * ratio)
    const pen = this.canvas.getContext("2d")
    for (const [k, row] of this.rows.entries()) this.#drawRow(pen, row, Math.round(k * step * ratio), ratio)
    if (this.sample.outside) this.#drawMask(pen, Math.round(this.rows.length * step * ratio), ratio)
    this.#drawHits(pen, ratio)
    this.lines.draw(width, ratio, this.range, this.palette)
    for (const name of ["hover", "pin"]) this.setCursor(name, this.positions[name])
    this.showTextRange(this.textRange)
  }

  /** Number of tokens per pixel, at least 1. */
  get tokensPerPixel() {
    const [from, to] = this.range
    return Math.max(1, (to - from) / Math.max(1, this.canvas.width))
  }

  #setExtent(node, range) {
    const [from, to] = this.range ?? [0, 1]
    const percent = (i) => (100 * (Math.min(to, Math.max(from, i)) - from)) / (to - from)
    node.style.display = range ? "block" : "none"
    if (!range) return
    node.style.left = `${percent(range[0])}%`
    node.style.width = `max(3px, ${percent(range[1]) - percent(range[0])}%)`
  }

  #listen() {
    let start = null
    const moved = (event) => start && Math.abs(event.clientX - start.x) > DRAG
    this.plot.addEventListener("pointerdown", (event) => {
      if (event.button === 0) start = { x: event.clientX, i: this.indexAt(event) }
    })
    this.plot.addEventListener("pointermove", (event) => {
      const i = this.indexAt(event)
      if (moved(event)) {
        this.plot.setPointerCapture(event.pointerId)
        this.#setExtent(this.brush, [Math.min(start.i, i), Math.max(start.i, i) + 1])
        this.hover(-1)
      } else this.hover(i, event)
    })
    this.plot.addEventListener("pointerup", (event) => {
      const i = this.indexAt(event)
      if (moved(event)) this.zoom(Math.min(start.i, i), Math.max(start.i, i) + 1)
      else if (start) this.pin(i)
      start = null
      this.#setExtent(this.brush, null)
    })
    this.plot.addEventListener("pointerleave", () => this.hover(-1))
  }

  #drawRow(pen, row, top, ratio) {
    const [from, to] = this.range
    const columns = this.canvas.width
    const count = to - from
    const crowded = count > columns
    const drawn = crowded ? extremes(row, from, to, columns) : null
    const { backgrounds } = this.palette.ramp(row)
    const cell = Math.round((rowHeight() - GAP) * ratio),
      mark = Math.round(GAP * ratio),
      beyond = Math.round(2 * ratio)
    const paint = (i, left, right) => {
      if (i < 0 || i >= row.values.length) return // no value logged: the background stays visible
      const step = stepOf(row, row.values[i])
      pen.fillStyle = step < 0 ? hatch(pen, this.palette.name("faint"), ratio) : backgrounds[step]
      pen.fillRect(left, top, right - left, cell)
      const infinite = Math.abs(row.values[i]) === Infinity
      if (!infinite && !isBeyond(row, row.values[i])) return
      pen.fillStyle = this.palette.name("text") // a line on top: beyond the scale; a bar below: infinite
      if (infinite) pen.fillRect(left, top + cell - mark, right - left, mark)
      else pen.fillRect(left, top, right - left, beyond)
    }
    if (crowded) {
      for (const [column, i] of drawn.entries()) paint(i, column, column + 1)
      return
    }
    const gap = columns / count >= 6 * ratio ? ratio : 0
    const edge = (k) => Math.round((k / count) * columns)
    for (let k = 0; k < count; k++) paint(from + k, edge(k), Math.max(edge(k) + 1, edge(k + 1) - gap))
  }

  /** Draw a line below the rows over the tokens that the loss mask excludes. */
  #drawMask(pen, top, ratio) {
    const [from, to] = this.range
    const scale = this.canvas.width / (to - from)
    pen.fillStyle = this.palette.name("muted")
    for (let i = from; i < to; i++) {
      if (!isOutside(this.sample, i)) continue
      let last = i + 1
      while (last < to && isOutside(this.sample, last)) last++
      const left = Math.floor((i - from) * scale)
      pen.fillRect(
        left,
        top + Math.round(4 * ratio),
        Math.max(1, Math.round((last - from) * scale) - left),
        Math.round(4 * ratio),
      )
      i = last
    }
  }

  /** Draw search hits as ticks at the top. */
  #drawHits(pen, ratio) {
    const [from, to] = this.range
    pen.fillStyle = this.palette.name("text")
    for (const [first] of this.hits) {
      if (first < from || first >= to) continue
      const left = ((first - from) / (to - from)) * this.canvas.width
      pen.fillRect(left, 0, Math.max(ratio, 2), 4 * ratio)
    }
  }

  #label(row) {
    const title = [row.tip, row.note].filter(Boolean).join("\n")
    const label = button("rl-row-label", row.label, title, () => this.choose(row.name))
    label.dataset.row = row.name
    label.tabIndex = -1 // the metric's chip does the same
    return label
  }

  /** The row's colour legend with its smallest and largest value. */
  #rangeOf(row) {
    const numbers = row.categories
      ? [...row.categories.values()].map(({ name }) => name).join(" ")
      : formatRange(row.least, row.most).join(" … ")
    const text = row.short || numbers + (row.note ? " *" : "")
    const scale =
      row.short || row.categories
        ? ""
        : `Colour range ${formatRange(row.lo, row.hi, isSigned(row)).join(" to ")}`
    const title = [scale, row.unit, row.note, t("Click to draw as a line")].filter(Boolean).join("\n")
    const range = button("rl-row-range", "", title, () => {
      this.lines.toggle(row.name)
      this.draw()
    })
    range.append(element("i"), text)
    return range
  }

  /** Draw the legends in the theme's colours. */
  #drawLegends() {
    if (!this.rows) return
    this.rows.forEach((row, k) => {
      const legend = this.ranges.children[k].firstChild
      legend.style.background = row.short ? "none" : gradientOf(this.palette, row)
    })
  }
}

/** Hatch pattern for NaN, which no colour scale contains. */
function hatch(pen, color, ratio) {
  const tile = document.createElement("canvas")
  tile.width = tile.height = Math.round(4 * ratio)
  const ink = tile.getContext("2d")
  ink.strokeStyle = color
  ink.lineWidth = ratio
  ink.beginPath()
  ink.moveTo(0, tile.height)
  ink.lineTo(tile.width, 0)
  ink.stroke()
  return pen.createPattern(tile, "repeat")
}
