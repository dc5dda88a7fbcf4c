// Search in the response: counts the hits, goes from one to the next and marks their tokens.
//
// The browser's own search cannot tell which tokens a hit covers.

/** Compile the typed pattern: `/…/` is a regular expression, anything else is text; null if invalid. */
function makePattern(typed) {
  const regex = typed.match(/^\/(.+)\/?$/s)
  const source = regex ? regex[1].replace(/\/$/, "") : typed.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")
  try {
    return new RegExp(source, "giu")
  } catch {
    return null
  }
}

/** [first, last) token of every match in the text. */
function findText(sample, pattern) {
  const starts = []
  let text = ""
  for (const [i, part] of sample.texts.entries()) {
    starts.push(text.length)
    if (sample.kinds[i] !== KIND.FRAGMENT) text += part
  }
  const tokenAt = (offset) => {
    let [low, high] = [0, starts.length - 1]
    while (low < high) {
      const middle = (low + high + 1) >> 1
      if (starts[middle] <= offset) low = middle
      else high = middle - 1
    }
    return low
  }
  const hits = []
  for (const match of text.matchAll(pattern)) {
    if (match[0]) hits.push([tokenAt(match.index), tokenAt(match.index + match[0].length - 1) + 1])
  }
  return hits
}

/** Search field between text and heatmap. */
class Finder {
  constructor(tools, { pin, mark }) {
    this.pin = pin
    this.mark = mark
    this.sample = null
    this.hits = []
    this.hit = -1
    this.input = element("input", "rl-field rl-token-search")
    Object.assign(this.input, { type: "text", placeholder: t("Search tokens (/)"), spellcheck: false })
    this.input.title = t(
      "Text or /regular expression/; Enter and Shift+Enter go to the next and previous hit",
    )
    this.input.setAttribute("aria-label", t("Search tokens"))
    this.count = element("span", "rl-found quiet")
    tools.append(this.input, this.count)
    this.#listen()
  }

  show(sample) {
    this.sample = sample
    this.hits = []
    this.hit = -1
    this.input.hidden = !sample.texts.length
    this.search()
  }

  search() {
    const typed = this.input.value
    const pattern = typed ? makePattern(typed) : null
    this.hits = pattern && this.sample ? findText(this.sample, pattern) : []
    this.hit = -1
    this.input.classList.toggle("broken", Boolean(typed) && !pattern)
    this.#report(typed, pattern)
    this.mark(this.hits)
  }

  /** Pin the first token of the next or previous hit. */
  walkHits(direction) {
    if (!this.hits.length) return
    this.hit =
      this.hit < 0 && direction < 0
        ? this.hits.length - 1
        : (this.hit + direction + this.hits.length) % this.hits.length
    this.#report(this.input.value, true)
    this.pin(this.hits[this.hit][0])
  }

  #report(typed, pattern) {
    const position = this.hit < 0 ? "" : `${this.hit + 1} of `
    const count = this.hits.length
    this.count.textContent = !typed
      ? ""
      : !pattern
        ? t("Invalid regular expression")
        : count === 1
          ? t("{position}{count} hit", { position, count })
          : t("{position}{count} hits", { position, count })
  }

  #listen() {
    this.input.addEventListener("input", () => this.search())
    this.input.addEventListener("keydown", (event) => {
      event.stopPropagation() // keys of the view and the page are ordinary letters in this field
      if (event.key === "Enter") this.walkHits(event.shiftKey ? -1 : 1)
      if (event.key !== "Escape") return
      this.input.value = ""
      this.search()
      this.input.blur()
      this.input.getRootNode().querySelector(".rl-tokens").focus()
    })
  }
}
