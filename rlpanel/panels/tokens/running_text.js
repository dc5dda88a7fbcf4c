// The running text: every token a span, drawn in chunks as they come into view.
//
// A chunk that was never seen is one text node, so the text has its height and its place from the start
// and nothing jumps when spans replace it. Chunks that end in a line break close a block, which keeps a
// long text cheap to lay out; where the text has no breaks, chunks follow each other in the line.

const CHUNK = 256;
const BLOCK = 8;
const AHEAD = "400px"; // how far outside the view a chunk is drawn

function makeSpan(sample, i) {
  const span = document.createElement("span");
  const kind = cellKind(sample, i);
  const text = cellText(sample, i);
  span.setAttribute("data-i", i);
  span.className = TOKEN_CLASS[kind];
  if (isOutside(sample, i)) span.classList.add("outside");
  if (kind === KIND.FRAGMENT) return span;
  if (!text.includes("\n")) {
    span.textContent = text;
    return span;
  }
  for (const part of text.split(/(\n)/)) {
    if (part === "\n") {
      const mark = document.createElement("span");
      mark.className = "break";
      mark.textContent = "\n";
      span.append(mark);
    } else if (part) span.append(part);
  }
  return span;
}

const TOKEN_CLASS = {
  [KIND.PLAIN]: "token",
  [KIND.EMPTY]: "token empty",
  [KIND.FRAGMENT]: "token fragment",
  [KIND.CONTROL]: "token control",
  [KIND.SPECIAL]: "token special",
  [KIND.PAD]: "token pad",
  [KIND.INDEX]: "token index",
};

/** Where chunks end: after a line break in their second half, if there is one. */
function chunkEnds(sample) {
  const ends = [];
  for (let first = 0; first < sample.cells; first = ends.at(-1).last) {
    const limit = Math.min(first + CHUNK, sample.cells);
    let last = limit;
    while (limit < sample.cells && last > first + CHUNK / 2 && !cellText(sample, last - 1).endsWith("\n")) last--;
    const broken = limit < sample.cells && last > first + CHUNK / 2;
    ends.push({first, last: broken ? last : limit, broken});
  }
  return ends;
}

class RunningText {
  constructor(element, {seen}) {
    this.element = element;
    this.seen = seen;
    this.chunks = [];
    this.marks = new Map(); // class → Set of token indices
    this.shade = null;
    this.stamp = 0;
    this.observer = null;
    let asked = false;
    const report = () => {
      if (asked) return;
      asked = true;
      requestAnimationFrame(() => {
        asked = false;
        this.seen(this.inView());
      });
    };
    element.addEventListener("scroll", report, {passive: true});
    this.resizing = new ResizeObserver(report);
    this.resizing.observe(element);
  }

  /** Lay the sample out; nothing but the text is drawn yet. */
  show(sample) {
    this.observer?.disconnect();
    this.sample = sample;
    this.marks.clear();
    this.observer = new IntersectionObserver((entries) => this.#seen(entries), {
      root: this.element, rootMargin: `${AHEAD} 0px`,
    });
    this.chunks = chunkEnds(sample).map((ends) => this.#placeholder(ends));
    const blocks = [];
    let block = null;
    for (const chunk of this.chunks) {
      if (!block) blocks.push((block = document.createElement("div")));
      block.append(chunk.node);
      if (chunk.broken || block.children.length === BLOCK) block = null;
    }
    this.element.replaceChildren(...blocks);
    this.element.scrollTop = 0;
    for (const chunk of this.chunks) this.observer.observe(chunk.node);
    if (this.chunks.length) this.#draw(this.chunks[0]);
  }

  /** Show a text that has no tokens. */
  showPlain(text) {
    this.observer?.disconnect();
    this.chunks = [];
    this.element.replaceChildren(document.createTextNode(text));
  }

  /** Colour by `shade(i)`: [background, ink, infinite], empty for NaN, null for none; chunks out of view wait. */
  paint(shade) {
    this.shade = shade;
    this.stamp++;
    for (const chunk of this.chunks) if (chunk.visible || chunk.first === 0) this.#color(chunk);
  }

