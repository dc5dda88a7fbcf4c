// The lines of the table of runs: heads of folders, and runs. Names and sentences are inserted as text only.
const VERDICTS = { alarm: "▲", unread: "✕", warning: "●", unchecked: "…", fine: "·" }

/** Draw a trend on an axis that has 0, with the steps since a finding began shaded. */
function trendOf(values, from) {
  const svg = svgElement("svg", {
    viewBox: "0 0 100 100",
    preserveAspectRatio: "none",
    "aria-hidden": "true",
  })
  svg.classList.add("trend")
  if (values.length > 1) {
    if (from !== undefined) {
      svg.append(svgElement("rect", { x: from, y: 0, width: 100 - from, height: 100 }))
      svg.append(svgElement("line", { x1: from, x2: from, y1: 0, y2: 100 }))
    }
    svg.append(svgElement("polyline", { points: pointsOf(values, values, 0, 100) }))
  }
  return svg
}

/** Return the points of a line within a box of 100 by 100; all of `scale` and 0 are on the vertical axis. */
function pointsOf(values, scale, left, right) {
  const low = Math.min(0, ...scale)
  const range = Math.max(0, ...scale) - low || 1
  return values
    .map((value, at) => {
      const x = left + ((right - left) * at) / (values.length - 1)
      return `${x.toFixed(1)},${(94 - (88 * (value - low)) / range).toFixed(1)}`
    })
    .join(" ")
}

function cell(className, content, title) {
  const node = element("span", `cell ${className}`)
  node.setAttribute("role", "gridcell")
  if (content !== undefined) node.append(content)
  if (title) node.title = title
  return node
}

/** Draw a run. `view` has the columns of settings, whether runs stand in folders, and the ticked runs. */
function runLine(run, view) {
  const node = element("div", `line run ${run.verdict}`)
  node.setAttribute("role", "row")
  const place = shownText(view.grouped ? run.place.slice(run.place.lastIndexOf("/") + 1) : run.place)
  const tick = element("input")
  const isTicked = view.ticked.includes(run.name)
  Object.assign(tick, {
    type: "checkbox",
    tabIndex: -1,
    checked: isTicked,
    ariaLabel: t("Tick {run}", { run: place }),
  })
  node.setAttribute("aria-selected", isTicked)
  const ticks = cell("tick")
  const label = element("label")
  label.append(tick)
  ticks.append(label)
  const dot = element("span", `dot ${run.state.split(" ")[0]}`)
  Object.assign(dot, { role: "img", ariaLabel: run.state_text })
  const name = element("bdi")
  const at = view.grouped ? -1 : place.lastIndexOf("/")
  if (at >= 0) name.append(element("span", "folder", place.slice(0, at + 1)))
  name.append(element("b", "", place.slice(at + 1)))
  const reward = cell("reward")
  if (run.reward !== undefined) {
    reward.append(element("b", "", run.doubt ? `${run.reward}?` : run.reward))
    if (run.error !== undefined) reward.append(element("i", "", ` ± ${run.error}`))
    if (run.doubt) reward.title = run.doubt
  }
  const span =
    run.span &&
    t("mean rewards from {low} to {high}; the axis begins at 0", { low: run.span[0], high: run.span[1] })
  const said = cell("said")
  const mark = element("span", `mark ${run.verdict}`, VERDICTS[run.verdict])
  mark.ariaHidden = "true"
  said.append(mark, element("span", "sentence", shownText(run.said)))
  if (run.others) said.append(element("span", "others", run.others))
  said.title = shownText(run.said)
  const all = Object.entries(run.settings).map(([key, value]) => `${shownText(key)} = ${shownText(value)}`)
  node.append(
    ticks,
    cell("state", dot, run.state_text),
    cell("name", name, [shownText(run.label), ...all].join("\n")),
    cell("num col-step", run.step ?? ""),
    cell("graph", trendOf(run.trend, run.from), span),
    reward,
    ...view.means.map((key) => cell("num col-mean", run[key] ?? "", key === "best" ? run.best_tip : "")),
    ...view.settings.map((key) => cell("num col-setting", shownText(run.settings[key] ?? ""))),
    said,
    cell("num col-onset", run.onset ?? ""),
  )
  node.ariaLabel = [shownText(run.label), run.state_text, shownText(run.said)].join(", ")
  return node
}

/** Draw the head of a folder, with the number of its runs by what is wrong with them. */
function folderLine(folder) {
  const node = element("div", "line folder")
  node.setAttribute("role", "row")
  node.setAttribute("aria-expanded", folder.open)
  const name = cell("name")
  name.append(
    element("span", "arrow", folder.open ? "▾" : "▸"),
    element("bdi", "", folder.folder ? shownText(folder.folder) : t("no folder")),
    element(
      "span",
      "size",
      folder.runs === 1 ? t("{count} run", { count: 1 }) : t("{count} runs", { count: folder.runs }),
    ),
  )
  const reward = cell("reward")
  if (folder.mean !== undefined) {
    reward.append(element("b", "", folder.mean))
    if (folder.spread !== undefined) reward.append(element("i", "", ` ± ${folder.spread}`))
    reward.title = folder.group
      ? t("mean of the last rewards of {count} runs, and its standard error", { count: folder.rewards })
      : t("mean and standard deviation of the runs' last rewards")
  }
  const said = cell("said")
  for (const verdict of ["alarm", "unread", "warning"]) {
    if (folder[verdict]) {
      const words = {
        alarm: t("{count} with an alarm"),
        unread: t("{count} cannot be read"),
        warning: t("{count} with a warning"),
      }
      const count = element("span", `mark ${verdict}`, `${VERDICTS[verdict]} ${folder[verdict]}`)
      count.title = words[verdict].replace("{count}", folder[verdict])
      said.append(count)
    }
  }
  const costs = [
    [folder.best, t("mean best reward {value}", { value: folder.best })],
    [folder.tokens, t("{value} tokens", { value: folder.tokens })],
    [folder.gpu_hours, t("{value} GPU hours", { value: folder.gpu_hours })],
    [folder.gpu_hours ? undefined : folder.hours, t("{value} hours", { value: folder.hours })],
  ]
  const words = costs.filter(([value]) => value !== undefined).map(([, text]) => text)
  if (words.length) said.append(element("span", "cost", words.join(" · ")))
  node.append(name, reward, said)
  return node
}

/** Draw the line that stands for the runs without a finding. */
function restLine(rest) {
  const node = element("div", "line rest")
  node.setAttribute("role", "row")
  node.setAttribute("aria-expanded", rest.open)
  const parts = []
  if (rest.fine) parts.push(t("{count} without a finding", { count: rest.fine }))
  if (rest.unchecked) parts.push(t("{count} not checked yet", { count: rest.unchecked }))
  const name = cell("name")
  name.append(element("span", "arrow", rest.open ? "▾" : "▸"), element("span", "", parts.join(", ")))
  node.append(name)
  return node
}
