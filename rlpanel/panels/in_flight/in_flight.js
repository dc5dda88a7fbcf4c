// Rollouts in flight: counts by phase, what batches wait for, and the slowest rollouts. Texts are set as text only.

const PHASE_CLASS = {
  generation: "generation",
  tool: "tool",
  environment: "environment",
  queue: "queue",
  score: "score",
}

const spanText = (seconds) =>
  seconds === null
    ? ""
    : seconds < 100
      ? `${seconds.toFixed(1)} s`
      : `${Math.round(seconds).toLocaleString("en-US")} s`

function phaseBar(phases) {
  const total = phases.reduce((sum, [, count]) => sum + count, 0)
  const box = element("div", "phases")
  if (!total) return box
  const bar = element("div", "phase-bar")
  bar.setAttribute("aria-hidden", "true")
  for (const [phase, count] of phases) {
    const part = element("i", PHASE_CLASS[phase] ?? "other")
    part.style.flexGrow = count
    bar.append(part)
  }
  const words = element("div", "phase-words")
  for (const [phase, count] of phases) {
    const word = element("span", PHASE_CLASS[phase] ?? "other")
    word.append(element("b", "", count.toLocaleString("en-US")), ` ${shownText(phase)}`)
    words.append(word)
  }
  box.append(bar, words)
  return box
}

function rolloutRow(rollout, slowest) {
  const row = element("li", rollout.lost ? "rollout lost" : "rollout")
  const time = element("span", "time")
  const bar = element("i", PHASE_CLASS[rollout.phase] ?? "other")
  bar.style.width = `${slowest > 0 ? (100 * (rollout.seconds ?? 0)) / slowest : 0}%`
  const track = element("span", "track")
  track.append(bar)
  time.append(track, element("b", "", spanText(rollout.seconds)))
  const name = element("span", "name")
  name.append(element("strong", "", shownText(rollout.id)))
  for (const part of [rollout.step, rollout.names])
    if (part) name.append(element("span", "", shownText(part)))
  const counts = element("span", "counts")
  counts.append(
    element("span", "phase", shownText(rollout.phase)),
    element("span", "", t("{count} turns", { count: rollout.turns })),
    element("span", "", rollout.tokens ? t("{count} tokens", { count: rollout.tokens }) : ""),
  )
  row.append(time, name, counts, element("span", "words", shownText(rollout.lost || rollout.text)))
  row.title =
    rollout.silent && !rollout.lost ? t("last change {seconds} s ago", { seconds: rollout.silent }) : ""
  return row
}

export function render({ model }) {
  const root = element("div", "flight")
  const draw = () => {
    const { counts, phases, batches, idle, remarks, replay, empty, rollouts, slowest } = model.flight
    if (counts === undefined) return root.replaceChildren(element("p", "quiet", t("Reading …")))
    const head = element("div", "head")
    head.append(element("strong", "", counts), phaseBar(phases))
    for (const batch of batches) head.append(element("p", "batch", batch))
    if (idle.length) {
      const line = element("p", "idle")
      line.append(t("Waiting, as logged last:"))
      for (const [name, value] of idle) {
        const item = element("span")
        item.append(`${shownText(name)} `, element("b", "", value))
        line.append(item)
      }
      head.append(line)
    }
    for (const remark of remarks) head.append(element("p", "remark", shownText(remark)))
    if (replay) head.append(element("p", "quiet", replay))
    const list = element("ol")
    list.append(...rollouts.map((rollout) => rolloutRow(rollout, slowest)))
    root.replaceChildren(head, ...(empty ? [element("p", "quiet", empty)] : []), list)
  }
  model.on("flight", draw)
  draw()
  return root
}
