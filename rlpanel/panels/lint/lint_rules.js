// Lint rules in three groups. A rule that failed shows its samples, each a button; texts are set as text only.
const LINT_SHOWN = 3
const LINT_STATES = {
  failed: { sign: "✕", title: () => t("Failed"), none: () => t("No rule failed.") },
  passed: { sign: "✓", title: () => t("Passed"), none: () => t("No rule could be checked.") },
  "not checkable": {
    sign: "–",
    title: () => t("Not checkable"),
    none: () => t("Every rule could be checked."),
  },
}

function sampleOf(model, rule, sample) {
  const line = element("button", "sample")
  Object.assign(line, { type: "button", title: t("Open this sample") })
  line.addEventListener("click", () => model.send_msg([rule.name, sample.uid]))
  const place = element("span", "place")
  place.append(element("b", "", sample.step), element("span", "", shownText(sample.place)))
  line.append(place, element("span", "detail", shownText(sample.detail)))
  return line
}

/** The first samples, and the others below a line that opens them. */
function samplesOf(model, rule) {
  const box = element("div", "samples")
  const lines = rule.samples.map((sample) => sampleOf(model, rule, sample))
  box.append(...lines.slice(0, LINT_SHOWN))
  if (lines.length > LINT_SHOWN) {
    const more = element("details")
    const count = lines.length - LINT_SHOWN
    const text = count === 1 ? t("1 more sample") : t("{count} more samples", { count })
    more.append(element("summary", "", text), ...lines.slice(LINT_SHOWN))
    box.append(more)
  }
  return box
}

function ruleOf(model, rule, state) {
  const box = element("li", rule.state === "failed" ? "rule failed" : "rule")
  const head = element("div", "head")
  const sign = element("i", "sign", state.sign)
  sign.setAttribute("aria-hidden", "true")
  head.append(sign, element("strong", "", rule.title), element("code", "", rule.name))
  if (rule.counts) head.append(element("span", "counts", rule.counts))
  box.append(head)
  if (rule.log) {
    const line = element("p", "log")
    line.append(element("b", "", t("Log:")), ` ${shownText(rule.log)}`)
    box.append(line)
  }
  if (rule.remark) box.append(element("p", "", shownText(rule.remark)))
  if (rule.state === "failed") {
    box.append(element("p", "", rule.formula))
    box.append(samplesOf(model, rule))
  } else {
    head.title = rule.formula
  }
  return box
}

export function render({ model }) {
  const root = element("div", "lint")
  const draw = () => {
    if (!model.rules.length) return root.replaceChildren()
    const groups = Object.entries(LINT_STATES).map(([name, state]) => {
      const rules = model.rules.filter((rule) => rule.state === name)
      const group = element("section", name.replace(" ", "-"))
      group.append(element("h3", "", `${state.title()} (${rules.length})`))
      if (!rules.length) group.append(element("p", "none", state.none()))
      const list = element("ul")
      list.append(...rules.map((rule) => ruleOf(model, rule, state)))
      group.append(list)
      return group
    })
    root.replaceChildren(...groups)
  }
  model.on("rules", draw)
  draw()
  return root
}
