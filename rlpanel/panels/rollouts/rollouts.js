// Rollouts: one line of coloured cells per response, on one canvas, with numbers on the left and an axis above.
// The lines are drawn once; pointer, keys and pinned token only move elements above the canvas.

const LINE = 16 // height of a line in CSS pixels
const CELL = 13
const BETWEEN = 8 // additional space between two groups

class Rollouts {
  constructor(model) {
    this.model = model
    this.texts = new Map() // uid → texts of its tokens
    this.asked = new Set()
    this.cursor = { row: -1, i: -1 }
    this.root = element("div", "rl-tokens rl-rollouts-view")
    this.root.tabIndex = 0
    this.root.setAttribute("role", "group")
    this.root.setAttribute("aria-label", t("Responses, one line each"))
    const bar = element("div", "rl-bar")
    this.bar = new MetricBar(bar, this.model)
    this.words = element("div", "words")
    const head = element("div", "over")
    this.column = element("div", "column quiet")
    this.columnName = element("span", "name")
    this.column.append(this.columnName, element("span", "count", t("tokens")))
    this.axis = element("div", "axis quiet")
    head.append(this.column, this.axis)
    this.list = element("div", "lines")
    this.list.tabIndex = 0 // a part that scrolls
    this.labels = element("div", "labels")
    this.plot = element("div", "plot")
    this.canvas = element("canvas")
    this.rowMark = element("div", "row-mark")
    this.pinMark = element("div", "cell-mark pin")
    this.cellMark = element("div", "cell-mark")
    this.brush = element("div", "rl-brush")
    this.plot.append(this.canvas, this.brush, this.pinMark, this.cellMark)
    this.list.append(this.rowMark, this.labels, this.plot)
    const state = element("div", "state")
    this.said = element("div", "said")
    this.said.setAttribute("aria-live", "polite")
    this.zoomed = button("rl-tool rl-zoomed", "", t("Show all tokens (Esc)"), () =>
      this.zoom(0, this.longest),
    )
    this.note = element("div", "quiet")
    state.append(this.said, this.zoomed, this.note)
    this.root.append(bar, state, this.words, head, this.list)
    this.tip = new Tip(this.root)
    this.resizing = new ResizeObserver(() => this.palette && this.draw())
    this.resizing.observe(this.list)
    this.#listen()
  }

  /** Show the lines of a page. */
  show() {
    const { data } = this.model
    const floats = new Float32Array(data.values ?? new ArrayBuffer(0))
    this.metric = this.#declaration(data.metric)
    this.metric.categories = this.metric.categories?.length ? readCategories(this.metric.categories) : null
    let start = 0
    this.rows = (data.rows ?? []).map((row, at) => {
      const values = floats.subarray(start, start + data.sizes[at])
      start += data.sizes[at]
      return this.#line(values, row)
    })
    const longest = Math.max(0, ...this.rows.map(({ values }) => values.length))
    if (longest !== this.longest) this.range = [0, longest]
    this.longest = longest
    const mean = this.metric.categories ? new Float32Array(0) : meanOf(this.rows, longest)
    this.mean = this.#line(mean, { uid: "", text: "", tokens: longest })
    this.words.textContent = data.words ?? ""
    this.words.hidden = !data.words
    this.note.textContent = data.note ?? ""
    this.columnName.textContent = data.column ?? ""
    this.list.hidden = this.axis.hidden = this.column.hidden = !longest
    if (!longest) this.zoomed.hidden = true
    this.#rank()
    const chips = (data.logged ?? []).map((name) => ({
      ...this.#declaration(name),
      name,
      short: "",
      note: "",
    }))
    this.bar.show(chips)
    this.#label()
    const uids = this.rows.map(({ uid }) => uid).join("\n")
    if (uids !== this.uids) this.cursor = { row: -1, i: -1 }
    this.uids = uids
    this.color()
  }

  /** Draw on the chosen scale. */
  color() {
    const { data, metric, metrics } = this.model
    scaleRows([this.mean, ...this.rows], this.model.scales, this.model.scale)
    const missing = data.metric && data.metric !== metric ? labelOf(metrics, metric) : ""
    this.bar.select(data.metric ? this.mean : null, this.palette, missing)
    this.draw()
  }

  theme() {
    this.root.classList.toggle("dark", this.model.dark)
    this.palette = makePalette(this.root)
    if (this.rows) this.color()
  }

  /** Texts of a response came. */
  receive({ uid, texts }) {
    this.texts.set(uid, splitTexts(new Uint8Array(texts)))
    if (this.rows[this.cursor.row]?.uid === uid) this.#point(this.cursor.row, this.cursor.i, this.tipBox)
  }