  /** Give the class `name` to these tokens and to no others. */
  mark(name, indices) {
    const before = this.marks.get(name) ?? new Set();
    const after = new Set(indices);
    this.marks.set(name, after);
    for (const i of before) if (!after.has(i)) this.span(i)?.classList.remove(name);
    for (const i of after) this.span(i)?.classList.add(name);
  }

  /** The token's span, or null where its chunk was not drawn. */
  span(i) {
    const chunk = this.#chunkOf(i);
    return chunk?.drawn ? chunk.node.children[i - chunk.first] : null;
  }

  /** Bring the token into the text's view, drawing it if need be. */
  reveal(i) {
    const chunk = this.#chunkOf(i);
    if (!chunk) return;
    this.#draw(chunk);
    this.#color(chunk);
    const [box, span] = [this.element.getBoundingClientRect(), this.span(i).getBoundingClientRect()];
    if (span.top < box.top || span.bottom > box.bottom) {
      this.element.scrollTop += span.top - box.top - (box.height - span.height) / 2;
    }
  }

  /** [first, last) token in view; null where all of them are. */
  inView() {
    const {scrollHeight, clientHeight} = this.element;
    if (!this.chunks.length || scrollHeight <= clientHeight + 1) return null;
    const box = this.element.getBoundingClientRect();
    const first = this.#firstBelow(box.top);
    return [first, Math.max(first + 1, this.#firstBelow(box.bottom))];
  }

  destroy() {
    this.observer?.disconnect();
    this.resizing.disconnect();
  }

  /** The first token whose lower edge is below `y`; a chunk not drawn counts whole. */
  #firstBelow(y) {
    const search = (count, bottom) => {
      let [low, high] = [0, count];
      while (low < high) {
        const middle = (low + high) >> 1;
        if (bottom(middle) > y) high = middle;
        else low = middle + 1;
      }
      return low;
    };
    const bottomOf = (node) => node.getBoundingClientRect().bottom;
    const chunk = this.chunks[search(this.chunks.length, (k) => bottomOf(this.chunks[k].node))];
    if (!chunk) return this.sample.cells;
    if (!chunk.drawn) return chunk.first;
    return chunk.first + search(chunk.last - chunk.first, (k) => bottomOf(chunk.node.children[k]));
  }

  #chunkOf(i) {
    let [low, high] = [0, this.chunks.length - 1];
    while (low <= high) {
      const middle = (low + high) >> 1;
      if (i < this.chunks[middle].first) high = middle - 1;
      else if (i >= this.chunks[middle].last) low = middle + 1;
      else return this.chunks[middle];
    }
    return null;
  }

  #placeholder({first, last, broken}) {
    const node = document.createElement("span");
    let text = "";
    for (let i = first; i < last; i++) if (cellKind(this.sample, i) !== KIND.FRAGMENT) text += cellText(this.sample, i);
    node.textContent = text;
    const chunk = {first, last, broken, node, drawn: false, visible: false, stamp: -1};
    node.chunk = chunk;
    return chunk;
  }

  #seen(entries) {
    for (const entry of entries) {
      const chunk = entry.target.chunk;
      chunk.visible = entry.isIntersecting;
      if (chunk.visible) {
        this.#draw(chunk);
        this.#color(chunk);
      }
    }
  }

  #draw(chunk) {
    if (chunk.drawn) return;
    const spans = [];
    for (let i = chunk.first; i < chunk.last; i++) spans.push(makeSpan(this.sample, i));
    for (const [name, indices] of this.marks) {
      for (const i of indices) if (i >= chunk.first && i < chunk.last) spans[i - chunk.first].classList.add(name);
    }
    chunk.node.replaceChildren(...spans);
    chunk.drawn = true;
  }

  #color(chunk) {
    if (!chunk.drawn || chunk.stamp === this.stamp || !this.shade) return;
    chunk.stamp = this.stamp;
    let i = chunk.first;
    for (const span of chunk.node.children) {
      const shade = this.shade(i++);
      span.style.backgroundColor = shade ? shade[0] : "";
      span.style.color = shade ? shade[1] : "";
      span.classList.toggle("unknown", shade?.[0] === "");
      span.classList.toggle("infinite", shade?.[2] === true);
    }
  }
}
