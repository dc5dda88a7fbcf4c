// Outline of a conversation's turns: number, hits, tools, seconds, errors and reward. Turns of which nothing is to be
// said are summed; a click or the arrow keys go to a turn.

/** Fewest turns that have an outline. */
const FEWEST_TURNS = 3

const emptyTurn = (turn) => ({
  turn,
  tools: [],
  seconds: 0,
  errors: 0,
  hits: 0,
  reward: 0,
  text: turn ? "" : t("given"),
})

/** A turn: the policy's message with what follows it up to its next one; turn 0 is what is given. */
function turnsOf(messages, hits) {
  const found = new Map()
  for (const [message] of hits) found.set(message, (found.get(message) ?? 0) + 1)
  const turns = []
  for (const message of messages) {
    const { block, index } = message
    if (block.turn) turns.push(emptyTurn(block.turn))
    else if (!turns.length) turns.push(emptyTurn(0))
    const turn = turns.at(-1)
    turn.errors += message.errors.length
    turn.hits += found.get(index) ?? 0
    turn.seconds += block.took ?? 0
    if (block.turn) {
      turn.reward = block.worth ?? 0
      turn.text = (block.text ?? block.reasoning)?.text.trim().slice(0, 60) ?? ""
    }
    for (const { name, result } of block.calls ?? []) {
      turn.tools.push(name)
      turn.seconds += result?.took ?? 0
    }
  }
  return turns
}

/** Return runs of turns that are summed, and the others alone. */
function runsOf(turns) {
  const runs = []
  for (const [k, turn] of turns.entries()) {
    const plain = !turn.errors && !turn.hits && !turn.reward && turn.turn > 1 && k < turns.length - 1
    const before = runs.at(-1)
    if (plain && before?.plain) before.turns.push(turn)
    else runs.push({ plain, turns: [turn] })
  }
  return runs.map((run) => run.turns)
}

/** Words for tools: each once with its number of calls, the most frequent first. */
function toolWords(names) {
  const counts = new Map()
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1)
  const sorted = [...counts].sort((a, b) => b[1] - a[1])
  return sorted.map(([name, count]) => (count > 1 ? `${name} ×${count}` : name)).join(", ")
}

const secondsText = (seconds) => (seconds ? seconds.toFixed(seconds < 100 ? 1 : 0) : "")

class TurnOutline {
  /** `go` shows a turn. */
  constructor({ go }) {
    this.go = go
    this.root = element("nav", "outline")
    this.root.setAttribute("aria-label", t("Turns"))
    this.head = element("div", "outline-head")
    this.chips = element("div", "outline-chips")
    this.list = element("div", "rows")
    this.root.append(this.head, this.chips, this.list)
    this.toggle = button("turns-toggle", "", t("Show or hide the outline of turns"), () =>
      this.open(!this.isOpen),
    )
    this.filter = "all"
    this.opened = new Set()
    this.root.addEventListener("keydown", (event) => this.#onKey(event))
  }

  get isOpen() {
    return this.root.classList.contains("open")
  }

  /** Show or hide the outline where it is a drawer. */
  open(isOpen) {
    this.root.classList.toggle("open", isOpen)
    this.toggle.setAttribute("aria-expanded", isOpen)
    if (isOpen) this.rows.find(({ node }) => node.ariaCurrent)?.node.focus()
  }

  show(messages, hits) {
    this.turns = turnsOf(messages, hits)
    this.opened.clear()
    this.current = 0
    const counts = this.#counts
    this.root.hidden = counts.all < FEWEST_TURNS
    this.toggle.hidden = this.root.hidden
    if (!counts[this.filter]) this.filter = "all"
    this.#drawHead(counts)
    this.#drawRows()
  }

  /** Mark the turn in sight. */
  select(number) {
    if (number === this.current) return
    this.current = number
    this.#mark()
  }

  /** Dim the turns that a replay has not come to. */
  veil(turn) {
    this.reached = turn
    for (const { turns, node } of this.rows ?? []) node.classList.toggle("ahead", turns[0].turn > turn)
  }

  get #counts() {
    const sum = (key) => this.turns.reduce((total, turn) => total + (key(turn) || 0), 0)
    return {
      all: this.turns.filter(({ turn }) => turn).length,
      errors: sum(({ errors }) => errors),
      hits: sum(({ hits }) => hits),
      reward: sum(({ reward }) => (reward ? 1 : 0)),
    }
  }

