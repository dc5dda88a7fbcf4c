// Toolbar above the text: one chip per metric, and the colour legend.

/** The label of a metric. A link may contain any name, so only declared names are looked up. */
function labelOf(metrics, name) {
  return Object.hasOwn(metrics, name) ? metrics[name].label : name.replace(/^logged:/, "")
}

const SCALE_NAMES = { run: t("run"), step: t("step"), sample: t("sample") }
const SCALE_TIPS = {
  run: t("One scale for all samples of the run: equal values have equal colours"),
  step: t("One scale for all samples of this step"),
  sample: t("The 1st to 99th percentile of this sample: colours of two samples cannot be compared"),
}

/** A swatch and the name of each category of a row; none for a row of numbers. */
function categoryNames(palette, row) {
  const { backgrounds } = palette.ramp(row)
  return [...(row.categories?.values() ?? [])].map(({ color, name }) => {
    const entry = element("span", "rl-category")
    const swatch = element("b")
    swatch.style.background = backgrounds[color]
    entry.append(swatch, name)
    return entry
  })
}

class MetricBar {
  constructor(root, model) {
    this.chips = element("div", "rl-chips")
    this.legend = element("div", "rl-legend")
    this.low = element("span")
    this.gradient = element("i")
    this.high = element("span")
    this.names = element("span", "rl-categories")
    this.scales = new Map(
      SCALES.map((name) => [
        name,
        button("rl-scale", SCALE_NAMES[name], SCALE_TIPS[name], () => {
          model.scale = name
        }),
      ]),
    )
    const choice = element("span", "rl-scales")
    choice.setAttribute("role", "group")
    choice.setAttribute("aria-label", t("Colour scale"))
    choice.append(...this.scales.values())
    this.scaleChoice = choice
    this.legend.append(choice, this.low, this.gradient, this.high, this.names)
    this.fallback = element("div", "rl-fallback quiet")
    root.append(this.chips, this.legend, this.fallback)
    this.choose = (name) => {
      model.metric = name
    }
  }

  /** One chip per metric; with lists of the log's own, a menu of both kinds instead. */
  show(rows) {
    this.menu = rows.some((row) => row.logged) ? this.#menuOf(rows) : null
    if (this.menu) {
      this.chips.replaceChildren(element("span", "quiet", t("Colour by")), this.menu)
      return
    }
    const chips = rows.map((row) => {
      const title = [row.tip, row.note].filter(Boolean).join("\n")
      const chip = button("rl-chip", row.label, title, () => this.choose(row.name))
      chip.dataset.metric = row.name
      chip.classList.toggle("dull", row.short !== "")
      return chip
    })
    this.chips.replaceChildren(...(chips.length ? [element("span", "quiet", t("Colour by")), ...chips] : []))
  }

  #menuOf(rows) {
    const menu = element("select", "rl-metrics")
    menu.setAttribute("aria-label", t("Colour by"))
    const group = (label, some) => {
      const options = element("optgroup")
      options.label = label
      for (const row of some) {
        const option = element("option", "", row.short ? `${row.label} (${row.short})` : row.label)
        option.value = row.name
        options.append(option)
      }
      return options
    }
    const declared = rows.filter((row) => !row.logged)
    if (declared.length) menu.append(group(t("Declared"), declared))
    menu.append(
      group(
        t("Logged"),
        rows.filter((row) => row.logged),
      ),
    )
    menu.addEventListener("change", () => this.choose(menu.value))
    menu.addEventListener("keydown", (event) => event.stopPropagation()) // the view uses the same keys
    return menu
  }

  /** Mark the row that colours the text; `missing` is the label of the requested metric if it has no row. */
  select(row, palette, missing) {
    for (const chip of this.chips.querySelectorAll("button")) {
      const chosen = chip.dataset.metric === row?.name
      chip.classList.toggle("chosen", chosen)
      chip.setAttribute("aria-pressed", chosen)
    }
    if (this.menu && row) {
      this.menu.value = row.name
      this.menu.title = [row.tip, row.note].filter(Boolean).join("\n")
    }
    this.fallback.textContent = missing
      ? t("{missing} is not logged for this sample; coloured by {label}", { missing, label: row.label })
      : ""
    this.legend.hidden = !row
    if (!row) return
    for (const [name, node] of this.scales) {
      node.classList.toggle("chosen", name === row.scaledBy)
      node.setAttribute("aria-pressed", name === row.scaledBy)
    }
    this.scaleChoice.hidden = this.gradient.hidden = Boolean(row.categories)
    this.names.replaceChildren(...categoryNames(palette, row))
    if (row.categories) {
      this.low.textContent = this.high.textContent = ""
      return
    }
    const plain = row.short !== "" && row.scaledBy === "sample" // all tokens have one value, and one colour
    this.gradient.hidden = plain
    ;[this.low.textContent, this.high.textContent] = plain
      ? [row.short, ""]
      : formatRange(row.lo, row.hi, isSigned(row))
    if (!plain && row.unit) this.high.textContent += ` ${row.unit}`
    this.gradient.style.backgroundImage = gradientOf(palette, row)
    this.gradient.title = [
      SCALE_TIPS[row.scaledBy],
      row.scaledBy === "sample" ? "" : row.rule,
      t("A line on top of a token: its value lies beyond the scale"),
    ]
      .filter(Boolean)
      .join("\n")
  }
}
