// The rows of a rollout as an indented tree with lines, like a graph of commits. Texts are set as text only.
// A row stands behind its parent. The only child that goes on stays in its parent's lane: a chain does not wander.

/** Most lanes that are drawn; deeper rows stand in the last one. */
const LANES = 12

/** Kinds that go on where their parent ended. */
const GOES_ON = new Set(["turn", "compaction"])

/** Return for each node its lane, its parent's lane, and the lanes of lines that pass it. */
function laneOf(nodes) {
  const place = new Map(nodes.map((node, at) => [node.uid, at]))
  const parents = nodes.map((node) => place.get(node.parent) ?? -1)
  const children = nodes.map(() => [])
  for (const [at, parent] of parents.entries()) if (parent >= 0) children[parent].push(at)
  const lanes = []
  const ends = [] // of each lane with an open line: the row in which it ends
  return nodes.map((_, at) => {
    const parent = parents[at]
    const below = children[at]
    const above = parent < 0 ? 0 : lanes[parent]
    const isOnly = parent >= 0 && children[parent].length === 1 && GOES_ON.has(nodes[at].kind)
    const lane = Math.min(parent < 0 ? 0 : isOnly ? above : above + 1, LANES - 1)
    lanes.push(lane)
    const passing = new Set([...ends.keys()].filter((k) => k !== lane && (ends[k] ?? -1) > at))
    const isLast = !isOnly && parent >= 0 && children[parent].at(-1) === at
    const goesOn = below.length === 1 && GOES_ON.has(nodes[below[0]].kind)
    if (below.length && !goesOn && lane < LANES - 1) ends[lane] = below.at(-1)
    return { lane, above, isOnly, isLast, passing, parent, hasBelow: below.length > 0 }
  })
}

function guides({ lane, above, isOnly, isLast, passing, parent, hasBelow }, kind) {
  const box = element("span", "guides")
  box.setAttribute("aria-hidden", "true")
  for (let k = 0; k <= lane; k++) {
    const cell = element("i", "lane")
    if (passing.has(k) && k !== above) cell.classList.add("passes")
    if (k === above && parent >= 0 && !isOnly && k < lane) cell.classList.add("passes", "elbow")
    if (k === above && isLast && k < lane) cell.classList.add("ends")
    if (k === lane) {
      cell.classList.add("dot", kind)
      if (isOnly) cell.classList.add("from-above")
      if (hasBelow) cell.classList.add("to-below")
    }
    box.append(cell)
  }
  return box
}

const count = (value) => (value === null ? "" : value.toLocaleString("en-US"))

function tokenBar(node, most) {
  const cell = element("span", "tokens")
  if (node.tokens === null) return cell
  const bar = element("i", "bar")
  const own = element("b")
  bar.style.width = `${Math.max(2, (100 * node.tokens) / Math.max(most, 1))}%`
  own.style.width = `${node.tokens ? (100 * (node.trained ?? 0)) / node.tokens : 0}%`
  bar.append(own)
  const words = node.trained === null ? count(node.tokens) : `${count(node.trained)} / ${count(node.tokens)}`
  const track = element("span", "track")
  track.append(bar)
  cell.append(track, element("span", "", words))
  return cell
}

function rowOf(node, place, kinds, most) {
  const row = element("button", "node")
  row.type = "button"
  row.dataset.uid = node.uid
  const name = element("span", "name")
  name.append(
    element("span", `kind ${node.kind}`, kinds[node.kind] ?? node.kind),
    element("strong", "", shownText(node.name)),
  )
  if (node.agent) name.append(element("span", "agent", shownText(node.agent)))
  if (node.status) name.append(element("span", "status", shownText(node.status)))
  if (node.text) name.append(element("span", "text", shownText(node.text)))
  for (const link of node.links) name.append(element("span", "link", shownText(link)))
  row.append(
    guides(place, node.kind),
    name,
    element("span", "turns", node.turns === null ? "" : count(node.turns)),
    tokenBar(node, most),
    element("span", "reward", node.reward),
    element(
      "span",
      `advantage ${node.advantage.startsWith("−") || node.advantage.startsWith("-") ? "bad" : ""}`,
      node.advantage,
    ),
    element("span", "seconds", node.seconds),
  )
  row.title = [
    `${kinds[node.kind] ?? node.kind} ${shownText(node.name)}`,
    node.shared ? t("shares {count} messages with its parent", { count: count(node.shared) }) : "",
    node.inferred ? t("placed by the messages that it shares; the log names no parent") : "",
    shownText(node.reason),
    ...node.links.map(shownText),
  ]
    .filter(Boolean)
    .join(" · ")
  return row
}

