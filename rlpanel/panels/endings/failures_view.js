// Classes of failures: a row with bars over steps, and its samples with quoted words. Below, the judges of the run.
// Texts are set as text only.

/** Bars of the share of a class at each step; the highest of all classes fills the height. */
function barsOf(row, most) {
  const box = element("span", "bars")
  box.setAttribute("role", "img")
  box.setAttribute("aria-label", t("{label} by step", { label: row.label }))
  for (const [count, samples, steps] of row.bars) {
    const bar = element("i")
    const share = samples ? count / samples : 0
    bar.style.height = count ? `${Math.max(6, (100 * share) / most)}%` : "0"
    const slot = element("span")
    slot.title = t("step {steps}: {count} of {samples} samples", { steps, count, samples })
    slot.append(bar)
    box.append(slot)
  }
  return box
}

function sampleLine(model, kind, sample) {
  const line = element("button", "sample")
  Object.assign(line, { type: "button", title: t("Open this sample") })
  line.addEventListener("click", () => model.send_msg([kind, sample.uid]))
  line.append(element("b", "", sample.step))
  if (sample.place) line.append(element("span", "place", shownText(sample.place)))
  line.append(element("q", "", shownText(sample.words)))
  if (sample.inferred) line.append(element("em", "", t("inferred")))
  return line
}

function classOf(model, row, most, opened) {
  const box = element("li", `class of-${row.kind}`)
  const head = element("button", "head")
  Object.assign(head, { type: "button", title: t("Show these samples in the grid") })
  head.addEventListener("click", () => model.send_msg(["class", row.name]))
  const name = element("span", "name")
  name.append(element("strong", "", row.label), element("span", "kind", row.kind_label))
  const counts = element("span", "counts")
  counts.append(element("b", "", row.count.toLocaleString("en-US")), element("span", "", row.share))
  head.append(name, counts, barsOf(row, most))
  const facts = [
    row.first,
    row.inferred,
    row.limit,
    ...row.environments.map(([env, count]) => `${shownText(env)} ${count}`),
  ]
  box.append(head)
  const told = row.examples.filter((each) => each.words)
  const words = facts.filter(Boolean).join(" · ")
  if (told.length) {
    const fold = element("details")
    const title = element("summary", "", `${words} · `)
    title.append(element("u", "", t("evidence of {count} samples", { count: told.length })))
    fold.append(title, ...told.map((each) => sampleLine(model, "sample", each)))
    fold.open = opened.has(row.name)
    fold.dataset.name = row.name
    box.append(fold)
  } else box.append(element("p", "facts", words))
  return box
}

function judgesOf(model, judges) {
  const box = element("section", "judges")
  box.append(element("h3", "", t("Judges")), element("p", "", judges.words))
  if (!judges.rows.length) return box
  const table = element("table")
  const head = element("tr")
  head.append(...judges.heads.map((text) => element("th", "", text)))
  table.append(head)
  for (const row of judges.rows) {
    const line = element("tr")
    line.append(...row.map((text, at) => element("td", at ? "number" : "", shownText(text))))
    table.append(line)
  }
  const scroll = element("div", "scroll")
  scroll.tabIndex = 0
  scroll.append(table)
  box.append(scroll)
  if (judges.samples.length) {
    box.append(element("h4", "", t("Judges disagree most at")))
    box.append(...judges.samples.map((each) => sampleLine(model, "judged", each)))
  }
  return box
}

export function render({ model }) {
  const root = element("div", "failures")
  const draw = () => {
    const shares = model.classes.flatMap((row) =>
      row.bars.map(([count, samples]) => (samples ? count / samples : 0)),
    )
    const most = Math.max(...shares, 0.001)
    // A run that grows is drawn again, and what a reader opened stays open.
    const opened = new Set([...root.querySelectorAll("details[open]")].map((fold) => fold.dataset.name))
    const list = element("ul")
    list.append(...model.classes.map((row) => classOf(model, row, most, opened)))
    const parts = model.classes.length ? [list] : []
    if (model.judges.words) parts.push(judgesOf(model, model.judges))
    root.replaceChildren(...parts)
  }
  for (const name of ["classes", "judges"]) model.on(name, draw)
  draw()
  return root
}
