// Toolbar above the text: one chip per metric, and the colour legend.

/** The label of a metric. A link may contain any name, so only declared names are looked up. */
function labelOf(metrics, name) {
  return Object.hasOwn(metrics, name) ? metrics[name].label : name
}

class MetricBar {
  constructor(root, { choose }) {
    this.chips = element("div", "rl-chips")
    this.legend = element("div", "rl-legend")
    this.low = element("span")
    this.gradient = element("i")
    this.high = element("span")
    this.legend.append(this.low, this.gradient, this.high)
    this.fallback = element("div", "rl-fallback quiet")
    root.append(this.chips, this.legend, this.fallback)
    this.choose = choose
  }

  show(rows) {
    const chips = rows.map((row) => {
      const title = [row.tip, row.note].filter(Boolean).join("\n")
      const chip = button("rl-chip", row.label, title, () => this.choose(row.name))
      chip.dataset.metric = row.name
      chip.classList.toggle("dull", row.short !== "")
      return chip
    })
    this.chips.replaceChildren(...(chips.length ? [element("span", "quiet", t("Colour by")), ...chips] : []))
  }

  /** Mark the row that colours the text; `missing` is the label of the requested metric if it has no row. */
  select(row, palette, missing) {
    for (const chip of this.chips.querySelectorAll("button")) {
      const chosen = chip.dataset.metric === row?.name
      chip.classList.toggle("chosen", chosen)
      chip.setAttribute("aria-pressed", chosen)
    }
    this.fallback.textContent = missing
      ? t("{missing} is not logged for this sample; coloured by {label}", { missing, label: row.label })
      : ""
    this.legend.hidden = !row
    if (!row) return
    this.gradient.hidden = row.short !== ""
    if (row.short) {
      ;[this.low.textContent, this.high.textContent] = [row.short, ""]
      return
    }
    this.gradient.style.background = gradientOf(palette, row)
    ;[this.low.textContent, this.high.textContent] = formatRange(row.lo, row.hi, isSigned(row))
    this.legend.title = `1st to 99th percentile${row.unit ? `, ${row.unit}` : ""}`
  }
}
