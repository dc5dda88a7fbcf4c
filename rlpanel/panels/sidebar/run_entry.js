// One entry of the list of runs: name, state, samples, last reward with its trend, and the mark of the worst
// finding. Names of runs and sentences of findings are inserted as text, never as HTML.
const MARKS = { alarm: "▲", warning: "●" }
// Characters at the end of a name that stay visible when it is cut: names often differ there only.
const TAIL = 9

const AGES = [
  { bound: 60, size: 1, unit: "s" },
  { bound: 3600, size: 60, unit: "min" },
  { bound: 86400, size: 3600, unit: "h" },
]
const COUNTS = [
  { size: 1e9, unit: "G" },
  { size: 1e6, unit: "M" },
  { size: 1e3, unit: "k" },
]

/** Return the path by which a run is listed: its label without an end that says nothing, such as `run`. */
const placeOf = (run) => run.place ?? run.label

/** Format a duration with one unit: 12 s, 4 min, 3 h, 2 d. */
function ageText(seconds) {
  for (const { bound, size, unit } of AGES) {
    if (seconds < bound) return `${Math.max(0, Math.round(seconds / size))} ${unit}`
  }
  return `${Math.round(seconds / 86400)} d`
}

/** Format a count with at most four characters: 950, 12.3k, 1.2M. */
function shortCount(count) {
  for (const { size, unit } of COUNTS) {
    if (count >= size)
      return `${(count / size).toFixed(count < 99.5 * size ? 1 : 0).replace(/\.0$/, "")}${unit}`
  }
  return String(count)
}

/** Return the state of a run and the age of its newest line, by the server's clock. */
function stateOf(run, now, [live, quiet]) {
  if (run.time === undefined) {
    return { state: "", age: "" }
  }
  const seconds = now - run.time
  const ended = run.planned === undefined ? "finished" : "stopped early"
  return { state: seconds <= live ? "live" : seconds <= quiet ? "quiet" : ended, age: ageText(seconds) }
}

/** Return what is known of a run as sentences, for the tooltip and for screen readers. */
function factsOf(run, { state, age }) {
  const facts = []
  if (run.problem) {
    facts.push(t("cannot be read: {reason}", { reason: run.problem }))
  }
  if (state) {
    facts.push(
      state === "live"
        ? t("live")
        : t("{state}, newest line {age} ago", {
            state: state === "stopped early" ? t("stopped early") : t(state),
            age,
          }),
    )
  }
  if (run.samples !== undefined) {
    facts.push(
      run.more
        ? t("at least {count} samples", { count: run.samples.toLocaleString("en-US") })
        : run.samples === 1
          ? t("1 sample")
          : t("{count} samples", { count: run.samples.toLocaleString("en-US") }),
    )
  }
  const place = { reward: run.reward, step: run.step }
  if (run.tail) {
    facts.push(
      run.reward === undefined
        ? t("step {step} in the last lines of a file", place)
        : t("reward {reward} at step {step}, in the last lines of a file", place),
    )
  } else if (run.reward !== undefined) {
    facts.push(t("reward {reward} at step {step}", place))
  }
  if (run.split) {
    facts.push(t("split {split}", { split: run.split }))
  }
  if (run.doubt) facts.push(run.doubt)
  if (run.planned !== undefined) facts.push(t("{step} of {planned} planned steps", run))
  if (run.unchecked) facts.push(t("not checked: {reason}", { reason: run.unchecked }))
  if (run.severity) {
    facts.push(`${run.severity} at step ${run.checked}: ${run.finding}`)
  } else if (run.severity === "") {
    facts.push(t("no current findings at step {step}", { step: run.checked }))
  }
  return facts
}

/** Create a name that is cut in the middle if it is too long; bidirectional text stays within it. */
function cutName(name) {
  const characters = [...shownText(name)]
  const label = element("bdi", "label")
  const at = characters.length > 2 * TAIL ? characters.length - TAIL : characters.length
  label.append(element("span", "front", characters.slice(0, at).join("")))
  if (at < characters.length) label.append(element("span", "back", characters.slice(at).join("")))
  return label
}

