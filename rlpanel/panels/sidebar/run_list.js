// Draws the list of runs, one button per run, with the mark of its worst finding. Names of runs and sentences
// are inserted as text, never as HTML.
const MARKS = { alarm: "▲", warning: "●" }

function runButton(model, run) {
  const node = element("button", "run")
  Object.assign(node, { type: "button", title: run.tip })
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
    box.replaceChildren(...model.runs.map((run) => runButton(model, run)))
    box.scrollTop = scroll
  }
  const select = () => {
    model.runs.forEach((run, at) => box.children[at]?.setAttribute("aria-pressed", run.name === model.value))
  }
  model.on("runs", draw)
  model.on("value", select)
  draw()
  requestAnimationFrame(() => box.querySelector("[aria-pressed=true]")?.scrollIntoView({ block: "nearest" }))
  return box
}
