// The response as text: one span per token, rendered lazily in chunks.
//
// A chunk that was not visible yet is one text node, so the text has its final height from the start and
// nothing moves when spans replace the node. A chunk that ends in a line break closes a block, which keeps
// the layout of a long text cheap. Without line breaks, chunks follow each other in one line.

const CHUNK = 256
const BLOCK = 8
const AHEAD = "400px" // distance from the visible area at which chunks are drawn

function makeSpan(sample, i) {
  const span = document.createElement("span")
  const kind = cellKind(sample, i)
  const text = cellText(sample, i)
  span.setAttribute("data-i", i)
  span.className = TOKEN_CLASS[kind]
  if (isOutside(sample, i)) span.classList.add("outside")
  if (kind === KIND.FRAGMENT) return span
  if (!text.includes("\n")) {
    span.textContent = text
    return span
  }
  for (const part of text.split(/(\n)/)) {
    if (part === "\n") {
      const lineBreak = document.createElement("span")
      lineBreak.className = "break"
      lineBreak.textContent = "\n"
      span.append(lineBreak)
    } else if (part) span.append(part)
  }
  return span
}

/** Colour a token's span by [background, ink, infinite, beyond]; no background means NaN, null no colour. */
function colorSpan(span, shade) {
  span.style.backgroundColor = shade ? shade[0] : ""
  span.style.color = shade ? shade[1] : ""
  span.classList.toggle("unknown", shade?.[0] === "")
  span.classList.toggle("infinite", shade?.[2] === true)
  span.classList.toggle("beyond", shade?.[3] === true)
}

/** A function that gives the colours of each token in a row, as `colorSpan` takes them. */
function shadeOf(sample, row, palette) {
  if (!row) return () => null
  const { backgrounds, inks } = palette.ramp(row)
  return (i) => {
    if (i >= row.values.length || cellKind(sample, i) === KIND.PAD) return null
    const x = row.values[i]
    const step = stepOf(row, x)
    return step < 0 ? ["", ""] : [backgrounds[step], inks[step], Math.abs(x) === Infinity, isBeyond(row, x)]
  }
}

const TOKEN_CLASS = {
  [KIND.PLAIN]: "token",
  [KIND.EMPTY]: "token empty",
  [KIND.FRAGMENT]: "token fragment",
  [KIND.CONTROL]: "token control",
  [KIND.SPECIAL]: "token special",
  [KIND.PAD]: "token pad",
  [KIND.INDEX]: "token index",
}

/** Bounds of the chunks; a chunk ends at a line break in its second half if it has one. */
function chunkEnds(sample) {
  const ends = []
  for (let first = 0; first < sample.cells; first = ends.at(-1).last) {
    const limit = Math.min(first + CHUNK, sample.cells)
    let last = limit
    while (limit < sample.cells && last > first + CHUNK / 2 && !cellText(sample, last - 1).endsWith("\n"))
      last--
    const broken = limit < sample.cells && last > first + CHUNK / 2
    ends.push({ first, last: broken ? last : limit, broken })
  }
  return ends
}

class RunningText {
  constructor(element, { onScroll }) {
    this.element = element
    this.onScroll = onScroll
    this.chunks = []
    this.chunkOf = new WeakMap() // by the element of a chunk
    this.marks = new Map() // class → Set of token indices
    this.shade = null
    this.stamp = 0
    this.observer = null
    let scheduled = false
    const report = () => {
      if (scheduled) return
      scheduled = true
      requestAnimationFrame(() => {
        scheduled = false
        this.onScroll(this.visibleRange())
      })
    }
    element.addEventListener("scroll", report, { passive: true })
    this.resizing = new ResizeObserver(report)
    this.resizing.observe(element)
  }

  /** Lay out the sample's text; only the first chunk gets its spans at once. */
  show(sample) {
    this.observer?.disconnect()
    this.sample = sample
    this.marks.clear()
    this.observer = new IntersectionObserver((entries) => this.#onVisible(entries), {
      root: this.element,
      rootMargin: `${AHEAD} 0px`,
    })
    this.chunks = chunkEnds(sample).map((ends) => this.#placeholder(ends))
    const blocks = []
    let block = null
    for (const chunk of this.chunks) {
      if (!block) {
        block = document.createElement("div")
        blocks.push(block)
      }
      block.append(chunk.node)
      if (chunk.broken || block.children.length === BLOCK) block = null
    }
    this.element.replaceChildren(...blocks)
    this.element.scrollTop = 0
    for (const chunk of this.chunks) this.observer.observe(chunk.node)
    if (this.chunks.length) this.#draw(this.chunks[0])
  }

