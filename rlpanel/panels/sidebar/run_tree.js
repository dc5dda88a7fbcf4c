// The runs as a tree: folders with entries. Arrow keys move, Enter opens, Space ticks; one entry is in the
// order of Tab. Entries of closed folders, and entries beyond the limit, have no elements.
// Entries that are drawn at first, and each time that more are asked for.
const PAGE = 300

/** Return the folder of a run's path; empty if it lies directly below the root. */
const folderOf = (run) => placeOf(run).slice(0, Math.max(0, placeOf(run).lastIndexOf("/")))

/** Return the folders with their runs, in the order of their first run; runs without a folder come first. */
function groupByFolder(runs) {
  const folders = new Map()
  if (runs.some((run) => !folderOf(run))) folders.set("", [])
  for (const run of runs) {
    const folder = folderOf(run)
    if (!folders.has(folder)) folders.set(folder, [])
    folders.get(folder).push(run)
  }
  return folders
}

class RunTree {
  /** `answered` is the number of the tick that the server answered last. */
  constructor(send, answered) {
    this.ticks = answered
    this.node = element("div", "tree")
    this.node.setAttribute("role", "tree")
    this.node.ariaLabel = t("Runs")
    this.more = element("button", "more")
    this.more.type = "button"
    this.send = send
    this.closed = new Set()
    this.entries = new Map()
    this.limit = PAGE
    this.more.addEventListener("click", () => {
      this.limit += PAGE
      this.draw(this.state)
    })
    this.node.addEventListener("click", (event) => this.onClick(event))
    this.node.addEventListener("change", (event) => this.onTick(event))
    this.node.addEventListener("keydown", (event) => this.onKey(event))
    this.node.addEventListener("focusin", (event) => this.activate(event.target.closest("[role=treeitem]")))
  }

  /** Draw the runs in `state.runs`; all folders are open while a search narrows them down. */
  draw(state) {
    this.state = state
    const focused = this.node.getRootNode().activeElement
    const refocus = focused && this.node.contains(focused)
    const drawn = new Map(),
      parts = []
    const folders = groupByFolder(state.runs)
    let left = Math.max(this.limit, 1 + state.runs.findIndex((run) => run.name === state.value))
    const level = folders.size > 1 || !folders.has("") ? 2 : 1
    for (const [folder, runs] of folders) {
      const open = state.searching || !this.closed.has(folder)
      const shown = open ? runs.slice(0, Math.max(0, left)) : []
      left -= runs.length
      if (open && !shown.length) continue
      const nodes = shown.map((run) => this.entry(run, folder ? level : 1, drawn).node)
      parts.push(...(folder ? [this.folder(folder, runs, open, nodes)] : nodes))
    }
    this.entries = drawn
    this.node.replaceChildren(...parts)
    if (!parts.length && state.searching) this.node.append(element("div", "none", t("No run matches.")))
    const rest = Math.max(0, -left)
    this.more.hidden = !rest
    this.more.textContent = rest
      ? t("{count} more of {left}", { count: Math.min(PAGE, rest), left: rest })
      : ""
    this.mark(state)
    this.activate(this.items().find((item) => item.tabIndex === 0) ?? null)
    if (refocus) {
      ;(focused.isConnected ? focused : this.active)?.focus({ preventScroll: true })
    }
  }

  entry(run, level, drawn) {
    let entry = this.entries.get(run.name)
    if (
      !entry ||
      entry.run.label !== run.label ||
      placeOf(entry.run) !== placeOf(run) ||
      entry.node.getAttribute("aria-level") !== String(level)
    ) {
      const active = entry && entry.node === this.active
      entry = new RunEntry(run, level)
      if (active) {
        this.active = entry.node
        entry.node.tabIndex = 0
      }
    }
    entry.show(run, this.state.clock)
    drawn.set(run.name, entry)
    return entry
  }

  folder(folder, runs, open, nodes) {
    const item = element("div", "folder")
    item.setAttribute("role", "treeitem")
    item.setAttribute("aria-level", 1)
    item.setAttribute("aria-expanded", open)
    item.dataset.folder = folder
    item.tabIndex = -1
    item.ariaLabel = `${shownText(folder)}, ${runs.length} ${runs.length === 1 ? "run" : "runs"}`
    item.title = shownText(folder)
    const head = element("div", "head")
    head.append(
      element("span", "arrow", open ? "▾" : "▸"),
      cutName(folder),
      element("span", "size", String(runs.length)),
    )
    const live = runs.filter(
      (run) => stateOf(run, this.state.clock.now, this.state.clock.ages).state === "live",
    )
    if (!open && live.length) head.append(element("span", "dot live"))
    const group = element("div")
    group.setAttribute("role", "group")
    group.append(...nodes)
    item.append(head, ...(nodes.length ? [group] : []))
    if (this.active?.dataset.folder === folder) {
      this.active = item
      item.tabIndex = 0
    }
    return item
  }

