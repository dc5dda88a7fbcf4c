// The list of runs with its search field. The server sends entries that changed; states and ages are derived
// from times here.
// Fewer runs need no search field.
const SEARCHABLE = 8
// Milliseconds between two updates of states and ages.
const REFRESH_EVERY = 10000

export function render({ model }) {
  const box = element("div", "run-list")
  const search = element("input")
  Object.assign(search, {
    type: "search",
    placeholder: t("search runs"),
    ariaLabel: t("Search runs"),
    spellcheck: false,
  })
  const count = element("span", "count")
  count.setAttribute("role", "status")
  const top = element("div", "top")
  // Shows only the runs with something wrong.
  const alarms = button("alarms", "▲", t("Only runs with a finding"), () => {
    alarms.ariaPressed = alarms.ariaPressed !== "true"
    draw()
  })
  const table = button("table", t("table"), t("All runs as a table, the worst finding first"), () => {
    model.send_msg({ table: true })
    window.dispatchEvent(new Event("rl-run-opened"))
  })
  top.append(table, alarms, search, count) // Tab leads from the search to the list
  const compared = element("div", "compared")
  const clear = element("button", "clear", t("clear"))
  Object.assign(clear, { type: "button", title: t("Remove all overlay runs") })
  const ticked = element("span")
  compared.append(ticked, clear)
  const tree = new RunTree((message) => model.send_msg(message), model.answered)
  box.append(top, compared, tree.node, tree.more)

  let lag = Infinity // the browser's clock minus the server's; a message's delay only adds to it
  const clock = () => ({ now: Date.now() / 1000 - (Number.isFinite(lag) ? lag : 0), ages: model.ages })
  const sync = () => {
    if (model.now) lag = Math.min(lag, Date.now() / 1000 - model.now)
  }
  const words = () => search.value.toLowerCase().split(/\s+/).filter(Boolean)
  const state = () => {
    const wanted = words(),
      changes = new Map(model.changes.map((run) => [run.name, run]))
    const all = model.runs.map((run) => changes.get(run.name) ?? run)
    const isWrong = (run) => Boolean(run.problem || run.severity)
    const only = alarms.ariaPressed === "true"
    const runs = all.filter(
      (run) => wanted.every((word) => run.label.toLowerCase().includes(word)) && (!only || isWrong(run)),
    )
    return {
      runs,
      total: all.length,
      searching: wanted.length > 0 || only,
      clock: clock(),
      value: model.value,
      over: model.over,
      colors: model.colors,
      most: model.most,
      answered: model.answered,
    }
  }
  const draw = () => {
    const shown = state(),
      scroll = tree.node.scrollTop
    search.hidden = alarms.hidden = shown.total < SEARCHABLE
    top.hidden = shown.total < 2
    count.textContent = shown.searching
      ? t("{count} of {total}", { count: shown.runs.length, total: shown.total })
      : shown.total === 1
        ? t("{count} run", { count: 1 })
        : t("{count} runs", { count: shown.total })
    tree.draw(shown)
    tree.node.scrollTop = scroll
    showTicked()
  }
  const showTicked = () => {
    compared.hidden = !model.over.length
    ticked.textContent = t("{count} compared", { count: model.over.length })
  }
  const mark = () => {
    showTicked()
    tree.mark({
      ...tree.state,
      value: model.value,
      over: model.over,
      colors: model.colors,
      most: model.most,
      answered: model.answered,
    })
  }

  search.addEventListener("input", () => {
    tree.limit = PAGE
    draw()
    tree.node.scrollTop = 0
  })
  search.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") tree.focusFirst()
    else if (event.key === "Enter" && tree.state.runs.length) {
      tree.open(tree.state.runs[0].name)
    } else if (event.key === "Escape" && search.value) {
      search.value = ""
      draw()
    } else {
      return
    }
    event.preventDefault()
  })
  clear.addEventListener("click", () => model.send_msg({ clear: true }))
  model.on("now", sync)
  model.on("runs", () => {
    sync()
    draw()
  })
  model.on("changes", () => {
    sync()
    tree.update(state())
  })
  model.on("value", () => {
    mark()
    tree.reveal()
  })
  model.on(["over", "colors"], mark)
  model.on("answered", mark)
  const timer = setInterval(() => tree.refresh(clock()), REFRESH_EVERY)
  model.on("remove", () => clearInterval(timer))
  sync()
  draw()
  requestAnimationFrame(() => tree.reveal())
  return box
}
