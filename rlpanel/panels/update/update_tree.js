// The weight of an update as three rows of blocks: groups, samples, turns. Texts of a log are set as text only.
const NS = "http://www.w3.org/2000/svg"
const ROWS = { groups: [0, 30], samples: [32, 46], turns: [80, 46] }

function block(parent, row, x, width, className) {
  const [top, height] = ROWS[row]
  const rect = document.createElementNS(NS, "rect")
  rect.setAttribute("x", x)
  rect.setAttribute("y", top)
  rect.setAttribute("width", `${Math.max(width, 0)}`)
  rect.setAttribute("height", height)
  rect.setAttribute("class", className)
  parent.append(rect)
  return rect
}

function words(parent, row, x, width, text, line = 0) {
  if (width < 9 + 6.6 * text.length) return
  const [top, height] = ROWS[row]
  const label = document.createElementNS(NS, "text")
  label.setAttribute("class", row)
  label.setAttribute("x", x + 5)
  label.setAttribute("y", top + (row === "groups" ? 13 + 13 * line : height / 2 + 4))
  label.textContent = text
  parent.append(label)
}

const percent = (share) => `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`

/** A block's colour: the direction of its push, paler where the pushes of its tokens cancel. */
function colored(rect, share, push) {
  rect.classList.add(push < 0 ? "less" : "more")
  rect.style.fillOpacity = 0.3 + 0.7 * Math.min(Math.abs(push) / (share || 1), 1)
}

function tip(rect, lines) {
  const title = document.createElementNS(NS, "title")
  title.textContent = lines.filter(Boolean).join("\n")
  rect.append(title)
}

function drawn(model, svg, width) {
  svg.replaceChildren()
  const hasTurns = model.groups.some((group) => group.samples.some((sample) => sample.turns.length > 1))
  const height = hasTurns ? 148 : 98
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`)
  svg.setAttribute("width", width)
  let x = 0
  for (const group of model.groups) {
    const wide = group.share * width
    const whole = block(svg, "groups", x + 0.5, wide - 1, "group")
    tip(whole, [shownText(group.name), t("{share} of the weight", { share: percent(group.share) })])
    words(svg, "groups", x, wide, shownText(group.name))
    words(svg, "groups", x, wide, percent(group.share), 1)
    let at = x
    for (const sample of group.samples) {
      const size = sample.share * width
      const rect = block(svg, "samples", at + 0.25, size - (size > 3 ? 0.5 : 0), "sample")
      colored(rect, sample.share, sample.push)
      rect.dataset.uid = sample.uid
      rect.addEventListener("click", () => model.send_msg(sample.uid))
      if (sample.uid === model.chosen) rect.classList.add("chosen")
      tip(rect, [sample.tip])
      words(svg, "samples", at, size, (100 * sample.share).toFixed(1))
      let inside = at
      const turns = hasTurns ? sample.turns : []
      turns.forEach(([share, push], number) => {
        const part = share * width
        const turn = block(svg, "turns", inside + 0.25, part - (part > 3 ? 0.5 : 0), "turn")
        colored(turn, share, push)
        turn.addEventListener("click", () => model.send_msg(sample.uid))
        tip(turn, [
          t("turn {turn}: {share} of the weight", { turn: number, share: percent(share) }),
          sample.tip,
        ])
        words(svg, "turns", inside, part, String(number))
        inside += part
      })
      at += size
    }
    if (group.rest > 0) {
      const rect = block(svg, "samples", at, group.rest * width, "rest")
      tip(rect, [t("{count} further samples: {share}", { count: group.others, share: percent(group.rest) })])
    }
    x += wide
  }
  for (const at of width > 500 ? [0, 25, 50, 75, 100] : [0, 100]) {
    const label = document.createElementNS(NS, "text")
    label.setAttribute("class", "tick")
    label.setAttribute("x", `${(at / 100) * width}`)
    label.setAttribute("y", `${height - 5}`)
    label.setAttribute("text-anchor", at === 0 ? "start" : at === 100 ? "end" : "middle")
    label.textContent = at === 100 ? t("100 % of the weight") : String(at)
    svg.append(label)
  }
}

export function render({ model }) {
  const root = element("div", "tree")
  const svg = document.createElementNS(NS, "svg")
  svg.setAttribute("role", "img")
  const legend = element("p", "legend")
  for (const [name, text] of [
    ["more", t("made likelier")],
    ["less", t("made less likely")],
  ]) {
    legend.append(element("i", name), element("span", "", text))
  }
  legend.append(element("span", "note", t("pale: the pushes of its tokens cancel")))
  root.append(legend, svg)
  let width = 0
  const draw = () => {
    root.hidden = !model.groups.length
    svg.setAttribute("aria-label", model.label)
    if (width && model.groups.length) drawn(model, svg, width)
  }
  const observer = new ResizeObserver(([entry]) => {
    const wide = Math.floor(entry.contentRect.width)
    if (wide !== width) {
      width = wide
      draw()
    }
  })
  observer.observe(root)
  model.on("groups", draw)
  model.on("chosen", () => {
    for (const rect of svg.querySelectorAll(".sample")) {
      rect.classList.toggle("chosen", rect.getAttribute("data-uid") === model.chosen)
    }
  })
  draw()
  return root
}