  #drawHead(counts) {
    const seconds = this.turns.reduce((sum, turn) => sum + turn.seconds, 0)
    const words = [
      counts.errors === 1 ? t("1 error") : counts.errors ? t("{count} errors", { count: counts.errors }) : "",
      seconds ? `${secondsText(seconds)} s` : "",
    ]
    this.toggle.textContent = t("Turns {count}", { count: counts.all })
    this.head.replaceChildren(
      element("b", "", t("Turns {count}", { count: counts.all })),
      element("span", "quiet", words.filter(Boolean).join(", ")),
    )
    const names = {
      all: t("all"),
      errors: t("! errors {count}", { count: counts.errors }),
      hits: t("hits {count}", { count: counts.hits }),
      reward: t("reward ≠ 0"),
    }
    const shown = Object.keys(names).filter((name) => counts[name])
    this.chips.hidden = shown.length < 2
    this.chips.replaceChildren(
      ...shown.map((name) => {
        const chip = button("outline-chip", names[name], "", () => {
          this.filter = name
          this.#drawHead(counts)
          this.#drawRows()
        })
        chip.dataset.filter = name
        chip.classList.toggle("chosen", name === this.filter)
        chip.setAttribute("aria-pressed", name === this.filter)
        return chip
      }),
    )
  }

  #drawRows() {
    const passes = {
      all: () => true,
      errors: ({ errors }) => errors,
      hits: ({ hits }) => hits,
      reward: ({ reward }) => reward,
    }[this.filter]
    const runs = this.filter === "all" ? runsOf(this.turns) : this.turns.filter(passes).map((turn) => [turn])
    const shown = runs.flatMap((run) => (this.opened.has(run[0].turn) ? run.map((turn) => [turn]) : [run]))
    const most = Math.max(...this.turns.map(({ reward }) => Math.abs(reward)), 0)
    const timed = this.turns.some(({ seconds }) => seconds)
    this.root.classList.toggle("timed", timed)
    this.root.classList.toggle("rewarded", most > 0)
    this.rows = shown.map((turns) => ({ turns, node: this.#row(turns, most) }))
    this.list.replaceChildren(...this.rows.map(({ node }) => node))
    this.veil(this.reached ?? Number.POSITIVE_INFINITY)
    this.#mark()
  }

  #row(turns, most) {
    const [first] = turns
    const last = turns.at(-1)
    const isSum = turns.length > 1
    const node = button(isSum ? "row sum" : "row", "", "", () => {
      if (isSum) {
        this.opened.add(first.turn)
        this.#drawRows()
      }
      this.go(first.turn)
    })
    const sum = (key) => turns.reduce((total, turn) => total + turn[key], 0)
    const tools = toolWords(turns.flatMap((turn) => turn.tools))
    const [seconds, errors, hits] = [sum("seconds"), sum("errors"), sum("hits")]
    const parts = [
      element("span", "turn", isSum ? `${first.turn}–${last.turn}` : first.turn ? String(first.turn) : "–"),
      element("span", "found", hits ? "▮" : ""),
      element("span", tools ? "tools" : "tools quiet", tools || first.text),
      element("span", "seconds", secondsText(seconds)),
      element("span", "failed", errors ? "!" : ""),
      first.reward ? rewardBar(first.reward, most) : element("span", "reward-bar"),
    ]
    node.append(...parts)
    node.title = [
      isSum
        ? t("turns {first} to {last}", { first: first.turn, last: last.turn })
        : first.turn
          ? t("turn {turn}", { turn: first.turn })
          : t("given"),
      tools,
      seconds ? `${secondsText(seconds)} s` : "",
      errors === 1 ? t("1 error") : errors ? t("{count} errors", { count: errors }) : "",
      hits ? hitWords(hits) : "",
      first.reward ? t("reward {reward}", { reward: first.reward }) : "",
    ]
      .filter(Boolean)
      .join(" · ")
    node.ariaLabel = node.title
    return node
  }

  /** Mark the row of the turn in sight and keep it in view; the arrow keys start there. */
  #mark() {
    const chosen = this.rows.find(
      ({ turns }) => turns[0].turn <= this.current && turns.at(-1).turn >= this.current,
    )
    const start = chosen ?? this.rows[0]
    for (const row of this.rows) {
      row.node.ariaCurrent = row === chosen ? "true" : null
      row.node.tabIndex = row === start ? 0 : -1
    }
    if (!chosen) return
    const { offsetTop, offsetHeight } = chosen.node
    const { scrollTop, clientHeight } = this.list
    const margin = 2 * offsetHeight
    if (offsetTop - margin < scrollTop) this.list.scrollTop = offsetTop - margin
    else if (offsetTop + offsetHeight + margin > scrollTop + clientHeight)
      this.list.scrollTop = offsetTop + offsetHeight + margin - clientHeight
  }

  #onKey(event) {
    if (event.key === "Escape" && this.isOpen) {
      event.stopPropagation()
      this.open(false)
      this.toggle.focus()
      return
    }
    const at = this.rows.findIndex(({ node }) => node === event.target)
    const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: this.rows.length - 1 }[event.key]
    const row = at < 0 ? undefined : this.rows[next]
    if (!row) return
    event.preventDefault()
    event.stopPropagation()
    row.node.focus({ preventScroll: true })
    this.go(row.turns[0].turn)
  }
}
