// Draws a badge with the number of findings, and their list below it. Texts are inserted as text, never as
// HTML.
const SEVERITIES = ["alarm", "warning", "info"]

/** Return the number of findings of one severity as a label. */
function counted(severity, count) {
  if (severity === "alarm") return count === 1 ? t("1 alarm") : t("{count} alarms", { count })
  if (severity === "warning") return count === 1 ? t("1 warning") : t("{count} warnings", { count })
  return count === 1 ? t("1 earlier finding") : t("{count} earlier findings", { count })
}

/** Draw the worst severity with its name, and the number of the others. */
function drawBadge(badge, findings, checked) {
  const counts = SEVERITIES.map((severity) => [
    severity,
    findings.filter((f) => f.severity === severity).length,
  ]).filter(([, count]) => count)
  badge.className = `pill ${counts.length ? counts[0][0] : ""}`
  if (!counts.length) {
    badge.replaceChildren(checked ? t("no findings") : t("checking …"))
    badge.title = checked ? t("The rules found nothing in the complete steps") : t("The rules check the run")
    return
  }
  badge.title = t("Findings: {counts}", {
    counts: counts.map(([severity, count]) => counted(severity, count)).join(", "),
  })
  badge.replaceChildren(
    ...counts.slice(0, 1).map(([severity, count]) => {
      const part = element("span", `count ${severity}`)
      part.append(mark(severity), counted(severity, count))
      return part
    }),
    ...(counts.length > 1 ? [element("span", "rest", `+${findings.length - counts[0][1]}`)] : []),
  )
}

function createItem(finding, open, opened) {
  const item = element("li", finding.key === opened ? "finding opened" : "finding")
  const title = element("div", "title")
  title.append(mark(finding.severity), element("span", "", finding.title), stepLinks(finding, open))
  const sentence = link("sentence", finding.sentence, t("Show the first affected step and a sample"), () =>
    open(finding.key, "onset"),
  )
  item.append(title, sentence, ...finding.evidence.map((line) => element("p", "evidence", line)))
  if (finding.advice) {
    const advice = element("p", "advice")
    advice.append(element("b", "", t("Check next: ")), finding.advice)
    item.append(advice)
  }
  if (finding.rule) {
    const rule = element("details", "rule")
    rule.append(element("summary", "", t("How it is found")), element("p", "", finding.rule))
    item.append(rule)
  }
  if (finding.symptoms.length) {
    const symptoms = element("div", "symptoms")
    symptoms.append(
      element("p", "caption", t("Also seen")),
      ...finding.symptoms.map((symptom) => createSymptom(symptom, open)),
    )
    item.append(symptoms)
  }
  return item
}

function createSymptom(symptom, open) {
  const row = element("div", "symptom")
  row.append(
    mark(symptom.severity),
    link("sentence", symptom.sentence, t("Show the first affected step and a sample"), () =>
      open(symptom.key, "onset"),
    ),
  )
  return row
}

function createEarlier(findings, items, wasOpen) {
  const row = element("li")
  const box = element("details", "earlier")
  const list = element("ul")
  list.append(...items)
  box.append(element("summary", "", t("Earlier ({count})", { count: findings.length })), list)
  box.open = wasOpen
  row.append(box)
  return row
}

export function render({ model }) {
  const box = element("details", "rl-finding-list")
  const badge = element("summary", "pill")
  const list = element("ul", "list")
  box.append(badge, list)
  const stop = closeOnEscape(box, badge)
  const openList = () => {
    box.open = true
    badge.focus()
  }
  window.addEventListener("rl-findings", openList)
  const open = (key, choice) => {
    model.send_msg([key, choice])
    box.open = false
    badge.focus()
  }

  const draw = () => {
    const now = model.found.filter((finding) => finding.severity !== "info")
    const past = model.found.filter((finding) => finding.severity === "info")
    const createItems = (findings) => findings.map((finding) => createItem(finding, open, model.opened))
    const wasOpen = list.querySelector(".earlier")?.open ?? !now.length
    drawBadge(badge, model.found, model.checked)
    const rows = createItems(now)
    if (!now.length) {
      const text = !model.checked
        ? t("The rules check the run …")
        : past.length
          ? t("No finding concerns the newest complete steps.")
          : t("No findings in the complete steps.")
      rows.push(element("li", "none", text))
    }
    if (past.length) rows.push(createEarlier(past, createItems(past), wasOpen))
    list.replaceChildren(...rows)
  }
  model.on(["found", "checked", "opened"], draw)
  model.on("remove", () => {
    stop()
    window.removeEventListener("rl-findings", openList)
  })
  draw()
  return box
}
