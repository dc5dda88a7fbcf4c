// Conversation view: connects toolbar, map, messages and tooltip for one sample.
// The server joins this file with the other scripts of this folder, which define the components.

const MODE_NAMES = {
  text: [t("Text"), t("Markdown and formulas are drawn")],
  raw: [t("Raw"), t("Texts as they were logged")],
  tokens: [t("Tokens"), t("Tokens of the response, coloured by a metric")],
}

class ConversationView {
  constructor(model) {
    this.model = model
    this.messages = []
    this.images = new Map()
    this.players = new Map()
    this.asked = new Set()
    this.unfolded = false
    this.hidden = false
    this.sample = null
    this.root = element("div", "rl-tokens rl-conversation")
    const tools = element("div", "tools")
    this.modes = element("div", "modes")
    this.folds = button("fold-all", "", "", () => this.unfold(!this.unfolded))
    const bar = element("div", "rl-bar")
    this.bar = new MetricBar(bar, {
      choose: (name) => {
        this.model.metric = name
      },
      chooseScale: (name) => {
        this.model.scale = name
      },
    })
    this.metrics = bar
    tools.append(this.modes, this.folds, bar)
    this.banner = element("div", "banner")
    this.traces = element("div", "traces")
    this.list = element("div", "list")
    this.list.tabIndex = 0
    this.list.setAttribute("role", "group")
    this.list.setAttribute("aria-label", t("Conversation"))
    this.map = new TurnMap(this.list)
    const columns = element("div", "columns")
    columns.append(this.map.root, this.list)
    this.notes = element("div", "rl-notes quiet")
    this.root.append(tools, this.banner, this.traces, columns, this.notes)
    this.tip = new Tip(this.root)
    this.shown = new ImageDialog(this.root)
    this.observer = new IntersectionObserver((entries) => this.#onVisible(entries), {
      root: this.list,
      rootMargin: "600px 0px",
    })
    this.resizing = new ResizeObserver(() => {
      if (this.list.clientHeight === 0)
        this.#pausePlayers() // the tab was closed
      else if (this.hidden) this.showPin()
    })
    this.resizing.observe(this.list)
    this.#listen()
  }

  get mode() {
    return this.model.mode
  }

  /** Draw a new sample. */
  show() {
    const data = this.model.data
    this.observer.disconnect()
    this.asked.clear()
    this.images.clear()
    this.#stopPlayers()
    this.tip.hide()
    this.sample = data.tokens ? readSample(data.tokens, this.model.metrics) : null
    this.messages = (data.blocks ?? []).map((block, index) => new MessageBlock(this, block, index))
    this.bar.show(this.sample?.rows ?? [])
    this.#drawBanner(data.status ?? [])
    const judges = (data.judge ?? []).map((judge) => this.#judge(judge))
    this.list.replaceChildren(...this.messages.map((message) => message.node), ...judges)
    this.list.scrollTop = 0
    this.notes.replaceChildren(...(data.notes ?? []).map((note) => element("div", "", note)))
    if (!this.messages.length)
      this.list.append(element("div", "quiet", t("Choose a sample to read its conversation.")))
    this.map.show(this.messages)
    this.listTraces()
    this.color()
    for (const message of this.messages) this.observer.observe(message.node)
    this.showPin()
  }

  /** List the traces of the episode, if it has several. */
  listTraces() {
    const { traces, data } = this.model
    this.traces.hidden = traces.length < 2
    this.traces.replaceChildren(
      element("span", "quiet", t("Traces of this episode")),
      ...traces.map(([uid, name]) => {
        const chip = button("rl-chip", name, t("Show this trace"), () =>
          this.ask({ want: "trace", trace: uid }),
        )
        chip.classList.toggle("chosen", uid === data.uid)
        chip.setAttribute("aria-pressed", uid === data.uid)
        return chip
      }),
    )
  }

  /** Draw all visible messages again, in another mode or colour. */
  color() {
    const { sample } = this
    const requested = this.model.metric
    scaleRows(sample?.rows ?? [], this.model.scales, this.model.scale)
    this.row = sample ? chooseRow(sample.rows, requested) : null
    const missing = this.row && this.row.name !== requested ? labelOf(this.model.metrics, requested) : ""
    this.bar.select(this.row, this.palette, missing)
    this.shade = sample ? shadeOf(sample, this.row, this.palette) : () => null
    this.#drawModes()
    for (const message of this.messages) if (message.drawn) message.draw()
  }

  /** Scroll to the message of the pinned token, and mark the token. */
  showPin() {
    const token = this.model.token
    for (const span of this.list.querySelectorAll(".token.pinned")) span.classList.remove("pinned")
    if (token < 0) return
    const message = this.messages.find(
      ({ block }) => block.tokens && token >= block.tokens[0] && token < block.tokens[1],
    )
    if (!message) return
    if (!message.drawn) message.draw()
    const span = message.node.querySelector(`.token[data-i="${token}"]`)
    span?.classList.add("pinned")
    this.hidden = this.list.clientHeight === 0 // in a closed tab; scrolled once the tab is open
    ;(span ?? message.node).scrollIntoView({ block: "nearest" })
  }

  theme() {
    this.root.classList.toggle("dark", this.model.dark)
    this.palette = makePalette(this.root)
    if (this.sample || this.messages.length) this.color()
  }

  unfold(open) {
    this.unfolded = open
    for (const message of this.messages) if (message.drawn) message.draw()
    this.#drawModes()
  }

  ask(what) {
    this.model.send_msg({ uid: this.model.data.uid, ...what })
  }

  /** Ask for a part once: its HTML, or more of its text. */
  askPart(block, part, length) {
    const key = `${block} ${part} ${length}`
    if (this.asked.has(key)) return
    this.asked.add(key)
    this.ask({ want: "part", block, part, length })
  }

  receive(answer) {
    if (answer.uid !== this.model.data.uid) return
    const player = this.players.get(`${answer.message}:${answer.position}`)
    if (player && (answer.address || answer.reason)) {
      player.receive(answer)
      return
    }
    if (answer.image === undefined) {
      this.messages[answer.block]?.receive(answer)
      return
    }
    const { message, position, full, image } = answer
    this.images.set(`${message}:${position}:${full}`, image)
    if (full) this.shown.show(image)
    else
      for (const each of this.messages)
        if (each.drawn && each.block.images?.some(([m, p]) => m === message && p === position)) each.draw()
  }

  /** The player of a message's audio or video: one for each, which stays when the message is drawn again. */
  playerOf(message, position, kind) {
    const key = `${message}:${position}`
    if (!this.players.has(key)) {
      this.players.set(key, new MediaPlayer(kind, position))
      this.ask({ want: "medium", message, position })
    }
    return this.players.get(key).root
  }

  #pausePlayers() {
    for (const player of this.players.values()) player.pause()
  }

  #stopPlayers() {
    for (const player of this.players.values()) player.stop()
    this.players.clear()
  }

  showImage(message, position) {
    const known = this.images.get(`${message}:${position}:true`)
    if (known === undefined) this.ask({ want: "image", message, position, full: true })
    else this.shown.show(known)
  }

  destroy() {
    this.observer.disconnect()
    this.resizing.disconnect()
    this.#stopPlayers()
    this.tip.hide()
  }

  #judge([name, text]) {
    const node = element("section", "message judge")
    const gutter = element("header", "gutter")
    gutter.append(element("b", "", "judge"), element("span", "", name))
    const body = element("div", "body")
    body.append(element("div", "plain", text))
    node.append(gutter, body)
    return node
  }

  #drawBanner([status, reason]) {
    this.banner.hidden = !status
    this.banner.replaceChildren()
    if (!status) return
    this.banner.append(element("b", "", status.replaceAll("_", " ")))
    if (reason) this.banner.append(element("span", "", reason))
  }

  #drawModes() {
    const hasTokens = this.messages.some((message) => message.hasTokens)
    this.modes.replaceChildren(
      ...Object.entries(MODE_NAMES).map(([mode, [label, title]]) => {
        const chip = button("mode", label, title, () => {
          this.model.mode = mode
        })
        chip.dataset.mode = mode
        chip.setAttribute("aria-pressed", mode === this.mode)
        chip.disabled = mode === "tokens" && !hasTokens
        if (chip.disabled) chip.title = t("The tokens of the turns are not known")
        return chip
      }),
    )
    this.metrics.hidden = this.mode !== "tokens" || !this.sample?.rows.length
    const foldable = this.messages.some(
      ({ block }) => block.reasoning || ["system", "developer"].includes(block.role),
    )
    this.folds.hidden = !foldable
    this.folds.textContent = this.unfolded ? t("Fold all") : t("Unfold all")
  }

  #onVisible(entries) {
    for (const entry of entries) {
      const message = this.messages[Number(entry.target.dataset.index)]
      if (entry.isIntersecting && message && !message.drawn) message.draw()
    }
    this.map.follow()
  }

  #listen() {
    const hover = (i, event) => {
      if (i < 0) this.tip.hide()
      else this.tip.show(describeToken(this.sample, i, this.row?.name), boxAt(event))
    }
    listenTokens(this.list, hover, (i) => {
      this.model.token = i === this.model.token ? -1 : i
    })
    this.list.addEventListener("keydown", (event) => {
      const by = { "[": -1, "]": 1 }[event.key]
      if (!by || event.ctrlKey || event.metaKey || event.altKey) return
      event.preventDefault()
      event.stopPropagation() // the page uses the same keys
      this.#step(by)
    })
  }

  /** Scroll to the previous or next message. */
  #step(by) {
    const top = this.list.getBoundingClientRect().top
    const tops = this.messages.map(({ node }) => node.getBoundingClientRect().top - top)
    const next = by > 0 ? tops.findIndex((y) => y > 2) : tops.findLastIndex((y) => y < -2)
    scrollToMessage(this.messages[next]?.node)
  }
}

/** An image in full size over the page; Escape or a click closes it. */
class ImageDialog {
  constructor(root) {
    this.dialog = element("dialog", "full-image")
    this.dialog.addEventListener("click", () => this.dialog.close())
    root.append(this.dialog)
  }

  show(source) {
    if (!source.startsWith("data:image/")) return
    const image = element("img")
    image.alt = t("image in full size")
    image.src = source
    this.dialog.replaceChildren(image)
    if (!this.dialog.open) this.dialog.showModal()
  }
}

export function render({ model }) {
  const view = new ConversationView(model)
  model.on("msg:custom", (event) => view.receive(event.data ?? event))
  return attachView(view, {
    data: () => view.show(),
    traces: () => view.listTraces(),
    mode: () => {
      view.color()
      view.showPin()
    },
    metric: () => view.color(),
    scale: () => view.color(),
    scales: () => view.color(),
    token: () => view.showPin(),
    dark: () => view.theme(),
  })
}