/**
 * Return for each row whether it is `ahead` of the playhead, runs `now`, or is `past`; an empty text for a row without
 * times, and nothing without a replay of this episode. Without times of the rows, the row whose turns are replayed is
 * `now`, and what it asks for in later turns is `ahead`.
 */
function statesOf(nodes, score, playhead) {
  const { moment } = playhead
  if (score.shown && placeIn(score, playhead) !== null && moment !== null)
    return nodes.map(({ start, took }) => {
      if (!start) return ""
      if (moment < start - 1e-3) return "ahead"
      return moment <= start + (took ?? 0) + 1e-3 ? "now" : "past"
    })
  const played = playhead.score?.turns ? nodes.findIndex(({ uid }) => uid === playhead.score.uid) : -1
  if (played < 0) return []
  const turn = playhead.score.turns[playhead.count - 1] ?? 0
  const states = new Map()
  for (const { uid, parent, asked } of nodes) {
    const isLater = parent === nodes[played].uid && asked > turn
    states.set(uid, isLater || states.get(parent) === "ahead" ? "ahead" : "")
  }
  states.set(nodes[played].uid, "now")
  return nodes.map(({ uid }) => states.get(uid))
}

function headOf() {
  const row = element("div", "heads")
  const names = [t("Row"), t("turns"), t("trained / tokens"), t("reward"), t("advantage"), "s"]
  row.append(...names.map((name, at) => element("span", at ? "number" : "", name)))
  row.setAttribute("aria-hidden", "true")
  return row
}

export function render({ model }) {
  const root = element("div", "tree")
  const head = element("div", "head")
  const list = element("nav", "list")
  list.setAttribute("aria-label", t("Tree of the rollout"))
  let rows = []
  const said = element("p", "remark replay-said")

  /** Mark the rows that run at the playhead, and dim those that have not begun. */
  const stand = () => {
    const states = statesOf(model.nodes, model.score, pagePlayhead())
    for (const [at, row] of rows.entries()) {
      if (states[at]) row.dataset.replay = states[at]
      else delete row.dataset.replay
    }
    const isPlain = !model.score.shown && model.nodes.length > 0
    said.hidden = !(isPlain && model.nodes.length > 1)
    said.textContent = states.length
      ? t("The replay of the open row is followed by turn: the log has no times of the rows.")
      : t(
          "Replay: open the conversation of a row. The log has no times of the rows, so the tree follows its turns.",
        )
  }

  const transport = new Transport({
    begin: () => 0,
    moved: () => stand(),
    isInSight: () => root.offsetHeight > 0,
  })
  root.append(head, transport.toggle, transport.root, said, list)

  const mark = () => {
    for (const row of rows) {
      const isChosen = row.dataset.uid === model.chosen
      row.ariaCurrent = isChosen ? "true" : null
      row.tabIndex = isChosen ? 0 : -1
    }
    if (rows.length && !rows.some((row) => row.tabIndex === 0)) rows[0].tabIndex = 0
  }

  const draw = () => {
    const { summary = "", remarks = [], kinds = {} } = model.head
    head.replaceChildren(element("p", "summary", summary))
    for (const remark of remarks) head.append(element("p", "remark", shownText(remark)))
    const places = laneOf(model.nodes)
    const most = Math.max(0, ...model.nodes.map(({ tokens }) => tokens ?? 0))
    rows = model.nodes.map((node, at) => rowOf(node, places[at], kinds, most))
    list.replaceChildren(...(rows.length ? [headOf(), ...rows] : []))
    mark()
    stand()
  }

  list.addEventListener("click", (event) => {
    const row = event.target.closest(".node")
    if (row) model.send_msg(row.dataset.uid)
  })
  list.addEventListener("keydown", (event) => {
    const at = rows.indexOf(event.target.closest(".node"))
    if (at < 0) return
    const parent = rows.findIndex((row) => row.dataset.uid === model.nodes[at].parent)
    const child = model.nodes.findIndex((node) => node.parent === model.nodes[at].uid)
    const next = {
      ArrowDown: at + 1,
      ArrowUp: at - 1,
      ArrowLeft: parent,
      ArrowRight: child,
      Home: 0,
      End: rows.length - 1,
    }[event.key]
    if (next === undefined) return
    event.preventDefault()
    event.stopPropagation()
    rows[next]?.focus()
  })
  model.on("nodes", draw)
  model.on("head", draw)
  model.on("chosen", mark)
  model.on("score", () => transport.show(model.score))
  model.on("remove", () => transport.destroy())
  draw()
  transport.show(model.score)
  return root
}