  /** Show a text without tokens. */
  showPlain(text) {
    this.observer?.disconnect()
    this.chunks = []
    this.element.replaceChildren(document.createTextNode(text))
  }

  /** Colour by `shade(i)`, see `colorSpan`; visible chunks only. */
  paint(shade) {
    this.shade = shade
    this.stamp++
    for (const chunk of this.chunks) if (chunk.visible || chunk.first === 0) this.#color(chunk)
  }

  /** Set the class `name` on these tokens only. */
  mark(name, indices) {
    const before = this.marks.get(name) ?? new Set()
    const after = new Set(indices)
    this.marks.set(name, after)
    for (const i of before) if (!after.has(i)) this.span(i)?.classList.remove(name)
    for (const i of after) this.span(i)?.classList.add(name)
  }

  /** The token's span, or null if its chunk was not drawn yet. */
  span(i) {
    const chunk = this.#chunkOf(i)
    return chunk?.drawn ? chunk.node.children[i - chunk.first] : null
  }

  /** Scroll to the token; its chunk is drawn if needed. */
  reveal(i) {
    const chunk = this.#chunkOf(i)
    if (!chunk) return
    this.#draw(chunk)
    this.#color(chunk)
    const [box, span] = [this.element.getBoundingClientRect(), this.span(i).getBoundingClientRect()]
    if (span.top < box.top || span.bottom > box.bottom) {
      this.element.scrollTop += span.top - box.top - (box.height - span.height) / 2
    }
  }

  /** [first, last) of the visible tokens; null if all are visible. */
  visibleRange() {
    const { scrollHeight, clientHeight } = this.element
    if (!this.chunks.length || scrollHeight <= clientHeight + 1) return null
    const box = this.element.getBoundingClientRect()
    const first = this.#firstBelow(box.top)
    return [first, Math.max(first + 1, this.#firstBelow(box.bottom))]
  }

  destroy() {
    this.observer?.disconnect()
    this.resizing.disconnect()
  }

  /** The first token whose lower edge is below `y`; of a chunk that was not drawn, its first token. */
  #firstBelow(y) {
    const search = (count, bottom) => {
      let [low, high] = [0, count]
      while (low < high) {
        const middle = (low + high) >> 1
        if (bottom(middle) > y) high = middle
        else low = middle + 1
      }
      return low
    }
    const bottomOf = (node) => node.getBoundingClientRect().bottom
    const chunk = this.chunks[search(this.chunks.length, (k) => bottomOf(this.chunks[k].node))]
    if (!chunk) return this.sample.cells
    if (!chunk.drawn) return chunk.first
    return chunk.first + search(chunk.last - chunk.first, (k) => bottomOf(chunk.node.children[k]))
  }

  #chunkOf(i) {
    let [low, high] = [0, this.chunks.length - 1]
    while (low <= high) {
      const middle = (low + high) >> 1
      if (i < this.chunks[middle].first) high = middle - 1
      else if (i >= this.chunks[middle].last) low = middle + 1
      else return this.chunks[middle]
    }
    return null
  }

  #placeholder({ first, last, broken }) {
    const node = document.createElement("span")
    let text = ""
    for (let i = first; i < last; i++)
      if (cellKind(this.sample, i) !== KIND.FRAGMENT) text += cellText(this.sample, i)
    node.textContent = text
    const chunk = { first, last, broken, node, drawn: false, visible: false, stamp: -1 }
    this.chunkOf.set(node, chunk)
    return chunk
  }

  #onVisible(entries) {
    for (const entry of entries) {
      const chunk = this.chunkOf.get(entry.target)
      chunk.visible = entry.isIntersecting
      if (chunk.visible) {
        this.#draw(chunk)
        this.#color(chunk)
      }
    }
  }

  #draw(chunk) {
    if (chunk.drawn) return
    const spans = []
    for (let i = chunk.first; i < chunk.last; i++) spans.push(makeSpan(this.sample, i))
    for (const [name, indices] of this.marks) {
      for (const i of indices)
        if (i >= chunk.first && i < chunk.last) spans[i - chunk.first].classList.add(name)
    }
    chunk.node.replaceChildren(...spans)
    chunk.drawn = true
  }

  #color(chunk) {
    if (!chunk.drawn || chunk.stamp === this.stamp || !this.shade) return
    chunk.stamp = this.stamp
    let i = chunk.first
    for (const span of chunk.node.children) colorSpan(span, this.shade(i++))
  }
}
