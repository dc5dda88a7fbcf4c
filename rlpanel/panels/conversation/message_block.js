// One message of the conversation. Its body is created when it comes near the visible area.
//
// Texts of the log reach the page through textContent. Only HTML that the server sanitized uses innerHTML.

const lengthOf = (part) => (part ? (part.length ?? part.text.length) : 0)

/** Lines of a result or a call that are shown before the reader asks for all, and characters if they are long. */
const [FIRST_LINES, FIRST_CHARACTERS] = [8, 1_600]
const IN_PYTHON = /^\s*Traceback \(most recent call last\)/

/** Return the beginning of a text, and the words for what is left of it; a traceback keeps its end. */
function foldedText(part) {
  const lines = part.text.split("\n")
  const count = part.lines ?? lines.length
  const isTraceback = part.length === undefined && IN_PYTHON.test(part.text)
  const some = (isTraceback ? lines.slice(-FIRST_LINES) : lines.slice(0, FIRST_LINES)).join("\n")
  const text = isTraceback ? some : some.slice(0, FIRST_CHARACTERS)
  const left = count - FIRST_LINES
  if (left > 0 && text.length === some.length)
    return {
      text,
      from: isTraceback ? part.text.length - text.length : 0,
      rest: linesLeft(left, isTraceback),
    }
  const characters = lengthOf(part) - text.length
  // A few more characters are shown at once.
  if (characters < FIRST_CHARACTERS / 4) return { text: part.text, from: 0, rest: "" }
  return { text, from: 0, rest: t("{count} more characters", { count: characters.toLocaleString("en") }) }
}

function linesLeft(left, isBefore) {
  const count = left.toLocaleString("en")
  if (isBefore) return left === 1 ? t("1 line before") : t("{count} lines before", { count })
  return left === 1 ? t("1 more line") : t("{count} more lines", { count })
}

/**
 * A message. Its `view` has `mode`, `unfolded`, `sample` and `shade` of its tokens, `pin` (the pinned token),
 * `images` (`MessageImages`), and the functions `ask`, `askPart`, `hitsOf` and `playerOf`: see `ConversationView`.
 */
class MessageBlock {
  constructor(view, block, index) {
    this.view = view
    this.block = block
    this.index = index
    this.drawn = false
    this.whole = new Set()
    this.opened = new Map() // parts that the reader opened or closed
    this.node = element("section", `message${block.given ? " given" : ""}${this.failed ? " failed" : ""}`)
    this.node.dataset.role = block.role
    this.node.dataset.index = index
    this.node.setAttribute("aria-label", this.title)
    this.body = element("div", "body")
    this.node.style.containIntrinsicSize = `auto ${this.#height}px`
  }

  get failed() {
    return this.errors.length > 0
  }

  /** Calls that failed or could not be read, by position; -1 for a tool's message that is an error itself. */
  get errors() {
    const { error, calls = [] } = this.block
    const failed = [...calls.keys()].filter((k) => calls[k].result?.error || calls[k].unreadable)
    return error ? [-1, ...failed] : failed
  }

