// The legend of all curves. Names of runs are set as text, never as HTML.
function make(tag, name, text) {
  const element = document.createElement(tag)
  if (name) element.className = name
  if (text !== undefined) element.textContent = text
  return element
}

function chip(model, run) {
  const item = make("button", "run")
  item.type = "button"
  item.dataset.run = run.key
  item.title = run.on ? t("Hide this run's curves") : t("Show this run's curves")
  item.setAttribute("aria-pressed", run.on)
  const line = make("i")
  line.style.background = run.color
  item.append(line, make("span", "", run.label))
  if (run.said) item.append(make("em", "", run.said))
  item.addEventListener("click", () => model.send_msg(run.key))
  return item
}

export function render({ model }) {
  const box = make("div", "runs")
  const draw = () => {
    box.replaceChildren(...model.runs.map((run) => chip(model, run)))
    if (model.note) box.append(make("span", "note", model.note))
  }
  model.on(["runs", "note"], draw)
  draw()
  return box
}