  zoom(from, to) {
    this.range = [from, to]
    this.draw()
  }

  draw() {
    const width = this.plot.clientWidth
    if (!this.palette || !this.longest || !width) return
    const ratio = window.devicePixelRatio || 1
    const height = this.tops.at(-1) + LINE
    this.canvas.style.height = `${height}px`
    this.canvas.width = Math.round(width * ratio)
    this.canvas.height = Math.round(height * ratio)
    const pen = this.canvas.getContext("2d")
    for (const [at, row] of [this.mean, ...this.rows].entries())
      this.#drawLine(pen, row, Math.round(this.tops[at] * ratio), ratio)
    this.#drawAxis(width)
    this.mark()
    const [from, to] = this.range
    this.zoomed.hidden = to - from >= this.longest
    this.zoomed.textContent = t("tokens {from}–{to} ✕", { from, to: to - 1 })
  }

  /** Mark the shown sample with its pinned token, and the cell under the pointer or the keys. */
  mark() {
    const [uid, token] = this.model.chosen
    const shown = this.rows.findIndex((row) => row.uid === uid)
    for (const [at, label] of [...this.labels.children].slice(1).entries())
      label.classList.toggle("chosen", at === shown)
    this.#place(this.pinMark, shown, token)
    this.#place(this.cellMark, this.cursor.row, this.cursor.i)
    this.rowMark.hidden = this.cursor.row < 0
    if (this.cursor.row >= 0) this.rowMark.style.top = `${this.tops[this.cursor.row + 1] - 1}px`
  }

  destroy() {
    this.tip.hide()
    this.resizing.disconnect()
  }

