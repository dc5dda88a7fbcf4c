// Draws the list of runs, one button per run, with the mark of its worst finding. Names of runs and sentences
// are inserted as text, never as HTML.
const MARKS = { alarm: "▲", warning: "●" }

function runButton(model, run) {
  const node = element("button", "run")
  Object.assign(node, { type: "button", name: run.name, title: run.tip })
  node.setAttribute("aria-pressed", run.name === model.value)
  node.append(element("span", "label", run.label))
  if (run.severity) {
    const mark = element("span", `mark ${run.severity}`, MARKS[run.severity])
    Object.assign(mark, { role: "img", ariaLabel: run.severity })
    node.append(mark)
  }
  node.addEventListener("click", () => model.send_msg(run.name))
  return node
}

export function render({ model }) {
  const box = element("div", "run-list")
  const draw = () => {
    const scroll = box.scrollTop
    const focused = box.querySelector(":focus")?.name
    box.replaceChildren(...model.runs.map((run) => runButton(model, run)))
    box.scrollTop = scroll
    if (focused) { [...box.children].find((node) => node.name === focused)?.focus({ preventScroll: true }) }
  }
  const reveal = () => box.querySelector("[aria-pressed=true]")?.scrollIntoView({ block: "nearest" })
  const select = () => {
    model.runs.forEach((run, at) => box.children[at]?.setAttribute("aria-pressed", run.name === model.value))
    reveal()
  }
  model.on("runs", draw)
  model.on("value", select)
  draw()
  requestAnimationFrame(reveal)
  return box
}
