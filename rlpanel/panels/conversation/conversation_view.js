// Conversation view: connects toolbar, map, messages and tooltip for one sample.
// The server joins this file with the other scripts of this folder, which define the components.

const MODE_NAMES = {
  text: [t("Rendered"), t("Markdown and formulas are drawn")],
  raw: [t("Raw"), t("Texts as they were logged")],
  tokens: [t("By token"), t("Tokens of the response, coloured by a metric")],
}

/** Frames in which a target is shown again: messages around it are drawn meanwhile, and change their height. */
const SETTLING = 12
/** Milliseconds of rest after which the server learns which turn is in sight. */
const RESTING = 400
/** Pixels of the window's lower end that are too few to read what begins there. */
const UNREAD = 80

class ConversationView {
  /** Messages and results that a replay shows; all without one. */
  #shown = Number.POSITIVE_INFINITY

  constructor(model) {
    this.model = model
    this.messages = []
    this.hits = []
    this.players = new Map()
    this.asked = new Set()
    this.unfolded = false
    this.hidden = false
    this.sample = null
    this.data = {} // the conversation that is drawn
    this.root = element("div", "rl-tokens rl-conversation")
    const tools = element("div", "tools")
    this.modes = element("div", "modes")
    this.folds = button("fold-all", "", "", () => this.unfold(!this.unfolded))
    const bar = element("div", "rl-bar")
    this.bar = new MetricBar(bar, this.model)
    this.metrics = bar
    this.outline = new TurnOutline({ go: (turn) => this.#goTurn(turn) })
    this.stops = new TurnStops({ go: (stop) => this.#goStop(stop), current: () => this.#start() })
    this.finder = this.#finder()
    this.beside = button(
      "beside",
      t("Beside …"),
      t("Read another rollout of the group beside this one, from the turn at which they part (b)"),
      () => this.ask({ want: "pair" }),
    )
    this.beside.hidden = true
    this.transport = new Transport({
      begin: () => this.#begin(),
      moved: (place) => this.#play(place),
      isInSight: () => this.list.clientHeight > 0,
    })
    const also = element("div", "also") // they break into the next line together
    also.append(this.transport.toggle, this.beside)
    tools.append(this.outline.toggle, this.modes, this.folds, this.finder, also, this.stops.root, bar)
    this.banner = element("div", "banner")
    this.traces = element("div", "traces")
    this.list = element("div", "list")
    this.list.tabIndex = 0
    this.list.setAttribute("role", "group")
    this.list.setAttribute("aria-label", t("Conversation"))
    this.content = element("div", "messages")
    this.list.append(this.content)
    this.map = new TurnMap(this.list, (share) => {
      this.untouched = false
      this.moved = true
      this.list.scrollTop = share * this.list.scrollHeight - this.list.clientHeight / 2
    })
    const columns = element("div", "columns")
    columns.append(this.outline.root, this.list, this.map.root)
    this.notes = element("div", "rl-notes quiet")
    this.root.append(
      tools,
      this.transport.root,
      this.banner,
      this.traces,
      columns,
      this.map.legend,
      this.notes,
    )
    this.tip = new Tip(this.root)
    this.images = new MessageImages(this.root, (what) => this.ask(what))
    this.observer = new IntersectionObserver((entries) => this.#onVisible(entries), {
      root: this.list,
      rootMargin: "600px 0px",
    })
    this.resizing = new ResizeObserver(() => {
      if (this.list.clientHeight === 0)
        this.#pausePlayers() // the tab was closed
      else if (this.hidden) this.#land()
      requestAnimationFrame(() => this.map.place())
    })
    this.resizing.observe(this.list)
    this.resizing.observe(this.content)
    this.#listen()
  }

  get mode() {
    return this.model.mode
  }

  /** The pinned token. */
  get pin() {
    return this.model.token
  }

  /** Draw a new sample. */
  show() {
    const { json, ...sent } = this.model.data
    const data = json ? { ...sent, ...JSON.parse(json) } : sent
    this.data = data
    this.observer.disconnect()
    this.asked.clear()
    clearTimeout(this.resting)
    this.#stopPlayers()
    this.tip.hide()
    this.sample = data.tokens ? readSample(data.tokens, this.model.metrics) : null
    this.messages = (data.blocks ?? []).map((block, index) => new MessageBlock(this, block, index))
    this.bar.show(this.sample?.rows ?? [])
    this.#drawBanner(data.status ?? [])
    const judges = (data.judge ?? []).map((judge) => this.#judge(judge))
    this.images.reset(this.messages.flatMap((message) => message.images))
    this.content.replaceChildren(...this.messages.map((message) => message.node), ...judges)
    this.list.scrollTop = 0
    const failed = this.messages.filter((message) => message.failed)
    const total = failed.reduce((sum, { errors }) => sum + errors.length, 0)
    let first = 1
    for (const message of failed) {
      message.number(first, total)
      first += message.errors.length
    }
    this.notes.replaceChildren(...(data.notes ?? []).map((note) => element("div", "", note)))
    if (!this.messages.length)
      this.content.append(element("div", "quiet", t("No sample is shown: choose one in the grid.")))
    clearTimeout(this.resting) // the place was one of the sample before
    this.untouched = true
    this.chosen = false // whether the reader went to a turn, and did not just scroll
    this.pinned = -1
    this.moved = false // whether the reader scrolled since a message was gone to
    this.awaited = -1 // message whose hit is shown once its text has come
    this.sent = new Set() // turns that the server learnt from here, until it answers
    this.reported = this.model.turn
    this.listTraces()
    this.#shown = Number.POSITIVE_INFINITY
    this.content.classList.remove("playing")
    this.jumped ??= 0
    this.showHits()
    this.listOthers()
    this.markParting()
    this.transport.show(data.score ?? null)
    for (const message of this.messages) this.observer.observe(message.node)
  }

  /** Show a hit of a new search: the first one behind the place where the reader is. */
  seekHit() {
    const found = this.model.hits
    if (found.uid !== this.data.uid) return // of a conversation that comes with the next change
    if (!found.hits?.length && !this.hits.length) {
      this.drawnHits = found
      this.stops.words.textContent = found.words ?? ""
      return
    }
    const at = this.#start()
    const isMoved = !this.untouched
    this.showHits()
    const hits = this.stops.lists.hit
    if (isMoved && hits.length) this.stops.stopAt(hits.find(({ message }) => message >= at) ?? hits[0])
  }

  /** Take the places that a search finds. */
  showHits() {
    const { uid, hits = [], words = "" } = this.model.hits
    this.drawnHits = this.model.hits
    const known = uid === this.data.uid
    this.hits = known ? hits : []
    this.byPart = new Map()
    for (const [number, [message, part, start, end]] of this.hits.entries()) {
      const key = `${message} ${part}`
      this.byPart.set(key, [...(this.byPart.get(key) ?? []), [start, end, number]])
    }
    this.stops.show(this.messages, this.hits, known ? words : "")
    this.outline.show(this.messages, this.hits)
    this.drawWeights()
    this.color()
    this.#land()
  }

  /** Draw the map with the weights of the turns in the gradient, as far as they are known; texts are painted first. */
  drawWeights() {
    cancelAnimationFrame(this.mapping)
    clearTimeout(this.painted)
    this.mapping = requestAnimationFrame(() => {
      this.painted = setTimeout(() => this.#drawMap())
    })
  }

  #drawMap() {
    const { uid, shares = [], why = "" } = this.model.weights
    const isOwn = uid && uid === this.data.uid
    this.map.show(this.messages, this.hits, isOwn ? shares : [], isOwn ? why : "")
    if (isOwn || this.weighed === this.data.uid || !this.messages.length) return
    this.weighed = this.data.uid
    this.ask({ want: "weights" })
  }

  /** Show the button for a second rollout where the group has one. */
  listOthers() {
    this.beside.hidden = this.model.paired || !this.model.others
  }

  /** Mark the first message that differs from the other rollout's, and go there if that was asked for. */
  markParting() {
    const { uid, message, words = "" } = this.model.parting
    for (const each of this.content.querySelectorAll(".message.parting")) each.classList.remove("parting")
    this.beside.setAttribute("aria-pressed", Boolean(uid))
    if (!uid || uid !== this.data.uid) return
    const node = words && this.messages[message]?.node
    if (node) {
      node.dataset.parting = t("The rollouts part here: {words}", { words })
      node.classList.add("parting")
    }
    this.#goParting()
  }

  /** Go to the message at which the rollouts part. Return false if that was not asked for, or is done. */
  #goParting() {
    const { uid, message, jump } = this.model.parting
    const found = uid === this.data.uid && this.messages[message]
    if (!found || !jump || jump === this.jumped) return false
    this.hidden = this.list.clientHeight === 0
    if (this.hidden) return true // once the list has its size
    this.jumped = jump
    if (this.model.paired) this.untouched = false
    else this.#choose()
    this.#settle(found, () => found.node, 0.1)
    return true
  }

  /** Hits in a part of a message: start, end and number. */
  hitsOf(index, part) {
    return this.byPart.get(`${index} ${part}`) ?? []
  }

  /** Show what the reader came for: the pinned token, the turn of the address, or the first hit. */
  #land() {
    this.hidden = this.list.clientHeight === 0 // in a closed tab; shown once the tab is open
    if (this.hidden) return
    if (this.#goParting()) return
    if (this.pin >= 0) this.showPin()
    else if (!this.untouched) this.#follow()
    else if (this.model.turn) this.#goTurn(this.model.turn, true)
    else if (this.hits.length) this.stops.stopAt(this.stops.lists.hit[0], false)
    else {
      this.list.scrollTop = 0
      this.#follow()
    }
  }

  /** Show the turn that another view or the address names. */
  showTurn() {
    const { turn } = this.model
    if (this.sent.delete(turn)) return // the answer to what the reader did
    clearTimeout(this.resting)
    this.reported = turn
    if (turn) {
      this.#goTurn(turn, true)
      return
    }
    // Another sample, or an address without a turn: the beginning, as for a reader who has not moved.
    this.untouched = true
    this.pinned = -1
    this.settling = null
    this.stops.forget()
    this.#land()
  }

  /** Note that the reader has chosen a place: the board keeps the sample then. */
  #choose() {
    this.untouched = false
    this.chosen = true
    this.reported = null
  }

  #goTurn(turn, isGiven = false) {
    const message = turn ? this.messages.find(({ block }) => block.turn === turn) : this.messages[0]
    if (!message) {
      this.stops.words.textContent = t("There is no turn {turn} here.", { turn })
      return
    }
    if (!isGiven) {
      this.#choose()
      this.#reveal(message)
    }
    this.awaited = -1
    this.#settle(message, () => message.node, 0)
  }

  /** Show a hit, an error or a reward. */
  #goStop(stop) {
    const message = this.messages[stop.message]
    if (stop.isAsked) {
      this.#choose()
      this.#reveal(message)
    }
    this.awaited = stop.kind === "hit" ? message.index : -1
    if (stop.kind === "hit") {
      message.open(stop.hit)
      for (const mark of this.content.querySelectorAll("mark.current")) mark.classList.remove("current")
    }
    const find = () => {
      const calls = message.node.querySelectorAll(".call")
      if (["error", "tool"].includes(stop.kind) && message.node.offsetHeight > 0.8 * this.list.clientHeight)
        return calls[stop.call] ?? message.node
      if (stop.kind !== "hit") return message.node
      const mark = message.node.querySelector(`mark[data-hit="${stop.number}"]`)
      mark?.classList.add("current")
      return mark ?? message.node
    }
    this.#settle(message, find, stop.kind === "hit" ? 0.3 : 0)
  }

