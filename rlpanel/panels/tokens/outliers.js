// Outliers of the chosen row: count, previous and next token beyond a bound, and the ten most extreme.

const DEFAULT_BOUND = "99%"

/** Parse a bound; null if invalid. `99%` and `0.5` refer to the distance from the row's neutral value,
 * `> 0.5` and `< 1%` to the value itself. Percentiles are those of the row. */
function parseBound(typed) {
  const match = (typed.trim() || DEFAULT_BOUND).match(
    /^([<>]?)\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*(%?)$/i,
  )
  if (!match) return null
  const [side, number, percent] = [match[1], Number(match[2]), match[3] === "%"]
  return percent && (number < 0 || number > 100) ? null : { side, number, percent }
}

/** The function of a value that a bound limits: larger is more extreme. */
function extremeness(row, { side }) {
  if (side === "<") return (x) => -x
  return side === ">" ? (x) => x : (x) => Math.abs(x - row.around)
}

/** The extremeness that an outlier exceeds. A percentile is not interpolated but a value of the row. */
function limitOf(row, bound) {
  if (!bound.percent) return bound.side === "<" ? -bound.number : bound.number
  const sorted = Float64Array.from(row.values, extremeness(row, bound)).filter(Number.isFinite).sort()
  const share = (bound.side === "<" ? 100 - bound.number : bound.number) / 100
  return sorted.length ? sorted[Math.floor(share * (sorted.length - 1) + 1e-9)] : Infinity
}

/** Indices of the tokens beyond the bound, in order. */
function findOutliers(row, bound) {
  const indices = []
  if (!row || row.short || !bound) return indices
  const [measure, limit] = [extremeness(row, bound), limitOf(row, bound)]
  row.values.forEach((x, i) => {
    if (measure(x) > limit) indices.push(i)
  })
  return indices
}

/** The `count` most extreme tokens, in descending order. */
function mostExtreme(row, bound, count) {
  const measure = extremeness(row, bound)
  const order = Array.from(row.values.keys()).filter((i) => !Number.isNaN(row.values[i]))
  return order.sort((a, b) => measure(row.values[b]) - measure(row.values[a]) || a - b).slice(0, count)
}

/** The index before or after `from` in sorted `indices`, wrapping around; -1 if `indices` is empty. */
function neighbour(indices, from, direction) {
  if (!indices.length) return -1
  if (direction > 0) return indices.find((i) => i > from) ?? indices[0]
  return indices.findLast((i) => from < 0 || i < from) ?? indices.at(-1)
}

/** The label in front of the bound: `above percentile`, `below value`, ... */
function describeKind({ side, percent }) {
  if (side === "<") return percent ? t("below percentile") : t("below value")
  return percent ? t("above percentile") : side ? t("above value") : t("above distance")
}

/** Controls that list outliers and go from one to the next. */
class Outliers {
  constructor(tools, { pin }) {
    this.pin = pin
    this.sample = null
    this.row = null
    this.position = -1
    this.indices = []
    this.count = button("rl-tool rl-outliers", "", t("Show the ten most extreme tokens"), () =>
      this.#toggleList(),
    )
    this.before = button("rl-tool", "‹", t("Previous outlier (Shift+←)"), () => this.walk(-1))
    this.after = button("rl-tool", "›", t("Next outlier (Shift+→)"), () => this.walk(1))
    this.input = element("input", "rl-field rl-bound")
    Object.assign(this.input, { type: "text", placeholder: DEFAULT_BOUND, spellcheck: false })
    this.input.title = t(
      "Bound of outliers. 99% or 0.5: distance from the neutral value (0, or 1 for ratios); > 0.5, < 0.01, > 95%, < 5%: value",
    )
    this.input.setAttribute("aria-label", t("Bound of outliers"))
    this.group = element("span", "rl-group")
    this.kind = element("span", "quiet")
    this.group.append(this.before, this.count, this.after, this.kind, this.input)
    this.list = element("div", "rl-extremes")
    this.list.hidden = true
    tools.append(this.group)
    this.input.addEventListener("input", () => this.select(this.row))
    this.input.addEventListener("keydown", (event) => this.#onKey(event))
  }

  show(sample) {
    this.sample = sample
  }

  select(row) {
    this.row = row
    this.bound = parseBound(this.input.value)
    this.indices = findOutliers(row, this.bound)
    this.group.hidden = !row
    this.input.classList.toggle("broken", !this.bound)
    const count = this.indices.length
    this.count.textContent = this.bound
      ? count === 1
        ? t("{count} outlier", { count })
        : t("{count} outliers", { count })
      : t("Invalid bound")
    this.kind.textContent = this.bound ? describeKind(this.bound) : ""
    this.count.title =
      row && this.bound ? t("{limit}; click for the ten most extreme", { limit: this.#describeLimit() }) : ""
    this.before.disabled = this.after.disabled = !count
    this.#fillList()
  }

  /** Pin the next or previous outlier. */
  walk(direction) {
    const i = neighbour(this.indices, this.position, direction)
    if (i >= 0) this.pin(i)
  }

  #describeLimit() {
    const { row, bound } = this
    const limit = limitOf(row, bound)
    if (bound.side) return `${row.label} ${bound.side} ${formatShort(bound.side === "<" ? -limit : limit)}`
    return `|${row.label}${row.around ? ` − ${row.around}` : ""}| > ${formatShort(limit)}`
  }

  #toggleList() {
    this.list.hidden = !this.list.hidden
    this.#fillList()
  }

  #fillList() {
    if (this.list.hidden || !this.row || !this.bound) return
    this.list.replaceChildren(
      ...mostExtreme(this.row, this.bound, 10).map((i) => {
        const text = i < this.sample.texts.length ? this.sample.texts[i].trim().slice(0, 16) : ""
        const item = button("rl-tool", `#${i} `, "", () => this.pin(i))
        item.append(element("b", "", text), ` ${formatValue(this.row, this.row.values[i])}`)
        return item
      }),
    )
  }

  #onKey(event) {
    event.stopPropagation() // keys of the view and the page are ordinary letters in this field
    if (event.key === "Enter") this.walk(event.shiftKey ? -1 : 1)
    if (event.key !== "Escape") return
    this.input.value = ""
    this.select(this.row)
    this.input.blur()
    this.group.getRootNode().querySelector(".rl-tokens").focus()
  }
}
