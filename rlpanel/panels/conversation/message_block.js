// One message of the conversation. Its body is created when it comes near the visible area.
//
// Texts of the log reach the page through textContent. Only HTML that the server sanitized uses innerHTML.

const lengthOf = (part) => (part ? (part.length ?? part.text.length) : 0)

class MessageBlock {
  constructor(view, block, index) {
    this.view = view
    this.block = block
    this.index = index
    this.drawn = false
    this.whole = new Set()
    this.node = element("section", `message${block.given ? " given" : ""}${this.failed ? " failed" : ""}`)
    this.node.dataset.role = block.role
    this.node.dataset.index = index
    this.node.setAttribute("aria-label", this.title)
    this.body = element("div", "body")
    this.node.append(this.#gutter(), this.body, this.#numbers())
    this.node.style.containIntrinsicSize = `auto ${Math.min(4000, 40 + Math.ceil(this.size / 90) * 20)}px`
  }

  get failed() {
    return Boolean(this.block.error || this.block.calls?.some((call) => call.result?.error))
  }

  /** Characters that the message itself has, with the arguments of its calls. */
  get ownSize() {
    const { text, reasoning, calls = [] } = this.block
    return [text, reasoning, ...calls.map((call) => call.arguments)].reduce(
      (sum, part) => sum + lengthOf(part),
      0,
    )
  }

  /** Characters of the message and of the results of its calls. */
  get size() {
    return (this.block.calls ?? []).reduce((sum, call) => sum + lengthOf(call.result), this.ownSize)
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

  draw() {
    this.drawn = true
    this.body.replaceChildren()
    const inTokens = this.view.mode === "tokens" && this.hasTokens
    if (this.block.begun) this.body.append(this.#begun(inTokens))
    if (inTokens) {
      this.body.append(this.#tokens(this.block.tokens, "self"))
      this.#drawCalls()
    } else this.#drawTexts()
    const { images = [], media = [] } = this.block
    if (!images.length && !media.length) return
    const shown = element("div", "images")
    shown.append(...images.map(([message, position]) => this.#thumbnail(message, position)))
    shown.append(...media.map(([message, position, kind]) => this.view.playerOf(message, position, kind)))
    this.body.append(shown)
  }

  /** Take a part that the server sent. */
  receive({ part, text, html, length }) {
    const place = this.#place(part)
    if (!place) return
    Object.assign(place, { text, html, length })
    if (this.drawn) this.draw()
  }

  #place(part) {
    const [name, number] = part.split(":")
    const call = this.block.calls?.[Number(number)]
    return name === "call" ? call?.arguments : name === "result" ? call?.result : this.block[name]
  }

  #gutter() {
    const gutter = element("header", "gutter")
    gutter.append(element("b", "", this.title))
    const { tokens, version } = this.block
    if (tokens)
      gutter.append(
        element("span", "", t("{count} tokens", { count: (tokens[1] - tokens[0]).toLocaleString("en") })),
      )
    if (version) {
      const shown = element("span", "", version)
      shown.title = t("Version of the policy that wrote this turn")
      gutter.append(shown)
    }
    return gutter
  }

  #numbers() {
    const numbers = element("aside", "numbers")
    const { reward, seconds, tokens, turn } = this.block
    if (reward) {
      const shown = element(
        "b",
        reward.startsWith("+") && /[1-9]/.test(reward) ? "good" : /[1-9]/.test(reward) ? "bad" : "",
        reward,
      )
      shown.title = t("Reward of this turn")
      numbers.append(shown)
    }
    if (seconds) numbers.append(element("span", "", seconds))
    if (turn && tokens) {
      const link = button("open", "tokens ↗", t("Show these tokens in the token view"), () =>
        this.view.ask({ want: "tokens", token: tokens[0] }),
      )
      numbers.append(link)
    }
    return numbers
  }

  #drawTexts() {
    const { reasoning, text, role } = this.block
    if (reasoning) this.body.append(this.#fold("reasoning", reasoning, "reasoning"))
    if (text && (role === "system" || role === "developer")) this.body.append(this.#fold("", text, "text"))
    else if (text) this.body.append(this.#part(text, "text"))
    if (!text && !reasoning && !this.block.calls) this.body.append(element("span", "quiet", t("empty")))
    this.#drawCalls()
  }

  #drawCalls() {
    for (const [k, call] of (this.block.calls ?? []).entries()) {
      const pair = element("div", "call")
      const asked = element("div", "asked")
      asked.append(element("h6", "", call.name), this.#part(call.arguments, `call:${k}`))
      pair.append(asked)
      if (call.result) {
        const { error, inferred, seconds } = call.result
        const answer = element("div", error ? "answer wrong" : "answer")
        const head = element("h6", "", error ? t("error") : t("result"))
        if (error && inferred) head.title = t("The text says so; the log does not mark it as an error.")
        if (seconds) head.append(element("span", "quiet", ` ${seconds}`))
        const { tokens } = call.result
        const inTokens = this.view.mode === "tokens" && tokens && this.view.sample?.texts.length
        answer.append(head, inTokens ? this.#tokens(tokens, k) : this.#part(call.result, `result:${k}`))
        pair.append(answer)
      } else pair.append(element("div", "answer none", t("no result")))
      this.body.append(pair)
    }
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
    const size = (part.length ?? part.text.length).toLocaleString("en")
    summary.append(
      element("span", "label", label ? `${label}, ${size} characters` : `${size} characters`),
      element("span", "first", first),
    )
    fold.append(summary)
    fold.open = this.view.unfolded
    const fill = () => fold.open && fold.children.length === 1 && fold.append(this.#part(part, name))
    fold.addEventListener("toggle", fill)
    fill()
    return fold
  }

  /** A text: sanitized HTML of its Markdown, or the text itself. */
  #part(part, name) {
    const markdown = this.block.markdown && name === "text" && this.view.mode !== "raw"
    const node = element(
      "div",
      markdown && part.html !== undefined ? "prose" : name.includes(":") ? "code" : "plain",
    )
    if (markdown && part.html !== undefined)
      node.innerHTML = part.html // sanitized by safe_markdown.py
    else node.textContent = part.text
    if (markdown && part.html === undefined) this.view.askPart(this.index, name, part.text.length)
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
    node.querySelector(`[data-i="${this.view.model.token}"]`)?.classList.add("pinned")
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

  #thumbnail(message, position) {
    const place = button("image", "", t("Show the image in full size"), () =>
      this.view.showImage(message, position),
    )
    const known = this.view.images.get(`${message}:${position}:false`)
    if (known === undefined) this.view.ask({ want: "image", message, position, full: false })
    else if (known.startsWith("data:image/")) {
      const image = element("img")
      image.alt = `image ${position + 1} of this message`
      image.src = known
      place.append(image)
    } else {
      place.textContent = known || t("image cannot be shown")
      place.disabled = true
    }
    return place
  }
}