  /** Show entries whose facts changed. */
  update(state) {
    this.state = state
    for (const run of state.runs) this.entries.get(run.name)?.show(run, state.clock)
  }

  /** Show states and ages again, because time has passed. */
  refresh(clock) {
    this.state.clock = clock
    for (const entry of this.entries.values()) entry.refresh(clock)
  }

  /** Show which run is open, and which are ticked. Until the newest tick is answered, the server's list lacks it. */
  mark(state) {
    this.state = state
    const answered = state.answered === this.ticks
    const refused = state.over.length >= state.most ? `At most ${state.most} runs are compared` : ""
    for (const [name, entry] of this.entries) {
      const ticked = answered ? state.over.includes(name) : entry.tick.checked
      entry.mark({ selected: name === state.value, ticked, refused, color: state.colors[name] })
    }
    if (!this.active?.isConnected) this.activate(this.selected() ?? this.items()[0] ?? null)
  }

  selected() {
    return this.entries.get(this.state.value)?.node
  }

  /** Open the folder of the selected run and scroll to it. */
  reveal() {
    const run = this.state.runs.find((each) => each.name === this.state.value)
    if (run && (this.closed.delete(folderOf(run)) || !this.selected())) this.draw(this.state)
    const selected = this.selected()
    selected?.scrollIntoView({ block: "nearest" })
    if (!this.node.contains(this.node.getRootNode().activeElement)) this.activate(selected)
  }

  /** Put an item into the order of Tab, in place of the one before. */
  activate(item) {
    if (!item) return
    if (this.active && this.active !== item) this.active.tabIndex = -1
    this.active = item
    item.tabIndex = 0
  }

  items() {
    return [...this.node.querySelectorAll("[role=treeitem]")]
  }

  focusFirst() {
    this.items()
      .find((item) => item.dataset.name !== undefined)
      ?.focus()
  }

  open(name) {
    this.send({ open: name })
    window.dispatchEvent(new Event("rl-run-opened"))
  }

  toggle(folder, open = this.closed.has(folder)) {
    if (open) {
      this.closed.delete(folder)
    } else {
      this.closed.add(folder)
    }
    this.draw(this.state)
  }

  onClick(event) {
    if (event.target.closest("input")) return
    const run = event.target.closest(".run"),
      head = event.target.closest(".head")
    if (run) this.open(run.dataset.name)
    else if (head) {
      this.toggle(head.parentNode.dataset.folder)
    }
  }

  onTick(event) {
    const run = event.target.closest(".run")
    if (run) {
      this.send({ compare: run.dataset.name, on: event.target.checked, tick: ++this.ticks })
    }
  }

  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return
    const item = event.target.closest("[role=treeitem]")
    if (!item || !this.press(event.key, item, event.target)) return
    event.preventDefault()
    event.stopPropagation() // the page has shortcuts of its own for some of these keys
  }

  /** Handle a key; false if it is left to the browser. */
  press(key, item, target) {
    const items = this.items(),
      at = items.indexOf(item)
    const { name, folder } = item.dataset
    if (key === "ArrowDown") items[at + 1]?.focus()
    else if (key === "ArrowUp") {
      items[at - 1]?.focus()
    } else if (key === "Home") {
      items[0].focus()
    } else if (key === "End") {
      items.at(-1).focus()
    } else if (key === "ArrowLeft") {
      if (name !== undefined) {
        item.parentNode.closest("[role=treeitem]")?.focus()
      } else {
        this.toggle(folder, false)
      }
    } else if (key === "ArrowRight") {
      if (folder !== undefined && this.closed.has(folder)) this.toggle(folder, true)
      else if (folder !== undefined) {
        items[at + 1]?.focus()
      }
    } else if (key === "Enter") {
      if (name !== undefined) {
        this.open(name)
      } else {
        this.toggle(folder)
      }
    } else if (key === " " && target.tagName !== "INPUT") {
      if (name !== undefined) {
        item.querySelector("input").click()
      } else {
        this.toggle(folder)
      }
    } else {
      return false
    }
    return true
  }
}
