// Card with all values of one token: as a tooltip on hover, and below the heatmap for the pinned token.

const CELL_NAMES = {
  [KIND.EMPTY]: t("empty token"),
  [KIND.FRAGMENT]: t("part of a multi-byte character"),
  [KIND.CONTROL]: t("contains invisible characters"),
  [KIND.SPECIAL]: "special",
  [KIND.PAD]: "pad",
}

/** The most probable tokens at a position with their logprobs, and the rank of the sampled one. */
function describeAlternatives(rank, others) {
  const list = element("div", "rl-alternatives")
  const place = rank ? t("rank {rank}", { rank }) : t("sampled token not among them")
  list.append(element("span", "quiet", `${t("Alternatives")}: ${place}`))
  others.forEach(([text, logprob], k) => {
    const entry = element("span", k + 1 === rank ? "chosen" : "")
    entry.append(
      `“${text.replaceAll("\n", "↵")}” `,
      element("b", "", logprob === null ? "NaN" : logprob.toFixed(2)),
    )
    list.append(entry)
  })
  return list
}

/** `#13 “d”`, the logged token if it differs, the id if logged, and the value of every row. */
function describeToken(sample, i, chosen) {
  const card = document.createDocumentFragment()
  const head = element("div", "rl-tip-head")
  head.append(element("b", "", `#${i}`))
  if (i < sample.texts.length) {
    const text = sample.texts[i]
    if (text) head.append(` “${text.replaceAll("\n", "↵").replaceAll("\t", "⇥")}”`)
    const raw = rawPiece(sample, i)
    if (raw) head.append(element("span", "quiet", "raw "), element("code", "", raw))
    const name = CELL_NAMES[sample.kinds[i]]
    if (name) head.append(element("span", "quiet", name))
  } else head.append(element("span", "quiet", t("no token text")))
  if (isOutside(sample, i)) head.append(element("span", "quiet", t("masked from loss")))
  if (sample.ids && i < sample.ids.length) head.append(element("span", "quiet", `id ${sample.ids[i]}`))
  const values = element("dl")
  for (const row of sample.rows) {
    const pair = element("div", row.name === chosen ? "chosen" : "")
    pair.dataset.row = row.name
    const value = element("dd", "", formatValue(row, row.values[i]))
    if (row.unit) value.append(element("span", "unit", row.unit))
    pair.append(element("dt", "", row.label), value)
    values.append(pair)
  }
  card.append(head, values)
  const [rank, ...others] = sample.alternatives?.[i] ?? []
  if (others.length) card.append(describeAlternatives(rank, others))
  return card
}

/** The box that the tooltip is placed beside: the token's line under the pointer, or the pointer itself. */
function boxAt(event) {
  const span = event.target.closest?.("[data-i]")
  if (span) {
    const boxes = [...span.getClientRects()]
    return boxes.find((box) => event.clientY <= box.bottom) ?? span.getBoundingClientRect()
  }
  return { left: event.clientX + 12, top: event.clientY - 12, bottom: event.clientY + 12 }
}

/** Pass the token under the pointer, or -1, and the token that is clicked. */
function listenTokens(node, hover, toggle) {
  const indexOf = (event) => Number(event.target.closest?.("[data-i]")?.dataset.i ?? -1)
  node.addEventListener("pointerover", (event) => {
    const i = indexOf(event)
    hover(i, i < 0 ? null : event)
  })
  node.addEventListener("pointerleave", () => hover(-1))
  node.addEventListener("scroll", () => hover(-1), { passive: true })
  node.addEventListener("click", (event) => {
    if (indexOf(event) >= 0) toggle(indexOf(event))
  })
}

/** Draw a view of tokens once it is in the page, and again as its model changes. */
function attachView(view, changes) {
  const { model } = view
  for (const [name, draw] of Object.entries(changes)) model.on(name, () => view.palette && draw())
  model.on("after_render", () => {
    view.theme() // colours come from the style sheet, which applies only once the element is in the page
    view.show()
  })
  model.on("remove", () => view.destroy())
  return view.root
}

/** The tooltip. It is in the browser's top layer, so no surrounding element clips it. */
class Tip {
  constructor(root) {
    this.element = element("div", "rl-tip")
    this.element.setAttribute("role", "tooltip")
    if ("popover" in this.element) this.element.popover = "manual"
    this.element.hidden = true
    root.append(this.element)
  }

  show(content, box) {
    this.element.replaceChildren(content)
    this.element.hidden = false
    if (!this.element.matches(":popover-open")) this.element.showPopover?.()
    const { width, height } = this.element.getBoundingClientRect()
    const below = box.bottom + 8
    const top = below + height < window.innerHeight ? below : Math.max(4, box.top - height - 8)
    const left = Math.max(4, Math.min(box.left, window.innerWidth - width - 8))
    this.element.style.top = `${top}px`
    this.element.style.left = `${left}px`
  }

  hide() {
    if (this.element.hidden) return
    this.element.hidePopover?.()
    this.element.hidden = true
  }
}
