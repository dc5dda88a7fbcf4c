// Hits of a search, errors, rewards that are not zero, calls of tools and new plans: buttons and keys lead from one to the next.

const STOPS = {
  hit: { key: "n", next: t("Next hit (n)"), before: t("Previous hit (N)"), name: t("hit") },
  error: { key: "e", next: t("Next error (e)"), before: t("Previous error (E)"), name: t("error") },
  reward: {
    key: "r",
    next: t("Next turn whose reward is not zero (r)"),
    before: t("Previous turn whose reward is not zero (R)"),
    name: t("reward"),
  },
  tool: {
    key: "t",
    next: t("Next call of the tool (t)"),
    before: t("Previous call of the tool (T)"),
    name: t("call"),
  },
  plan: {
    key: "p",
    next: t(
      "Next new plan (p): a turn of which a sentence begins with words such as Wait, Actually or Let me try another, or which calls none of the tools of the three turns before",
    ),
    before: t("Previous new plan (P)"),
    name: t("new plan"),
  },
}

class TurnStops {
  /** `go` shows a stop; `current` returns the message in sight, or -1 for the very beginning. */
  constructor({ go, current }) {
    this.root = element("div", "stops")
    this.go = go
    this.current = current
    this.words = element("span", "quiet")
    this.lists = { hit: [], error: [], reward: [], tool: [], plan: [] }
    this.tools = element("select", "tool-choice")
    this.tools.title = t("Tool whose calls are gone through")
    this.tools.setAttribute("aria-label", this.tools.title)
    this.tools.addEventListener("change", () => {
      this.#chooseTool()
      this.last = null
      this.#draw()
    })
    this.calls = []
    this.last = null // the stop that was shown last
    this.groups = Object.entries(STOPS).map(([kind, { next, before }]) => {
      const count = element("span", "count")
      const group = element("span", `stop to-${kind}`)
      group.append(
        button("step", "‹", before, () => this.walk(kind, -1)),
        count,
        button("step", "›", next, () => this.walk(kind, 1)),
      )
      if (kind === "tool") group.insertBefore(this.tools, count)
      return [kind, group, count]
    })
    this.root.append(...this.groups.map(([, group]) => group), this.words)
  }

  /** Take the conversation's messages, the hits in them, and the words for a search that found nothing. */
  show(messages, hits, words) {
    this.lists.hit = hits.map((hit, number) => ({ kind: "hit", message: hit[0], hit, number }))
    this.lists.error = messages.flatMap((message) =>
      message.errors.map((call) => ({ kind: "error", message: message.index, call })),
    )
    this.lists.reward = messages
      .filter(({ block }) => block.worth)
      .map(({ index }) => ({ kind: "reward", message: index }))
    this.lists.plan = messages
      .filter(({ block }) => block.plan)
      .map(({ index }) => ({ kind: "plan", message: index }))
    this.calls = messages.flatMap(({ block, index }) =>
      (block.calls ?? []).map(({ name }, call) => ({ kind: "tool", message: index, call, name })),
    )
    this.#listTools()
    this.last = null
    this.words.textContent = words
    this.#draw()
  }

  /** Show the next or previous stop of a kind, from the message in sight on; at the end, the other end. */
  walk(kind, by) {
    const stops = this.lists[kind]
    if (!stops.length) return
    const at = this.current()
    const known = this.last?.message === at ? stops.indexOf(this.last) : -1
    let next = known + by
    if (known < 0)
      next =
        by > 0
          ? stops.findIndex(({ message }) => message > at)
          : stops.findLastIndex(({ message }) => message < at)
    this.stopAt(stops.at(next < 0 ? -1 : next % stops.length))
  }

  /** Go to a stop, and say which one it is; `isAsked` is whether the reader asked for it. */
  stopAt(stop, isAsked = true) {
    stop.isAsked = isAsked
    this.last = stop
    this.#draw()
    this.go(stop)
  }

  /** Forget which stop was shown last. */
  forget() {
    this.last = null
    this.#draw()
  }

  #listTools() {
    const counts = new Map()
    for (const { name } of this.calls) counts.set(name, (counts.get(name) ?? 0) + 1)
    const chosen = this.tools.value
    const option = (value, words) => Object.assign(element("option", "", words), { value })
    const names = [...counts].sort((a, b) => b[1] - a[1])
    this.tools.replaceChildren(
      option("", t("any tool")),
      ...names.map(([name, count]) =>
        option(name, `${shownText(name).slice(0, 40)} ×${count.toLocaleString("en")}`),
      ),
    )
    this.tools.value = counts.has(chosen) ? chosen : ""
    this.tools.hidden = counts.size < 2
    this.#chooseTool()
  }

  #chooseTool() {
    const name = this.tools.value
    this.lists.tool = name ? this.calls.filter((call) => call.name === name) : this.calls
  }

  #draw() {
    for (const [kind, group, count] of this.groups) {
      const stops = this.lists[kind]
      const position = stops.indexOf(this.last)
      const { name } = STOPS[kind]
      const total = stops.length.toLocaleString("en")
      group.hidden = stops.length < (kind === "tool" && !this.tools.value ? 2 : 1)
      count.textContent =
        position < 0
          ? t("{name} {count}", { name, count: total })
          : t("{name} {at} of {count}", { name, at: position + 1, count: total })
    }
  }
}