  /** Scroll the list so that a target stands at a share of its height, until all around is drawn. */
  #settle(message, find, share) {
    if (!message.drawn) message.draw()
    this.pinned = message.index
    this.moved = false
    const isAsked = this.chosen // the page scrolls too
    const turn = {}
    this.settling = turn
    const step = (frames) => {
      if (this.settling !== turn) return
      const target = find()
      const { top } = this.list.getBoundingClientRect()
      const isInside = target !== message.node && share === 0
      const above = isInside ? message.headHeight : share * this.list.clientHeight
      const wanted = target.getBoundingClientRect().top - top - above
      if (Math.abs(wanted) > 1) this.list.scrollTop += wanted
      if (frames) {
        requestAnimationFrame(() => step(frames - 1))
        return
      }
      this.settling = null
      const { top: y } = target.getBoundingClientRect()
      if (isAsked && (y < 0 || y > window.innerHeight - UNREAD)) target.scrollIntoView({ block: "nearest" })
    }
    step(SETTLING)
    this.target = { message, find, share }
    this.#follow()
  }

  #isInView(index) {
    const node = this.messages[index]?.node
    if (!node) return false
    const { offsetTop, offsetHeight } = node
    const { scrollTop, clientHeight } = this.list
    return offsetTop < scrollTop + clientHeight && offsetTop + offsetHeight > scrollTop
  }

  /** The message in sight: the one at the playhead of a replay, or that was gone to, else the one at the top. */
  get #inSight() {
    const event = this.data.score?.events[this.#shown - 1]
    if (event) return event[0]
    if (this.pinned >= 0) return this.pinned
    const { scrollTop } = this.list
    let [low, high] = [0, this.messages.length - 1]
    while (low < high) {
      const middle = (low + high) >> 1
      const { offsetTop, offsetHeight } = this.messages[middle].node
      if (offsetTop + offsetHeight > scrollTop + 24) high = middle
      else low = middle + 1
    }
    return low
  }

  /** The message from which the next stop is searched; -1 at the very beginning. */
  #start() {
    return this.pinned < 0 && this.list.scrollTop < 4 ? -1 : this.#inSight
  }

  /** Let outline and map show where the reader is, and the server know, once the reader rests there. */
  #follow() {
    this.map.follow()
    if (!this.messages.length) return
    const at = this.#inSight
    const turn = this.messages.slice(0, at + 1).findLast(({ block }) => block.turn)?.block.turn ?? 0
    this.outline.select(turn)
    clearTimeout(this.resting)
    if (this.untouched || this.list.clientHeight === 0 || this.transport.playhead.isPlaying) return
    this.resting = setTimeout(() => {
      if (turn === this.reported) return
      this.reported = turn
      if (turn !== this.model.turn) this.sent.add(turn) // else no answer comes
      this.ask({ want: "turn", turn, chosen: this.chosen })
      this.chosen = false
    }, RESTING)
  }

  /** Where a replay begins: at the message in sight. */
  #begin() {
    const { events, shown } = this.data.score
    const at = this.#start()
    return at < 0
      ? 0
      : shown[
          Math.max(
            0,
            events.findIndex(([index]) => index === at),
          )
        ]
  }

  /** Let a replay go on to the end of a message that the reader went to. */
  #reveal(message) {
    const { events = [], shown = [] } = this.data.score ?? {}
    const last = events.findLastIndex(([index]) => index === message.index)
    if (last >= 0) this.transport.reveal(shown[last])
  }

  /** Whether a replay has not come to a message yet, or to the result of one of its calls. */
  isAhead(index, call = -1) {
    if (this.#shown === Number.POSITIVE_INFINITY) return false
    const { events } = this.data.score
    const [block, result] = events[this.#shown - 1] ?? [-1, -1]
    return index > block || (index === block && call > result)
  }

  /** Show the events up to a place of the replay, the last of them in sight; all of them if it is null. */
  #play(place) {
    const { events = [], shown = [], turns = [] } = this.data.score ?? {}
    const count = place === null ? Number.POSITIVE_INFINITY : countUpTo(shown, place + 1e-6)
    if (count === this.#shown) {
      if (place !== null && !this.transport.playhead.isPlaying) this.#follow() // it was paused
      return
    }
    const before = this.#shown
    this.#shown = count
    const block = (number) => events[Math.min(number, events.length) - 1]?.[0] ?? 0
    const [first, last] = [block(before), block(count)].sort((a, b) => a - b)
    for (const message of this.messages.slice(Math.max(0, first), last + 1)) message.veil()
    const isPlaying = place !== null && count < events.length
    this.content.classList.toggle("playing", isPlaying)
    const at = block(count)
    this.outline.veil(place === null ? Number.POSITIVE_INFINITY : (turns[count - 1] ?? 0))
    this.map.veil(place === null ? -1 : at)
    if (place !== null && this.list.clientHeight) this.#keepInSight(this.messages[at])
  }

  /** Scroll the newest words of the replay into sight. */
  #keepInSight(message) {
    if (!message) return
    this.untouched = false
    this.chosen = true // the board keeps the sample
    this.pinned = message.index
    if (!message.drawn) message.draw()
    const turn = {}
    this.settling = turn
    const step = (frames) => {
      if (this.settling !== turn) return
      const answers = [...message.node.querySelectorAll(".answer:not(.ahead)")]
      const target = (answers.at(-1) ?? message.node).getBoundingClientRect()
      const box = this.list.getBoundingClientRect()
      const below = target.bottom + 16 - box.bottom
      if (below > 0) this.list.scrollTop += below
      else if (target.top < box.top)
        this.list.scrollTop += Math.max(target.top - box.top - 8, box.top - box.bottom)
      if (frames) requestAnimationFrame(() => step(frames - 1))
      else this.settling = null
    }
    step(2)
    this.#follow()
  }

  /** A field that finds words in this conversation alone. */
  #finder() {
    const input = element("input", "rl-field find")
    Object.assign(input, { type: "text", placeholder: t("Find here"), spellcheck: false })
    input.title = t(
      "Find in this conversation: text or /regular expression/; Enter and Shift+Enter go on and back",
    )
    input.setAttribute("aria-label", t("Find in this conversation"))
    input.addEventListener("input", () => {
      clearTimeout(this.typing)
      this.typing = setTimeout(() => {
        this.untouched = false // a hit is shown, and not the turn of the address
        this.model.find = input.value
      }, 250)
    })
    input.addEventListener("keydown", (event) => {
      event.stopPropagation() // keys of the view and the page are ordinary letters in this field
      if (event.key === "Enter") this.stops.walk("hit", event.shiftKey ? -1 : 1)
      if (event.key !== "Escape") return
      input.value = ""
      this.model.find = ""
      this.list.focus()
    })
    return input
  }

  /** List the traces of the episode, if it has several. */
  listTraces() {
    const { traces } = this.model
    const { data } = this
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
    if (this.hidden) return
    const node = span ?? message.node
    const [box, frame] = [node.getBoundingClientRect(), this.list.getBoundingClientRect()]
    if (box.top < frame.top || box.bottom > frame.bottom) this.#settle(message, () => node, 0.3)
  }

  theme() {
    this.root.classList.toggle("dark", this.model.dark)
    this.palette = makePalette(this.root)
    if (this.sample || this.messages.length) this.color()
  }

  unfold(open) {
    this.unfolded = open
    for (const message of this.messages) {
      message.opened.clear()
      if (message.drawn) message.draw()
    }
    this.#drawModes()
  }

  ask(what) {
    this.model.send_msg({ uid: this.data.uid, ...what })
  }

  /** Ask for a part once: its HTML, or more of its text. */
  askPart(block, part, length) {
    const key = `${block} ${part} ${length}`
    if (this.asked.has(key)) return
    this.asked.add(key)
    this.ask({ want: "part", block, part, length })
  }

  receive(answer) {
    if (answer.uid !== this.data.uid) return
    const player = this.players.get(`${answer.message}:${answer.position}`)
    if (player && (answer.address || answer.reason)) {
      player.receive(answer)
      return
    }
    if (answer.image === undefined) {
      this.asked.clear() // what is missing after an answer may be asked for again
      this.messages[answer.block]?.receive(answer)
      const { message, find, share } = this.target ?? {}
      // Its hit may come with this text; the list may have scrolled by itself meanwhile.
      const isAwaited = [this.pinned, this.awaited].includes(answer.block)
      if (message?.index === answer.block && isAwaited) this.#settle(message, find, share)
      return
    }
    this.images.receive(answer)
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

  destroy() {
    this.observer.disconnect()
    this.resizing.disconnect()
    this.transport.destroy()
    this.#stopPlayers()
    document.removeEventListener("keydown", this.onKey)
    clearTimeout(this.resting)
    clearTimeout(this.painted)
    cancelAnimationFrame(this.mapping)
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
    this.folds.hidden = !this.messages.some((message) => message.folds)
    this.folds.textContent = this.unfolded ? t("Fold all") : t("Unfold all")
  }

  #onVisible(entries) {
    for (const entry of entries) {
      const message = this.messages[Number(entry.target.dataset.index)]
      if (entry.isIntersecting && message && !message.drawn) message.draw()
    }
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
    this.list.addEventListener("keydown", (event) => {
      if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return
      event.preventDefault()
      event.stopPropagation() // the page searches all samples
      this.finder.focus()
    })
    this.list.addEventListener(
      "scroll",
      () => {
        // Texts that come later move the list, too, and leave the message that was gone to in sight.
        if (!this.settling && (this.moved || !this.#isInView(this.pinned))) this.pinned = -1
        this.#follow()
      },
      { passive: true },
    )
    for (const name of ["wheel", "touchmove", "pointerdown", "keydown"])
      this.list.addEventListener(
        name,
        () => {
          this.untouched = false
          this.moved = true
          this.settling = null
          this.awaited = -1
        },
        { passive: true },
      )
    for (const name of ["wheel", "touchmove"])
      this.list.addEventListener(name, () => this.transport.playhead.pause(), { passive: true })
    // Keys of the page while the conversation is in sight.
    this.onKey = (event) => {
      const isPair = event.key === "b" && !this.beside.hidden
      const [kind] = Object.entries(STOPS).find(([, { key }]) => key === event.key.toLowerCase()) ?? []
      if (!(kind || isPair) || event.ctrlKey || event.metaKey || event.altKey || this.list.clientHeight === 0)
        return
      if (
        event
          .composedPath()
          .some((node) => node.matches?.("input, textarea, select, dialog, [contenteditable]"))
      )
        return
      // Of two conversations beside each other, the one that has the focus has the keys; else the first one.
      const focused = event.composedPath().find((node) => node.classList?.contains("rl-conversation"))
      if (!isPair && (focused ? focused !== this.root : this.model.paired)) return
      event.preventDefault()
      if (isPair) this.beside.click()
      else this.stops.walk(kind, event.shiftKey ? -1 : 1)
    }
    document.addEventListener("keydown", this.onKey)
  }

  /** Go to the previous or next message. */
  #step(by) {
    const message = this.messages[Math.max(0, this.#start()) + by]
    this.untouched = false
    if (message) this.#reveal(message)
    if (message) this.#settle(message, () => message.node, 0)
  }
}

export function render({ model }) {
  const view = new ConversationView(model)
  model.on("msg:custom", (event) => view.receive(event.data ?? event))
  return attachView(view, {
    data: () => view.show(),
    hits: () => view.model.hits === view.drawnHits || view.seekHit(),
    turn: () => view.showTurn(),
    traces: () => view.listTraces(),
    weights: () => view.drawWeights(),
    others: () => view.listOthers(),
    parting: () => view.markParting(),
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
