// Reports of a run: passages and claims with their marks. Texts of logs are set as text; passages are sanitized.

/** Most findings that a page without claims offers. */
const MOST_OFFERS = 5

function evidenceOf(entry) {
  if (!entry.evidence.length) return []
  const box = element("details", "evidence")
  box.open = entry.evidence.some(([kind]) => kind === "quote")
  box.append(element("summary", "", t("Evidence")))
  for (const [kind, text] of entry.evidence)
    box.append(element(kind === "note" ? "p" : "pre", kind, kind === "note" ? shownText(text) : text))
  return [box]
}

function valuesOf(entry) {
  const line = element("p", "values")
  line.append(`${t("claimed")} `, element("b", "", entry.expected))
  if (entry.mark === "changed") line.append(` · ${t("now")} `, element("b", "", entry.found))
  return [line, ...(entry.reason ? [element("p", "reason", shownText(entry.reason))] : [])]
}

function footOf(model, entry) {
  const foot = element("footer", "", shownText(entry.written))
  if (model.state.writes)
    foot.append(
      button("remove", "✕", t("Remove from the report"), () => model.send_msg(["remove", entry.id])),
    )
  return foot
}

function entryOf(model, entry) {
  const foot = footOf(model, entry)
  const box = element("article", entry.mark ? `claim ${entry.mark.replace(" ", "-")}` : "passage")
  if (entry.mark) {
    const head = element("header")
    const open = button("about", shownText(entry.about), t("Open on the board"), () =>
      model.send_msg(["open", entry.id]),
    )
    head.append(element("span", "mark", entry.label), element("span", "kind", entry.kind), open)
    box.append(head)
    head.append(foot)
  }
  if (entry.html) {
    const text = element("div", "text")
    text.innerHTML = entry.html // sanitized by safe_markdown.py
    box.append(text)
  }
  if (entry.mark) box.append(...valuesOf(entry), ...evidenceOf(entry))
  if (!entry.mark) box.append(foot)
  return box
}

/** A claim that the run offers: its words, and a button that writes it into the first report. */
function offerOf(model, words, claim) {
  const line = element("li")
  const report = model.state.names?.[0] ?? "Report"
  const take = button("offer", t("Claim this"), "", () => model.send_msg(["add", { report, ...claim }]))
  line.append(take, element("span", "", shownText(words)))
  return line
}

/** What a page without claims shows: what a report is, and the claims with which it may begin. */
function beginningOf(model) {
  const parts = [
    element(
      "p",
      "quiet",
      t("A report holds claims: numbers, findings, quotations, queries. Each is evaluated at every load."),
    ),
  ]
  const { rules, metrics, newest, writes } = model.state
  if (!writes) return parts
  const offers = (rules ?? [])
    .slice(0, MOST_OFFERS)
    .map(({ rule, subject, words }) => offerOf(model, words, { kind: "finding", rule, subject, text: words }))
  if (newest && metrics?.includes("reward_mean"))
    offers.push(
      offerOf(model, t("The mean reward of step {step}", { step: newest }), {
        kind: "number",
        metric: "reward_mean",
        steps: newest,
      }),
    )
  if (!offers.length) return parts
  const list = element("ul", "offers")
  list.append(...offers)
  return [...parts, element("h3", "", t("Begin with what the run shows")), list]
}

function codeBox(model) {
  const { code, gives } = model.state
  const box = element("div", "code")
  if (!gives) return box
  if (!code) {
    const title = t("Shows a code that you give to an agent; with it, the agent moves this page")
    box.append(button("", t("Let an agent move this page"), title, () => model.send_msg(["code", true])))
    return box
  }
  const words = element("span", "", t("Code for your agent, until this page closes, at most an hour:"))
  const end = button("", t("End"), t("The code is no longer valid"), () => model.send_msg(["code", false]))
  box.append(words, element("strong", "", code), end)
  return box
}

export function render({ model }) {
  const root = element("div", "investigations")
  const head = element("div", "top")
  const reports = element("div", "reports")
  const form = claimForm(
    () => model.state,
    (claim) => model.send_msg(["add", claim]),
  )
  const drawHead = () => {
    const { counts, problems, reading, said, writes } = model.state
    const line = element("div", "line")
    const words = element("strong", "", reading || counts || "")
    words.setAttribute("role", "status")
    line.append(words)
    if (reading) line.append(button("stop", t("Stop"), "", () => model.send_msg(["stop", null])))
    else line.append(button("again", t("Evaluate again"), "", () => model.send_msg(["again", null])))
    const save = button("export", t("Export as HTML"), t("One file with claims, marks and evidence"), () =>
      model.send_msg(["export", null]),
    )
    save.disabled = !model.reports.length
    line.append(save, codeBox(model))
    const remarks = (problems ?? []).map((problem) => element("p", "problem", shownText(problem)))
    head.replaceChildren(line, ...remarks, ...(said ? [element("p", "said", shownText(said))] : []))
    form.hidden = !writes
    form.refresh()
  }
  const drawReports = () => {
    const groups = model.reports.map((report) => {
      const section = element("section")
      section.append(element("h3", "", shownText(report.name)))
      section.append(...report.entries.map((entry) => entryOf(model, entry)))
      return section
    })
    reports.replaceChildren(...(groups.length ? groups : beginningOf(model)))
    drawHead()
  }
  model.on("state", () => (model.reports.length ? drawHead() : drawReports()))
  model.on("reports", drawReports)
  model.on("msg:custom", (message) => save([message.html], message.file, "text/html"))
  root.append(head, form, reports)
  drawReports()
  return root
}