/** Draw a trend as a line without axes. */
function sparkline(trend) {
  const svg = svgElement("svg", {
    viewBox: "0 -8 100 116",
    preserveAspectRatio: "none",
    "aria-hidden": "true",
  })
  svg.classList.add("trend")
  const points = trend.map((y, at) => `${((100 * at) / (trend.length - 1)).toFixed(1)},${100 - y}`).join(" ")
  svg.append(svgElement("polyline", { points }))
  return svg
}

/** An entry of the list; `show` draws a run, `refresh` its state and age. */
class RunEntry {
  constructor(run, level) {
    this.node = element("div", "run")
    this.node.setAttribute("role", "treeitem")
    this.node.setAttribute("aria-level", level)
    this.node.tabIndex = -1
    this.node.dataset.name = run.name
    const name = placeOf(run).slice(placeOf(run).lastIndexOf("/") + 1)
    this.tick = element("input")
    Object.assign(this.tick, {
      type: "checkbox",
      tabIndex: -1,
      ariaLabel: t("Compare {run}", { run: shownText(run.label) }),
    })
    this.first = element("div", "first")
    this.second = element("div", "second")
    this.first.append(cutName(name))
    this.node.append(this.tick, this.first, this.second)
  }

  show(run, clock) {
    if (run === this.run) return
    this.run = run
    this.first.querySelector(".mark")?.remove()
    if (run.problem) {
      const mark = element("span", "mark alarm", "✕")
      Object.assign(mark, { role: "img", ariaLabel: t("cannot be read") })
      this.first.append(mark)
    } else if (run.severity) {
      const mark = element("span", `mark ${run.severity}`, MARKS[run.severity])
      Object.assign(mark, { role: "img", ariaLabel: run.severity })
      this.first.append(mark)
    }
    this.dot = element("span", "dot")
    this.age = element("span", "age")
    this.second.replaceChildren(this.dot, this.age)
    if (run.samples !== undefined) {
      this.second.append(
        element(
          "span",
          "samples",
          run.samples === 1 && !run.more
            ? t("1 sample")
            : t("{count} samples", { count: `${run.more ? "≥ " : ""}${shortCount(run.samples)}` }),
        ),
      )
    }
    if (run.tail) {
      this.second.append(
        element("span", "samples", t("step {step}", { step: run.step.toLocaleString("en-US") })),
      )
    }
    if (run.reward !== undefined) {
      this.second.append(element("span", "reward", run.doubt ? `${run.reward}?` : run.reward))
    }
    if (run.trend?.length > 1) this.second.append(sparkline(run.trend))
    this.said = undefined
    this.refresh(clock)
  }

  refresh({ now, ages }) {
    const found = stateOf(this.run, now, ages)
    const path = shownText(this.run.label),
      facts = factsOf(this.run, found)
    const said = [path, ...facts].join("\n")
    if (said === this.said) return
    this.said = said
    this.node.title = said
    this.node.ariaLabel = [path, ...facts].join(", ")
    this.dot.className = `dot ${found.state.split(" ")[0]}`
    this.dot.hidden = !found.state
    this.age.textContent = found.state === "live" ? t("live") : found.age
  }

  /** Show whether the run is open, and whether it is ticked; a tick may be impossible for a reason. */
  mark({ selected, ticked, refused, color }) {
    this.node.style.setProperty("--overlay", ticked && color ? color : "")
    this.node.setAttribute("aria-selected", selected)
    Object.assign(this.tick, { checked: ticked, disabled: selected || Boolean(refused && !ticked) })
    this.tick.title = selected
      ? t("This run is open")
      : this.tick.disabled
        ? refused
        : t("Draw its curves over those of the open run")
  }
}