  /** The declaration of a metric, or of a list that the trainer logs under this name. */
  #declaration(name) {
    const { lists } = this.model.data
    return { ...(lists && Object.hasOwn(lists, name) ? lists[name] : this.model.metrics[name]) }
  }

  #line(values, row) {
    const around = this.metric.scale === "diverging" && this.model.data.metric === "ratio" ? 1 : 0
    const line = { ...row, ...this.metric, caption: row.label, values, around, short: "", digits: 4 }
    line.name = this.model.data.metric
    const finite = values.filter(Number.isFinite)
    finite.sort()
    const end = (share) => finite[Math.floor(share * (finite.length - 1))] ?? 0
    const bound = Math.max(around - end(0.01), end(0.99) - around, 1e-4)
    const ends = this.metric.scale === "diverging" ? [around - bound, around + bound] : [end(0.01), end(0.99)]
    const center = this.metric.scale === "diverging" ? around : end(0.5)
    const flip = this.metric.sure || Math.abs(ends[0]) > Math.abs(ends[1])
    return Object.assign(line, {
      lo: ends[0],
      hi: Math.max(ends[1], ends[0] + 1e-4),
      flip: this.metric.scale !== "diverging" && flip,
      center,
      least: finite[0] ?? NaN,
      most: finite.at(-1) ?? NaN,
    })
  }

  /** Set the top of each line, the mean first; groups are apart where they stand together. */
  #rank() {
    this.tops = [0]
    let top = LINE + BETWEEN
    this.rows.forEach((row, at) => {
      if (this.model.data.grouped && at > 0 && row.group !== this.rows[at - 1].group) top += BETWEEN
      this.tops.push(top)
      top += LINE
    })
  }

  #label() {
    const values = this.rows.map(({ value }) => value ?? NaN).filter(Number.isFinite)
    const [least, most] = [Math.min(0, ...values), Math.max(0, ...values)]
    const labels = this.rows.map((row, at) => {
      const label = element("div", "label")
      const first = this.model.data.grouped && row.group !== this.rows[at - 1]?.group
      const bar = element("i")
      const share = row.value === null || most === least ? 0 : (row.value - least) / (most - least)
      bar.style.setProperty("--share", share)
      label.append(
        element("span", "name", first ? row.caption : ""),
        bar,
        element("b", "", row.text),
        element("span", "count", row.tokens),
      )
      label.title = [
        row.group < 0 ? "" : row.caption,
        `${this.model.data.column} ${row.text}`,
        t("{count} tokens", { count: row.tokens }),
      ]
        .filter(Boolean)
        .join("\n")
      return label
    })
    const mean = element("div", "label mean")
    mean.append(
      element("span", "name", this.metric.categories ? "" : t("mean")),
      element("i"),
      element("b"),
      element("span", "count"),
    )
    this.labels.replaceChildren(mean, ...labels)
    ;[mean, ...labels].forEach((label, at) => {
      label.style.top = `${this.tops[at]}px`
    })
    this.labels.style.height = `${this.tops.at(-1) + LINE}px`
  }

  #drawLine(pen, row, top, ratio) {
    const [from, to] = this.range
    const columns = this.canvas.width
    const count = to - from
    const { backgrounds } = this.palette.ramp(row)
    const cell = Math.round(CELL * ratio)
    const text = this.palette.name("text")
    const paint = (i, left, right) => {
      if (i < 0 || i >= row.values.length) return
      const x = row.values[i]
      const step = stepOf(row, x)
      if (step < 0) return // no value: the background stays visible
      pen.fillStyle = backgrounds[step]
      pen.fillRect(left, top, right - left, cell)
      if (!isBeyond(row, x) && Number.isFinite(x)) return
      pen.fillStyle = text
      pen.fillRect(left, top, right - left, Math.round(2 * ratio))
    }
    if (count > columns)
      for (const [column, i] of extremes(row, from, to, columns).entries()) paint(i, column, column + 1)
    else {
      const gap = columns / count >= 6 * ratio ? ratio : 0
      const edge = (k) => Math.round((k / count) * columns)
      for (let k = 0; k < Math.min(count, row.values.length - from); k++)
        paint(from + k, edge(k), Math.max(edge(k) + 1, edge(k + 1) - gap))
    }
    if (row === this.mean || row.values.length < from || row.values.length > to) return
    const end = Math.round(((row.values.length - from) / count) * columns) // a dot where the response ends
    pen.fillStyle = this.palette.name(row.tokens > row.values.length ? "kl" : "muted")
    pen.fillRect(Math.min(end + 3 * ratio, columns - 3 * ratio), top + cell / 2 - ratio, 3 * ratio, 3 * ratio)
  }

  #drawAxis(width) {
    const [from, to] = this.range
    const rough = ((to - from) / width) * 90
    const power = 10 ** Math.floor(Math.log10(Math.max(rough, 1)))
    const step = [1, 2, 5, 10].find((tick) => tick * power >= rough) * power
    const ticks = []
    for (let i = Math.ceil(from / step) * step; i < to; i += step) {
      const tick = element("span", "", i.toLocaleString("en"))
      tick.style.left = `${(100 * (i - from)) / (to - from)}%`
      ticks.push(tick)
    }
    this.axis.replaceChildren(...ticks)
  }

  #place(node, row, i) {
    const [from, to] = this.range
    const inside = row >= 0 && i >= from && i < to && i < (this.rows[row]?.values.length ?? 0)
    node.hidden = !inside
    if (!inside) return
    node.style.top = `${this.tops[row + 1] - 1}px`
    node.style.left = `${(100 * (i - from)) / (to - from)}%`
    node.style.width = `max(5px, ${100 / (to - from)}%)`
  }

  /** The line and the token at a position of the pointer; of many in a pixel, the one that is drawn. */
  #at(event) {
    const box = this.canvas.getBoundingClientRect()
    const y = event.clientY - box.top
    const row = this.tops.findLastIndex((top) => y >= top) - 1
    const [from, to] = this.range
    const share = Math.min(0.999999, Math.max(0, (event.clientX - box.left) / box.width))
    const line = this.rows[row]
    const columns = this.canvas.width
    if (!line || to - from <= columns)
      return { row: line ? row : -1, i: from + Math.floor(share * (to - from)) }
    const i = extremes(line, from, to, columns)[Math.floor(share * columns)]
    return { row, i: i < 0 ? from + Math.floor(share * (to - from)) : i }
  }

  #point(row, i, box) {
    this.cursor = { row, i }
    this.tipBox = box
    this.mark()
    const line = this.rows[row]
    const known = line && i >= 0 && i < line.values.length
    if (!known) {
      this.tip.hide()
      this.said.textContent = ""
      return
    }
    const texts = this.texts.get(line.uid)
    if (!texts && !this.asked.has(line.uid)) {
      this.asked.add(line.uid)
      this.model.send_msg({ want: "texts", row })
    }
    const text = texts?.[i] === undefined ? "" : ` “${texts[i].replaceAll("\n", "↵").replaceAll("\t", "⇥")}”`
    const value = `${formatValue(line, line.values[i])} ${line.unit}`.trim()
    this.said.textContent = `#${i}${text}: ${this.metric.label} ${value}`
    if (!box) return this.tip.hide()
    const card = document.createDocumentFragment()
    const head = element("div", "rl-tip-head")
    head.append(element("b", "", `#${i}`), text)
    const facts = element("dl")
    for (const [name, shown] of [
      [this.metric.label, value],
      [this.model.data.column, line.text],
      [t("tokens"), line.tokens],
    ]) {
      const pair = element("div")
      pair.append(element("dt", "", name), element("dd", "", shown))
      facts.append(pair)
    }
    card.append(head, facts)
    this.tip.show(card, box)
  }

  #open() {
    const { row, i } = this.cursor
    if (this.rows[row]) this.model.send_msg({ want: "open", row, token: i })
  }

  #listen() {
    let start = null
    const moved = (event) => start && Math.abs(event.clientX - start.x) > DRAG
    const share = (event) => {
      const box = this.canvas.getBoundingClientRect()
      return Math.min(1, Math.max(0, (event.clientX - box.left) / box.width))
    }
    const token = (part) => Math.floor(this.range[0] + part * (this.range[1] - this.range[0]))
    this.plot.addEventListener("pointerdown", (event) => {
      if (event.button === 0) start = { x: event.clientX, share: share(event) }
    })
    this.plot.addEventListener("pointermove", (event) => {
      if (moved(event)) {
        this.plot.setPointerCapture(event.pointerId)
        const [left, right] = [start.share, share(event)].sort((a, b) => a - b)
        Object.assign(this.brush.style, {
          display: "block",
          left: `${100 * left}%`,
          width: `${100 * (right - left)}%`,
        })
        this.tip.hide()
        return
      }
      const { row, i } = this.#at(event)
      this.#point(row, i, { left: event.clientX + 12, top: event.clientY - 12, bottom: event.clientY + 12 })
    })
    this.plot.addEventListener("pointerup", (event) => {
      const [left, right] = start ? [start.share, share(event)].sort((a, b) => a - b) : [0, 1]
      if (moved(event)) this.zoom(token(left), Math.max(token(left) + 2, token(right) + 1))
      else if (start) {
        this.cursor = this.#at(event)
        this.#open()
      }
      start = null
      this.brush.style.display = "none"
    })
    this.plot.addEventListener("pointerleave", () => this.tip.hide())
    this.labels.addEventListener("click", (event) => {
      const row = [...this.labels.children].indexOf(event.target.closest(".label")) - 1
      if (row < 0) return
      this.cursor = { row, i: -1 }
      this.#open()
    })
    const move = (rows, tokens) => {
      const row = Math.min(this.rows.length - 1, Math.max(0, this.cursor.row + rows))
      const last = (this.rows[row]?.values.length ?? 0) - 1
      this.#point(row, Math.min(last, Math.max(0, this.cursor.i + tokens)), null)
      this.rowMark.scrollIntoView({ block: "nearest" })
    }
    const keys = {
      ArrowUp: () => move(-1, 0),
      ArrowDown: () => move(1, 0),
      ArrowLeft: (event) => (event.shiftKey ? this.#outlier(-1) : move(0, -1)),
      ArrowRight: (event) => (event.shiftKey ? this.#outlier(1) : move(0, 1)),
      Enter: () => this.#open(),
      Escape: () => {
        if (!this.zoomed.hidden) this.zoom(0, this.longest)
        else this.#point(-1, -1, null)
      },
      "[": () => this.#metric(-1),
      "]": () => this.#metric(1),
    }
    this.root.addEventListener("keydown", (event) => {
      const act = event.target === this.root ? keys[event.key] : null
      if (!act || !this.rows?.length || event.ctrlKey || event.metaKey || event.altKey) return
      event.preventDefault()
      event.stopPropagation()
      act(event)
    })
  }

  #metric(by) {
    const { logged, metric } = this.model.data
    if (logged.length)
      this.model.metric = logged[(logged.indexOf(metric) + by + logged.length) % logged.length]
  }

  /** Go to the previous or next token beyond the scale, through all lines. */
  #outlier(by) {
    let { row, i } = this.cursor
    if (row < 0) [row, i] = by > 0 ? [0, -1] : [this.rows.length - 1, Infinity]
    for (; this.rows[row]; row += by, i = by > 0 ? -1 : Infinity) {
      const line = this.rows[row]
      i = Math.min(i, line.values.length)
      for (i += by; i >= 0 && i < line.values.length; i += by)
        if (isBeyond(line, line.values[i])) return this.#point(row, i, null)
    }
  }
}

/** The mean of all lines at each position. */
function meanOf(rows, longest) {
  const sums = new Float64Array(longest)
  const counts = new Uint32Array(longest)
  for (const { values } of rows)
    for (let i = 0; i < values.length; i++)
      if (Number.isFinite(values[i])) {
        sums[i] += values[i]
        counts[i]++
      }
  return Float32Array.from(sums, (sum, i) => (counts[i] ? sum / counts[i] : NaN))
}

export function render({ model }) {
  const view = new Rollouts(model)
  model.on("msg:custom", (message) => view.receive(message.data ?? message))
  return attachView(view, {
    data: () => view.show(),
    chosen: () => view.mark(),
    scale: () => view.color(),
    scales: () => view.color(),
    dark: () => view.theme(),
  })
}
