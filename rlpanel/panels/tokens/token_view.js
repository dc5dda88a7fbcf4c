// Token view: connects text, toolbar, heatmap, outliers, search and tooltip for one sample.
// The server appends this file to the other scripts of this folder, which define the components.

class TokenView {
  constructor(model) {
    this.model = model
    this.root = element("div", "rl-tokens")
    this.root.tabIndex = 0
    this.root.setAttribute("role", "group")
    this.root.setAttribute("aria-label", t("Response, token by token"))
    const choose = (name) => {
      this.model.metric = name
    }
    const pin = (i) => {
      if (i === this.model.token) this.text.reveal(i)
      else this.model.token = i
    }
    const toggle = (i) => {
      this.model.token = i === this.model.token ? -1 : i
    }
    const zoom = (from, to) => this.zoom(from, to)

    const bar = element("div", "rl-bar")
    this.textBox = element("div", "rl-tokens-text")
    const strip = element("div", "rl-strip-grid")
    this.notes = element("div", "rl-notes quiet")
    this.pinned = element("div", "rl-pin")
    this.root.append(bar, this.textBox)
    this.bar = new MetricBar(bar, this.model)
    this.text = new RunningText(this.textBox, { onScroll: (range) => this.strip.showTextRange(range) })
    this.tools = element("div", "rl-tools")
    this.outliers = new Outliers(this.tools, { pin })
    this.finder = new Finder(this.tools, { pin, mark: (hits) => this.markHits(hits) })
    this.zoomed = button("rl-tool rl-zoomed", "", t("Show all tokens (Esc)"), () =>
      zoom(0, this.sample.cells),
    )
    this.crowd = element("span", "rl-crowd quiet")
    this.tools.append(this.zoomed, this.crowd)
    this.root.append(this.tools, this.outliers.list)
    this.choice = new RowChoice(this.tools, this.root, {
      changed: (rows) => {
        this.strip.setRows(rows)
        this.strip.select(this.row)
      },
    })
    const hover = (i, event) => this.hover(i, event && boxAt(event))
    this.strip = new Strip(strip, { choose, pin: toggle, zoom, hover })
    this.root.append(strip, this.pinned, this.notes)
    this.tip = new Tip(this.root)
    this.pinned.setAttribute("aria-live", "polite")
    this.resizing = new ResizeObserver(() => this.#onResize())
    this.resizing.observe(this.root)
    listenTokens(this.textBox, hover, toggle)
    listenKeys(this)
  }

  /** Draw a new sample. */
  show() {
    this.sample = readSample(this.model.data, this.model.metrics)
    const { state, rows, notes } = this.sample
    this.root.dataset.state = state
    scaleRows(rows, this.model.scales, this.model.scale)
    this.tip.hide()
    this.bar.show(rows)
    this.strip.show(this.sample, this.palette, this.choice.show(rows))
    if (this.sample.plain || !this.sample.cells) this.text.showPlain(this.sample.plain)
    else this.text.show(this.sample)
    this.tools.hidden = !this.sample.cells
    this.outliers.show(this.sample)
    this.finder.show(this.sample)
    this.notes.replaceChildren(...[...notes, ...rowNotes(rows)].map((note) => element("div", "", note)))
    this.color()
    this.showPin()
    this.#showZoom()
  }

  /** Colour the text by the chosen metric, without a request to the server. */
  color() {
    const requested = this.model.metric
    this.row = chooseRow(this.sample.rows, requested)
    const missing = this.row && this.row.name !== requested ? labelOf(this.model.metrics, requested) : ""
    this.bar.select(this.row, this.palette, missing)
    this.strip.select(this.row)
    this.outliers.select(this.row)
    this.text.paint(shadeOf(this.sample, this.row, this.palette))
    this.#showPinned()
  }

  /** Colour by another scale, or by one that grew. */
  scale() {
    scaleRows(this.sample.rows, this.model.scales, this.model.scale)
    this.strip.rescale()
    this.color()
  }

  /** Show the pinned token after a change here or on the server. */
  showPin() {
    const i = this.model.token
    this.pin = i >= 0 && i < this.sample.cells ? i : -1
    this.outliers.position = this.pin
    this.text.mark("pinned", this.pin < 0 ? [] : [this.pin])
    this.strip.setCursor("pin", this.pin)
    if (this.pin >= 0) {
      this.text.reveal(this.pin)
      this.#scrollToPin()
    }
    this.#showPinned()
  }

  theme() {
    this.root.classList.toggle("dark", this.model.dark)
    this.palette = makePalette(this.root)
    if (!this.sample) return
    this.strip.restyle(this.palette)
    this.color()
  }

  hover(i, box) {
    this.text.mark("hovered", i < 0 ? [] : [i])
    this.strip.setCursor("hover", i)
    if (i < 0) this.tip.hide()
    else this.tip.show(describeToken(this.sample, i, this.row?.name), box)
  }

  /** Show the tokens [from, to) in heatmap and lines. */
  zoom(from, to) {
    this.strip.setRange(from, to)
    if (to - from < this.sample.cells && (this.pin < from || this.pin >= to)) this.text.reveal(from)
    this.#showZoom()
  }

  markHits(hits) {
    const tokens = hits.flatMap(([first, last]) => Array.from({ length: last - first }, (_, k) => first + k))
    this.text.mark("hit", tokens)
    this.strip.setHits(hits)
  }

  /** Colour by the previous or next metric. */
  stepMetric(direction) {
    const { rows } = this.sample
    if (rows.length)
      this.model.metric = rows[(rows.indexOf(this.row) + direction + rows.length) % rows.length].name
  }

  /** Pin the previous or next token; without a pinned token, the last or the first. */
  stepToken(direction) {
    const last = this.sample.cells - 1
    if (last < 0) return
    const from = this.pin < 0 ? (direction > 0 ? -1 : last + 1) : this.pin
    this.model.token = Math.min(last, Math.max(0, from + direction))
  }

  destroy() {
    this.tip.hide()
    this.text.destroy()
    this.resizing.disconnect()
  }

  /** Move the zoomed range to the pinned token. */
  #scrollToPin() {
    const [from, to] = this.strip.range
    if (this.pin >= from && this.pin < to) return
    const first = Math.max(0, Math.min(this.sample.cells - (to - from), this.pin - ((to - from) >> 1)))
    this.zoom(first, first + to - from)
  }

