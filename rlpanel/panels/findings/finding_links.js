// Buttons that lead to a finding's steps and causes. A click sends the finding's key and the choice of the step.
const SEVERITY_MARKS = { alarm: "▲", warning: "●", info: "○" }
const STEP_LINKS = [
  ["before", t("before"), t("The last step before the onset")],
  ["onset", t("onset"), t("The first affected step")],
  ["worst", t("worst"), t("The most affected step")],
]

function link(className, text, title, click) {
  const node = element("button", className, text)
  Object.assign(node, { type: "button", title })
  node.addEventListener("click", click)
  return node
}

function mark(severity) {
  const node = element("span", `mark ${severity}`, SEVERITY_MARKS[severity])
  node.setAttribute("aria-hidden", "true")
  return node
}

/** Create the links to the steps that a finding has; `shown` is the step that is on the screen. */
function stepLinks(finding, open, shown) {
  const row = element("span", "steps")
  for (const [choice, label, title] of STEP_LINKS) {
    const step = finding.steps[choice]
    if (step === undefined) continue
    const node = link("step", "", title, () => open(finding.key, choice))
    node.append(label, " ", element("b", "", step))
    if (step === shown) node.setAttribute("aria-current", "step")
    row.append(node)
  }
  if (finding.steps.onset !== undefined && !finding.split) {
    const title = t("Walk back to what changed first")
    row.append(link("step bisect", t("Bisect"), title, () => open(finding.key, "bisect")))
  }
  if (finding.split) {
    const title = t("Show the samples of the split {split} at the first affected step", {
      split: finding.split,
    })
    row.append(link("step", t("samples"), title, () => open(finding.key, "samples")))
  }
  return row
}
