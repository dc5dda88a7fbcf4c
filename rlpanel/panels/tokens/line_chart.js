// Line chart below the heatmap: chosen metrics over the same tokens; metrics of the same unit share a scale.

const KEY = 18 // height of the legend below them in CSS pixels
/** Vertical positions of the highest and the lowest value in CSS pixels. */
const TOP = 8
const bottom = () => lineHeight() - 2
const DEFAULT_LINES = ["value", "token_return"] // the critic's prediction and its target

class Lines {
  constructor() {
    this.canvas = element("canvas", "rl-lines")
    this.axis = element("div", "rl-lines-axis") // beside the canvas: the ends of the scales
    this.rows = []
    this.chosen = new Set() // names the viewer chose; kept when the sample changes
    this.row = null
  }

  show(rows) {
    this.rows = rows
  }

  /** Set the row that colours the text; it is drawn if there is no other line. */
  setFallback(row) {
    this.row = row
  }

  toggle(name) {
    if (!this.chosen.size) for (const row of this.drawn) this.chosen.add(row.name)
    if (!this.chosen.delete(name)) this.chosen.add(name)
  }

  get drawn() {
    const chosen = this.rows.filter((row) => this.chosen.has(row.name))
    if (chosen.length) return chosen
    const defaults = this.rows.filter((row) => DEFAULT_LINES.includes(row.name) && !row.short)
    return defaults.length ? defaults : this.rows.filter((row) => row === this.row && !row.short)
  }

  get height() {
    return this.drawn.length ? lineHeight() + KEY + 6 : 0
  }

  draw(width, ratio, range, palette) {
    const rows = this.drawn
    this.canvas.style.height = `${this.height}px`
    this.axis.style.height = `${this.height}px`
    this.#drawAxis(palette)
    this.canvas.width = Math.round(width * ratio)
    this.canvas.height = Math.round(this.height * ratio)
    if (!rows.length) return
    const pen = this.canvas.getContext("2d")
    pen.scale(ratio, ratio)
    pen.fillStyle = palette.name("line")
    for (const y of [TOP, bottom()]) pen.fillRect(0, Math.round(y), width, 1)
    for (const row of rows) drawLine(pen, row, sharedScale(rows, row), width, range, palette)
    drawKey(pen, rows, width, palette)
  }

  /** Write the highest and the lowest value beside the lines; several units have the colours of their lines. */
  #drawAxis(palette) {
    const rows = this.drawn
    const units = [...new Map(rows.map((row) => [row.unit, row])).values()]
    const ends = [TOP, bottom()].map((y, at) => {
      const end = element("span")
      end.style.top = `${y}px`
      for (const row of units) {
        const [low, high] = sharedScale(rows, row)
        const text = element("span", "", formatRange(low, high)[1 - at])
        if (units.length > 1) text.style.color = palette.name(row.color)
        end.append(text)
      }
      return end
    })
    this.axis.replaceChildren(...(rows.length ? ends : []))
  }
}

/** Lowest and highest value of all drawn rows that have the row's unit. */
function sharedScale(rows, row) {
  const same = rows.filter(({ unit, least }) => unit === row.unit && Number.isFinite(least))
  const [low, high] = [Math.min(...same.map((r) => r.least)), Math.max(...same.map((r) => r.most))]
  return high > low ? [low, high] : [low - 0.5, low + 0.5]
}

/**
 * @param {CanvasRenderingContext2D} pen
 * @param {any} row
 * @param {number[]} scale
 * @param {number} width
 * @param {number[]} range
 * @param {any} palette
 */
function drawLine(pen, row, [low, high], width, [from, to], palette) {
  const x = (i) => ((i + 0.5 - from) / (to - from)) * width
  const y = (value) =>
    TOP + (1 - (Math.min(high, Math.max(low, value)) - low) / (high - low)) * (bottom() - TOP)
  pen.strokeStyle = palette.name(row.color)
  pen.lineWidth = 1.5
  pen.lineJoin = "round"
  pen.beginPath()
  const indices = to - from > 4 * width ? envelope(row.values, from, to, Math.floor(width)) : null
  let gap = true
  const visit = (i) => {
    const value = row.values[i]
    if (value === undefined || Number.isNaN(value)) gap = true
    else if (gap) {
      pen.moveTo(x(i), y(value))
      gap = false
    } else pen.lineTo(x(i), y(value))
  }
  if (indices) indices.forEach(visit)
  else for (let i = from; i < to; i++) visit(i)
  pen.stroke()
}

/** Indices of the smallest and largest value of each pixel, in token order: the outline keeps every extreme. */
function envelope(values, from, to, columns) {
  const indices = []
  for (let column = 0; column < columns; column++) {
    const first = from + Math.floor((column / columns) * (to - from))
    const last = from + Math.floor(((column + 1) / columns) * (to - from))
    let [least, most] = [first, first]
    for (let i = first; i < last; i++) {
      if (values[i] < values[least]) least = i
      if (values[i] > values[most]) most = i
    }
    indices.push(Math.min(least, most), Math.max(least, most))
  }
  return indices
}

function drawKey(pen, rows, width, palette) {
  pen.font = `11px ${palette.font}`
  pen.textBaseline = "middle"
  let left = 0
  for (const row of rows) {
    pen.fillStyle = palette.name(row.color)
    pen.fillRect(left, lineHeight() + KEY / 2 + 1, 10, 3)
    pen.fillStyle = palette.name("muted")
    const text = `${row.label}${row.unit ? `, ${row.unit}` : ""}`
    pen.fillText(text, left + 14, lineHeight() + KEY / 2 + 3)
    left += pen.measureText(text).width + 30
    if (left > width) break
  }
}