  #onResize() {
    if (!this.sample) return
    if (!this.palette.valid) this.theme()
    this.strip.draw()
    this.#showZoom()
  }

  #showPinned() {
    this.pinned.replaceChildren(
      ...(this.pin >= 0 ? [describeToken(this.sample, this.pin, this.row?.name)] : []),
    )
  }

  #showZoom() {
    const [from, to] = this.strip.range
    const all = to - from >= this.sample.cells
    this.zoomed.textContent = all ? "" : t("tokens {from}–{to} ✕", { from, to: to - 1 })
    this.zoomed.hidden = all
    const crowd = this.strip.tokensPerPixel
    this.crowd.textContent =
      crowd < 1.5
        ? ""
        : t("{count} tokens per pixel; drag to zoom", { count: crowd.toFixed(crowd < 10 ? 1 : 0) })
  }
}

/** Handle keys inside the view; they must not reach the page, which uses the same keys. */
function listenKeys(view) {
  const keys = {
    ArrowLeft: (event) => (event.shiftKey ? view.outliers.walk(-1) : view.stepToken(-1)),
    ArrowRight: (event) => (event.shiftKey ? view.outliers.walk(1) : view.stepToken(1)),
    "[": () => view.stepMetric(-1),
    "]": () => view.stepMetric(1),
    "/": () => view.finder.input.focus(),
    Escape: () => {
      if (view.pin >= 0) view.model.token = -1
      else view.zoom(0, view.sample.cells)
    },
  }
  view.root.addEventListener("keydown", (event) => {
    const act = keys[event.key]
    if (!act || !view.sample?.cells || event.ctrlKey || event.metaKey || event.altKey) return
    event.preventDefault()
    event.stopPropagation()
    act(event)
  })
}

function rowNotes(rows) {
  return rows.filter((row) => row.note).map((row) => `${row.label}: ${row.note}`)
}

export function render({ model }) {
  const view = new TokenView(model)
  return attachView(view, {
    data: () => view.show(),
    metric: () => view.color(),
    scale: () => view.scale(),
    scales: () => view.scale(),
    token: () => view.showPin(),
    dark: () => view.theme(),
  })
}
