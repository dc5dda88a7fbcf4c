// The table of all runs. The server sorts and filters; only the lines in sight have elements.
// Lines above and below those in sight that have elements, too.
const SPARE = 8
// Milliseconds for which a table under a moving pointer keeps its order: nobody clicks a line that jumps away.
const HOLD = 2000
// Milliseconds after the last letter until a filter is sent.
const PAUSE = 200
const COLORS = [
  "--rl-policy",
  "--rl-reference",
  "--rl-kl",
  "--rl-length",
  "--rl-entropy",
  "--rl-bad",
  "--rl-good",
  "--rl-text",
  "--rl-muted",
]

const TIPS = {
  kl: t("Mean KL k3 per token at the last step"),
  length: t("Mean tokens of a response at the last step, or characters without tokens"),
  best: t("Highest mean reward of a step: the highest of many noisy ones"),
  tokens: t("Tokens of all responses"),
  hours: t("Hours from the first line to the last one, with pauses"),
  gpu_hours: t("Hours times the number of GPUs in the configuration"),
}

export function render({ model, el }) {
  const box = element("section", "runs")
  box.ariaLabel = t("All runs")
  const send = (message, urgent = true) => {
    if (urgent) own = true
    model.send_msg(message)
  }
  let own = false // whether the next order is the answer to what the viewer did

  // -- above the table
  const filter = element("input", "filter")
  Object.assign(filter, {
    type: "search",
    placeholder: t("words, or lr > 1e-6 and kl < 0.1"),
    ariaLabel: t("Filter runs"),
    title: t(
      "Words of the path, or conditions on run, state, finding, step, reward, kl, length, onset and settings",
    ),
    spellcheck: false,
  })
  const chips = element("div", "chips")
  chips.setAttribute("role", "group")
  chips.ariaLabel = t("Show only runs")
  const count = element("span", "count")
  count.setAttribute("role", "status")
  const folders = button("switch", t("folders"), t("Group runs by folder"), () =>
    send({ folders: !model.folders }),
  )
  const groups = element("select", "groups")
  groups.ariaLabel = t("Group runs by a setting")
  groups.addEventListener("change", () => send({ group: groups.value }))
  const switchAxes = button(
    "switch",
    t("axes"),
    t("Settings and numbers as parallel axes; drag to filter"),
    () => send({ axes: !model.axes }),
  )
  const close = button("switch back", t("back to the run"), "", () => send({ close: true }))
  const progress = element("span", "progress")
  progress.title = t("Runs are checked while the server is idle, the newest first")
  const bar = element("progress")
  const said = element("span")
  progress.append(said, bar)
  const error = element("div", "error")
  error.setAttribute("role", "alert")
  const top = element("div", "top")
  top.append(filter, chips, folders, groups, switchAxes, count, progress, close)
  const parallel = axesFigure(send)
  const drawAxes = () => parallel.draw(model.coordinates, model.ticked, COLORS)

  // -- the table
  const head = element("div", "line head")
  head.setAttribute("role", "row")
  const canvas = element("div", "canvas")
  const scroller = element("div", "scroller")
  Object.assign(scroller, { tabIndex: 0, role: "grid", ariaLabel: t("Runs") })
  scroller.append(head, canvas)
  const foot = element("div", "foot")
  box.append(top, error, parallel.box, scroller, foot)

  let runs = new Map()
  let lines = []
  let drawn = new Map()
  let columns = [] // settings that have room
  let means = [] // numbers that a run has
  let active = 0
  let tops = [0] // of each line, and the height of all

  const keyOf = (line) =>
    typeof line === "string"
      ? `run ${line}`
      : line.rest !== undefined
        ? `rest ${line.rest}`
        : `folder ${line.folder}`
  // Below a setting, runs of several folders stand together, so each shows its whole path.
  const grouped = () => !model.group && lines.some((line) => typeof line !== "string")

  /** Return the position of the line at a height. */
  const lineOf = (y) => {
    let low = 0
    let high = lines.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (tops[middle + 1] <= y) low = middle + 1
      else high = middle
    }
    return low
  }

  const draw = () => {
    const first = Math.max(0, lineOf(scroller.scrollTop) - SPARE)
    const last = Math.min(lines.length, lineOf(scroller.scrollTop + scroller.clientHeight) + SPARE)
    const view = { settings: columns, means, grouped: grouped(), ticked: model.ticked }
    const now = new Map()
    for (let at = first; at < last; at += 1) {
      const line = lines[at]
      const key = keyOf(line)
      const content = typeof line === "string" ? runs.get(line) : line
      if (!content) continue
      const shape = JSON.stringify([
        columns,
        means,
        view.grouped,
        view.ticked.includes(line),
        typeof line === "string" || line,
      ])
      let entry = drawn.get(key)
      if (!entry || entry.content !== content || entry.shape !== shape) {
        const made =
          typeof line === "string"
            ? runLine(line && content, view)
            : line.rest !== undefined
              ? restLine(line)
              : folderLine(line)
        entry?.node.remove()
        entry = { node: made, content, shape }
        canvas.append(made)
      }
      entry.node.style.top = `${tops[at]}px`
      entry.node.id = `line-${at}`
      entry.node.setAttribute("aria-rowindex", at + 2)
      entry.node.classList.toggle("active", at === active)
      entry.node.dataset.at = at
      now.set(key, entry)
    }
    for (const [key, entry] of drawn) {
      if (now.get(key) !== entry) entry.node.remove()
    }
    canvas.querySelector(".none")?.remove()
    if (!lines.length) canvas.append(element("div", "none", t("No run matches.")))
    drawn = now
    scroller.setAttribute("aria-activedescendant", `line-${active}`)
  }

  // -- columns and their widths
  const widthOf = (name) => {
    let longest = name.length + 2
    for (const run of runs.values()) longest = Math.max(longest, (run.settings[name] ?? "").length)
    return Math.min(120, Math.max(44, 7.4 * longest + 14))
  }
  const layout = () => {
    const width = box.clientWidth || 1200
    const isWide = width >= 1000
    box.dataset.size = width < 660 ? "narrow" : isWide ? "wide" : "medium"
    const wanted = model.facts.settings ?? []
    let longest = 0
    for (const run of runs.values()) {
      const shown = grouped() ? run.place.slice(run.place.lastIndexOf("/") + 1) : run.place
      longest = Math.max(longest, shown.length)
    }
    const name = Math.min(isWide ? 340 : 220, Math.max(130, 7.8 * longest + 18))
    const known = (key) => [...runs.values()].some((run) => run[key] !== undefined)
    means = isWide ? ["kl", "length"].filter(known) : []
    let room = isWide ? width - 784 - name - 70 * means.length : 0
    columns = []
    const widths = []
    for (const name of wanted) {
      const own = widthOf(name)
      room -= own
      if (room < 0) break
      columns.push(name)
      widths.push(`${own}px`)
    }
    // What is left is for the cost and the best reward, before the sentence grows.
    const costs = []
    for (const key of isWide && room > 0 ? ["best", "tokens", "gpu_hours", "hours"].filter(known) : []) {
      if (key === "hours" && means.includes("gpu_hours")) continue
      room -= 96
      if (room < 120) break
      means.push(key)
      costs.push(key)
    }
    const grids = {
      narrow: "34px 22px minmax(90px, 1fr) 64px 118px",
      medium: `34px 22px ${name}px 58px 84px 108px minmax(120px, 1fr) 70px`,
      wide: [
        "34px 22px",
        `${name}px`,
        "62px 112px 118px",
        ...means.map((key) => (costs.includes(key) ? "96px" : "70px")),
        ...widths,
        "minmax(200px, 1fr) 78px",
      ].join(" "),
    }
    box.style.setProperty("--grid", grids[box.dataset.size])
    const tall = box.dataset.size === "narrow" ? 58 : 30
    tops = [0]
    for (const line of lines) tops.push(tops.at(-1) + (typeof line === "string" ? tall : 30))
    canvas.style.height = `${tops[lines.length]}px`
    drawHead()
    draw()
  }

  const column = (className, key, title, tip) => {
    const node = element("span", `cell ${className}`)
    node.setAttribute("role", "columnheader")
    if (!key) {
      node.append(title)
      return node
    }
    const [sorted, falls] = model.sort
    const isSorted = sorted === key
    node.setAttribute("aria-sort", isSorted ? (falls ? "descending" : "ascending") : "none")
    const mark = isSorted ? (falls ? " ▾" : " ▴") : ""
    node.append(
      button("sort", title + mark, tip ?? t("Sort by {column}", { column: title }), () =>
        send({ sort: key }),
      ),
    )
    return node
  }
  const drawHead = () => {
    const titles = new Map(model.facts.numbers ?? [])
    const further = model.facts.further ?? []
    const hidden = [...(model.facts.settings ?? []).slice(columns.length), ...further]
    const name = column("name", "run", t("run"))
    if (hidden.length) {
      const more = element("span", "more", ` +${hidden.length}`)
      more.title = t("They also differ in {settings}: in each name's tooltip, and for the filter", {
        settings: hidden.join(", "),
      })
      name.append(more)
    }
    head.replaceChildren(
      column("tick", "", ""),
      column("state", "", ""),
      name,
      column("num col-step", "step", titles.get("step") ?? ""),
      column("graph", "", t("trend, from 0")),
      column("reward", "reward", titles.get("reward") ?? ""),
      ...means.map((key) => column("num col-mean", key, titles.get(key) ?? "", TIPS[key])),
      ...columns.map((key) => column("num col-setting", key, shownText(key))),
      column("said", "finding", t("worst finding")),
      column("num col-onset", "onset", t("from step")),
    )
  }

  // -- what the server sent
  const take = () => {
    const changes = new Map(model.changes.map((run) => [run.name, run]))
    runs = new Map(model.rows.map((run) => [run.name, changes.get(run.name) ?? run]))
  }
  const order = () => {
    held = 0
    own = false
    const at = lines[active] && keyOf(lines[active])
    lines = model.lines
    scroller.setAttribute("aria-rowcount", lines.length + 1)
    const moved = lines.findIndex((line) => keyOf(line) === at)
    active = moved >= 0 ? moved : Math.min(active, Math.max(0, lines.length - 1))
    layout()
  }
  let held = 0
  let pointed = -Infinity
  const orderLater = () => {
    const still = own ? 0 : pointed + HOLD - performance.now()
    if (still <= 0) order()
    else if (!held) {
      held = setTimeout(() => {
        held = 0
        orderLater()
      }, still)
    }
  }
  const facts = () => {
    const { facts } = model
    chips.replaceChildren(
      ...(facts.chips ?? []).map(([key, title, number]) => {
        const chip = button("chip", title, "", () => send({ chip: key }))
        chip.append(element("b", "", ` ${number}`))
        chip.ariaPressed = model.chips.includes(key)
        return chip
      }),
    )
    folders.ariaPressed = model.folders && !model.group
    switchAxes.ariaPressed = model.axes
    const options = facts.groups ?? []
    groups.hidden = !options.length
    groups.replaceChildren(
      new Option(t("group by …"), ""),
      ...options.map((name) => new Option(t("by {setting}", { setting: shownText(name) }), name)),
    )
    groups.value = model.group
    close.hidden = !model.back
    count.textContent =
      facts.shown === facts.total
        ? t("{count} runs", { count: (facts.total ?? 0).toLocaleString("en-US") })
        : t("{count} of {total} runs", { count: facts.shown, total: facts.total })
    const left = (facts.total ?? 0) - (facts.checked ?? 0)
    progress.hidden = !left
    said.textContent = t("checked {count} of {total}", { count: facts.checked, total: facts.total })
    Object.assign(bar, { max: facts.total || 1, value: facts.checked || 0 })
    error.textContent = [facts.error, facts.cut].filter(Boolean).join(" · ")
    drawFoot()
  }
  const drawFoot = () => {
    const { ticked } = model
    foot.hidden = !ticked.length
    if (!ticked.length) return
    const names = element("div", "names")
    ticked.forEach((name, at) => {
      const run = runs.get(name)
      const shown = element("span", "", shownText((run?.place ?? name).replace(/^.*\//, "")))
      const swatch = element("span", "swatch")
      swatch.style.background = `var(${COLORS[at % COLORS.length]})`
      names.append(swatch, shown)
    })
    const differ = model.facts.differ ?? []
    const words = differ
      .slice(0, 6)
      .map(
        ([name, values]) =>
          `${shownText(name)} (${values.map((value) => shownText(value) || "–").join(", ")})`,
      )
      .join(", ")
    const about = element(
      "div",
      "about",
      ticked.length < 2
        ? t("Tick further runs to compare them")
        : words
          ? t("differ in {settings}", { settings: words })
          : t("No setting is known in which they differ"),
    )
    const texts = element("div", "texts")
    texts.append(names, about)
    const overlay = button("act first", ticked.length > 1 ? t("Overlay curves") : t("Open"), "", () =>
      send({ overlay: true }),
    )
    const compare = button("act", t("Compare prompts"), t("The same prompts in two runs"), () =>
      send({ compare: true }),
    )
    compare.disabled = ticked.length !== 2
    if (compare.disabled) compare.title = t("Tick two runs")
    const clear = button("act", t("clear"), t("Untick all runs"), () => send({ clear: true }))
    foot.replaceChildren(
      overlaid(ticked.map((name) => runs.get(name)).filter(Boolean)),
      texts,
      overlay,
      compare,
      clear,
    )
  }
  const overlaid = (shown) => {
    const svg = svgElement("svg", {
      viewBox: "0 0 100 100",
      preserveAspectRatio: "none",
      "aria-hidden": "true",
    })
    svg.classList.add("overlaid")
    const all = shown.flatMap((run) => run.trend)
    const most = Math.max(...shown.map((run) => run.last ?? 1), 1)
    shown.forEach((run, at) => {
      if (run.trend.length < 2) return
      const points = pointsOf(
        run.trend,
        all,
        (100 * (run.first ?? 0)) / most,
        (100 * (run.last ?? most)) / most,
      )
      const line = svgElement("polyline", { points })
      line.style.stroke = `var(${COLORS[at % COLORS.length]})`
      svg.append(line)
    })
    return svg
  }

  // -- what the viewer does
  const lineAt = (event) => lines[Number(event.target.closest(".line")?.dataset.at)]
  const open = (line) => {
    if (typeof line === "string") send({ open: line })
    else send({ toggle: line.rest !== undefined ? `+${line.rest}` : line.folder })
  }
  const tick = (name) => send({ tick: name, on: !model.ticked.includes(name) }, false)
  canvas.addEventListener("click", (event) => {
    const line = lineAt(event)
    if (line === undefined || event.target.closest("label")) return
    active = lines.indexOf(line)
    open(line)
  })
  canvas.addEventListener("change", (event) => tick(lineAt(event)))
  canvas.addEventListener("pointermove", () => {
    pointed = performance.now()
  })
  canvas.addEventListener("pointerleave", () => {
    pointed = -Infinity
    if (held) {
      clearTimeout(held)
      order()
    }
  })
  scroller.addEventListener("scroll", () => requestAnimationFrame(draw))
  const go = (at) => {
    active = Math.max(0, Math.min(lines.length - 1, at))
    const room = scroller.clientHeight - head.offsetHeight
    if (tops[active] < scroller.scrollTop) scroller.scrollTop = tops[active]
    else if (tops[active + 1] > scroller.scrollTop + room) scroller.scrollTop = tops[active + 1] - room
    draw()
  }
  const press = (key) => {
    box.classList.add("keys")
    const page = Math.max(1, Math.floor(scroller.clientHeight / 30) - 2)
    const moves = {
      ArrowDown: 1,
      ArrowUp: -1,
      j: 1,
      k: -1,
      PageDown: page,
      PageUp: -page,
      Home: -1e9,
      End: 1e9,
    }
    const line = lines[active]
    if (key in moves) go(active + moves[key])
    else if (line === undefined) return false
    else if (key === "Enter") open(line)
    else if (key === " " && typeof line === "string") tick(line)
    else if (key === " ") open(line)
    else if ((key === "ArrowLeft" || key === "ArrowRight") && typeof line !== "string") {
      if (line.open === (key === "ArrowLeft")) open(line)
    } else return false
    return true
  }
  scroller.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target !== scroller || !press(event.key))
      return
    event.preventDefault()
    event.stopPropagation() // the page has shortcuts of its own for some of these keys
  })
  box.addEventListener("pointerdown", () => box.classList.remove("keys"))
  let waiting = 0
  filter.addEventListener("input", () => {
    clearTimeout(waiting)
    waiting = setTimeout(() => send({ text: filter.value }), PAUSE)
  })
  filter.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "Enter") {
      event.preventDefault()
      scroller.focus()
    }
  })
  // The page's own shortcut leads to the search of samples, which the table covers.
  const onKey = (event) => {
    const typing = event.composedPath().some((node) => node.matches?.("input, textarea, select"))
    if (!model.active || typing || event.ctrlKey || event.metaKey || event.altKey) return
    if (event.key === "/" || event.key === "f") {
      event.preventDefault()
      event.stopImmediatePropagation()
      filter.focus()
    } else if (event.target === document.body && press(event.key)) {
      event.preventDefault()
      event.stopImmediatePropagation()
    }
  }
  window.addEventListener("keydown", onKey, true)

  // The list of runs beside the table would say the same, so it makes room while the table is open.
  const page = () => outermostHost(el)
  const makeRoom = () => {
    if (model.active) page()?.style.setProperty("--rl-side", "none")
    else page()?.style.removeProperty("--rl-side")
    page()?.style.setProperty("--rl-side-position", model.active ? "absolute" : "")
    window.dispatchEvent(new Event("resize")) // Bokeh measures its plots again
    if (model.active) layout()
  }

  let drawnAt = 0
  const seen = new ResizeObserver(() => {
    layout()
    if (drawnAt !== box.clientWidth) drawAxes()
    drawnAt = box.clientWidth
  })
  seen.observe(box)
  model.on("rows", () => {
    take()
    orderLater()
  })
  model.on("changes", () => {
    take()
    draw()
    drawFoot()
  })
  model.on("lines", orderLater)
  model.on(["coordinates", "axes"], drawAxes)
  model.on(["facts", "chips", "folders", "group", "axes", "back"], () => {
    facts()
    layout()
  })
  model.on("ticked", () => {
    drawAxes()
    facts()
    draw()
  })
  model.on("sort", drawHead)
  model.on("text", () => {
    if (document.activeElement !== filter && box.getRootNode().activeElement !== filter)
      filter.value = model.text
  })
  model.on("active", makeRoom)
  model.on("after_render", makeRoom)
  model.on("remove", () => {
    seen.disconnect()
    window.removeEventListener("keydown", onKey, true)
  })
  filter.value = model.text
  take()
  lines = model.lines
  facts()
  drawAxes()
  layout()
  return box
}