  /** The height that the message will have, roughly. */
  get #height() {
    const { text, reasoning, calls = [], role } = this.block
    const lines = (part, most) => (part ? Math.min(most, Math.ceil(lengthOf(part) / 80)) : 0)
    const own = lines(text, ["assistant", "user"].includes(role) ? 200 : FIRST_LINES + 1)
    const beside = calls.map(
      (call) => 2 + lines(call.text, FIRST_LINES) + lines(call.result, FIRST_LINES + 1),
    )
    return 24 + 22 * [own, reasoning ? 1 : 0, ...beside].reduce((sum, part) => sum + part, 0)
  }

  /** Characters that the message itself has, with its calls. */
  get ownSize() {
    const { text, reasoning, calls = [] } = this.block
    return [text, reasoning, ...calls.map((call) => call.text)].reduce((sum, part) => sum + lengthOf(part), 0)
  }

  /** Height of what stays in sight above the text while the message is scrolled. */
  get headHeight() {
    return 4 + (this.gutter.offsetTop + 8 < this.body.offsetTop ? this.gutter.offsetHeight : 0)
  }

  get role() {
    return this.block.role
  }

  get title() {
    return `${this.role}${this.block.turn ? ` ${this.block.turn}` : ""}${this.block.name ? ` ${this.block.name}` : ""}`
  }

  get hasTokens() {
    return Boolean(this.block.tokens) && this.view.sample?.texts.length > 0
  }

  /** Images of the message and of the results of its calls. */
  get images() {
    return [
      ...(this.block.images ?? []),
      ...(this.block.calls ?? []).flatMap((call) => call.result?.images ?? []),
    ]
  }

  /** True if the reader can open something in it. */
  get folds() {
    const { reasoning, text, role, calls = [] } = this.block
    return Boolean(
      reasoning ||
        ["system", "developer"].includes(role) ||
        (FOLDED_ROLES.has(role) && text && foldedText(text).rest) ||
        calls.some((call) => foldedText(call.text).rest || (call.result && foldedText(call.result).rest)),
    )
  }

  draw() {
    if (!this.drawn) {
      this.gutter = this.#gutter()
      this.node.append(this.gutter, this.body)
    }
    this.drawn = true
    this.body.replaceChildren()
    const inTokens = this.view.mode === "tokens" && this.hasTokens
    if (this.block.begun) this.body.append(this.#begun(inTokens))
    if (inTokens) this.body.append(this.#tokens(this.block.tokens, "self"))
    else this.#drawTexts()
    this.#drawCalls()
    const { media = [] } = this.block
    if (inTokens) this.#strip(this.body, this.block.images)
    if (media.length) {
      const players = element("div", "players")
      players.append(...media.map(([message, position, kind]) => this.view.playerOf(message, position, kind)))
      this.body.append(players)
    }
    this.veil()
  }

  /** Hide what a replay has not come to. It keeps its place, so that the scroll bar stays. */
  veil() {
    this.node.classList.toggle("ahead", this.view.isAhead(this.index))
    if (!this.drawn) return
    const calls = this.body.querySelectorAll(":scope > .call")
    for (const [k, call] of calls.entries())
      call.querySelector(".answer")?.classList.toggle("ahead", this.view.isAhead(this.index, k))
  }

  /** Take a part that the server sent. */
  receive({ part, text, html, length, lines }) {
    const place = this.#place(part)
    if (!place || text.length < place.text.length) return // the answer to a longer request came before
    Object.assign(place, { text, html, length, lines })
    if (this.drawn) this.draw()
  }

  /** Open what hides a hit, and ask for the text up to it if it is not loaded yet. */
  open([, name, , end]) {
    const part = this.#place(name)
    if (!part) return
    const isNew = !this.isOpen(name)
    this.opened.set(name, true)
    if (part.length !== undefined && [...part.text].length < end)
      this.view.askPart(this.index, name, Math.min(part.length, end + 2_000))
    if (isNew || !this.drawn) this.draw()
  }

  isOpen(name) {
    return this.opened.get(name) ?? this.view.unfolded
  }

  #place(part) {
    const [name, number] = part.split(":")
    const call = this.block.calls?.[Number(number)]
    if (name === "json" && call) call.json ??= { text: "" }
    return { call: call?.text, json: call?.json, result: call?.result }[name] ?? this.block[name]
  }

  #gutter() {
    const gutter = element("header", "gutter")
    gutter.append(element("b", "", this.title))
    gutter.append(element("span", "wrong", this.numbering ?? ""))
    if (this.block.plan) {
      const [kind, evidence] = this.block.plan
      const plan = element("span", "plan", t("new plan"))
      plan.title =
        kind === "words"
          ? t("A sentence begins with “{evidence}”", { evidence })
          : t("The first call of {evidence} after three turns with other tools", { evidence })
      gutter.append(plan)
    }
    const { tokens, version, reward, worth = 0, seconds, turn } = this.block
    if (seconds) gutter.append(element("span", "", seconds))
    if (reward) {
      const shown = worth
        ? element("span", `reward ${worth > 0 ? "plus" : "minus"}`, reward)
        : element("span", "reward", t("reward {reward}", { reward }))
      shown.title = t("Reward of this turn")
      gutter.append(shown)
    }
    if (tokens) {
      const words = t("{count} tokens", { count: (tokens[1] - tokens[0]).toLocaleString("en") })
      const lead = () => this.view.ask({ want: "tokens", token: tokens[0] })
      gutter.append(
        turn
          ? button("open", `${words} ↗`, t("Show these tokens in the token view"), lead)
          : element("span", "", words),
      )
    }
    if (version) {
      const shown = element("span", "", version)
      shown.title = t("Version of the policy that wrote this turn")
      gutter.append(shown)
    }
    return gutter
  }

  /** Say which of the conversation's errors the message has. */
  number(first, total) {
    this.numbering = total > 1 ? t("error {first} of {total}", { first, total }) : t("error")
  }

  #drawTexts() {
    const { text, reasoning, role } = this.block
    if (reasoning) this.body.append(this.#fold(t("reasoning"), reasoning, "reasoning"))
    if (text && (role === "system" || role === "developer")) this.body.append(this.#fold("", text, "text"))
    else if (text) this.body.append(this.#part(text, "text", FOLDED_ROLES.has(role)))
    if (!text && !reasoning && !this.block.calls) this.body.append(element("span", "quiet", t("empty")))
    this.#strip(this.body, placeImages(this.body, this.#thumbnails(this.block.images)))
  }

  #drawCalls() {
    for (const [k, call] of (this.block.calls ?? []).entries()) {
      const pair = element("div", call.unreadable ? "call unreadable" : "call")
      pair.append(this.#asked(call, k))
      const { result } = call
      if (!result) pair.append(element("div", "answer none", t("no result")))
      else pair.append(this.#answer(call, result, k))
      this.body.append(pair)
    }
  }

  /** The call as a person writes it; as logged in the mode for that. */
  #asked(call, k) {
    const asked = element("div", "asked")
    if (call.unreadable) {
      const head = element("h6", "", t("could not be read: {name}", { name: call.name }))
      head.title = t("The arguments are not valid JSON")
      asked.append(head)
    }
    if (this.view.mode !== "raw") {
      asked.append(this.#part(call.text, `call:${k}`, true))
      return asked
    }
    call.json ??= { text: "" }
    if (!call.json.text) this.view.askPart(this.index, `json:${k}`, 20_000)
    asked.append(
      ...(call.unreadable ? [] : [element("h6", "", call.name)]),
      this.#part(call.json, `json:${k}`, true),
    )
    return asked
  }

  #answer(call, result, k) {
    const { error, inferred, seconds, tokens, images } = result
    const answer = element("div", error ? "answer wrong" : "answer")
    const head = element("h6", "", error ? `${t("error")} · ${call.name}` : "")
    if (error && inferred) head.title = t("The text says so; the log does not mark it as an error.")
    if (seconds) head.append(element("span", "quiet", `${error ? " " : ""}${seconds}`))
    if (head.childNodes.length) answer.append(head)
    const inTokens = this.view.mode === "tokens" && tokens && this.view.sample?.texts.length
    const shown = inTokens ? this.#tokens(tokens, k) : this.#part(result, `result:${k}`, true)
    answer.append(shown)
    this.#strip(answer, placeImages(shown, this.#thumbnails(images)))
    return answer
  }

  #thumbnails(images) {
    return (images ?? []).map((place) => this.view.images.thumbnail(place))
  }

  /** Append images that have no place in the text; places instead of thumbnails make these. */
  #strip(node, images = []) {
    if (!images.length) return
    const strip = element("div", "images")
    strip.append(...(images[0] instanceof Node ? images : this.#thumbnails(images)))
    node.append(strip)
  }

  /** The beginning of the message that the log holds as prompt: dimmed before the tokens, else folded. */
  #begun(inTokens) {
    const { begun } = this.block
    const node = inTokens ? this.#part(begun, "begun") : this.#fold(t("begins in the prompt"), begun, "begun")
    node.classList.add("begun")
    node.title = t("The log holds this beginning of the turn as prompt. It has no values of tokens.")
    return node
  }

  /** A folded text, with its beginning as the summary. */
  #fold(label, part, name) {
    const fold = element("details", "fold")
    const summary = element("summary")
    const first = part.text.trim().split("\n", 1)[0].slice(0, 160)
    const characters = t("{count} characters", { count: lengthOf(part).toLocaleString("en") })
    const hits = this.view.hitsOf(this.index, name).length
    summary.append(
      element(
        "span",
        "label",
        `${label ? `${label}, ` : ""}${characters}${hits ? `, ${hitWords(hits)}` : ""}`,
      ),
      element("span", "first", first),
    )
    fold.append(summary)
    fold.open = this.isOpen(name)
    const fill = () => fold.open && fold.children.length === 1 && fold.append(this.#part(part, name))
    fold.addEventListener("toggle", () => {
      this.opened.set(name, fold.open)
      fill()
    })
    fill()
    return fold
  }

  /** A text: sanitized HTML of its Markdown, or the text itself; only its first lines if it is folded. */
  #part(part, name, isFolded = false) {
    const hits = this.view.hitsOf(this.index, name)
    const markdown = this.block.markdown && name === "text" && this.view.mode !== "raw"
    if (markdown && part.html === undefined) this.view.askPart(this.index, name, part.text.length)
    if (markdown && part.html !== undefined) {
      const node = element("div", "prose")
      node.innerHTML = part.html // sanitized by safe_markdown.py
      if (markHits(node, part, hits)) return this.#withRest(node, part, name)
    }
    const node = element("div", name.includes(":") ? "code" : "plain")
    const folded = isFolded ? foldedText(part) : { rest: "" }
    if (!folded.rest) {
      node.textContent = part.text
      markHits(node, part, hits)
      this.#nameOf(node, name)
      return this.#withRest(node, part, name)
    }
    const open = this.isOpen(name)
    const both = element("div", "folded")
    if (open) {
      node.textContent = part.text
      markHits(node, part, hits)
    } else {
      node.textContent = folded.text
      const shift = folded.from && [...part.text.slice(0, folded.from)].length
      const shown = { text: folded.text }
      const length = [...folded.text].length
      const inside = hits.map(([start, end, number]) => [start - shift, end - shift, number])
      markHits(
        node,
        shown,
        inside.filter(([start, end]) => start >= 0 && end <= length),
      )
    }
    this.#nameOf(node, name)
    const hidden = !open && hits.length - node.querySelectorAll("mark").length
    const words = open ? t("▾ fewer lines") : `▸ ${folded.rest}${hidden > 0 ? `, ${hitWords(hidden)}` : ""}`
    const more = button("more", words, "", () => {
      this.opened.set(name, !open)
      this.draw()
    })
    more.setAttribute("aria-expanded", open)
    if (folded.from && !open) both.append(more, node)
    else both.append(open ? this.#withRest(node, part, name) : node, more)
    return both
  }

  /** Colour the name of the tool in a call. */
  #nameOf(node, name) {
    const [kind, number] = name.split(":")
    const call = kind === "call" && this.block.calls[Number(number)]
    if (!call || call.unreadable || !node.textContent.startsWith(`${call.name}(`)) return
    const first = node.firstChild
    if (first.nodeType !== Node.TEXT_NODE || first.data.length < call.name.length) return
    first.splitText(call.name.length)
    const shown = element("b", "tool")
    first.replaceWith(shown)
    shown.append(first)
  }

  /** Add a button for the rest of a text that the server has not sent. */
  #withRest(node, part, name) {
    if (part.length === undefined) return node
    const rest = part.length - part.text.length
    const all = button(
      "more",
      t("Show {count} more characters", { count: rest.toLocaleString("en") }),
      "",
      () => this.view.askPart(this.index, name, part.length),
    )
    const both = element("div")
    both.append(node, all)
    return both
  }

  /** The tokens of the message or of one of its results. */
  #tokens(span, name) {
    const { sample, shade } = this.view
    const node = element("div", "token-text")
    const left = drawTokens(node, sample, span, shade, this.whole.has(name))
    const parts = name === "self" ? ["reasoning", "text"] : [`result:${name}`]
    const texts = parts.flatMap((part) => {
      const hits = this.view.hitsOf(this.index, part)
      return hits.length ? textsOf(this.#place(part), hits) : []
    })
    if (texts.length) markRanges(node, placesOf(node.textContent, texts))
    node.querySelector(`[data-i="${this.view.pin}"]`)?.classList.add("pinned")
    if (!left) return node
    const both = element("div")
    both.append(
      node,
      button("more", t("Show {count} more tokens", { count: left.toLocaleString("en") }), "", () => {
        this.whole.add(name)
        this.draw()
      }),
    )
    return both
  }
}

/** Roles whose long texts are folded as results of tools are. */
const FOLDED_ROLES = new Set(["tool", "environment"])

function hitWords(count) {
  return count === 1 ? t("1 hit") : t("{count} hits", { count })
}
