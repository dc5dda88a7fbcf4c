// Map of a conversation beside its scroll bar: each message stands where it is in the whole length, with its results,
// hits, reward and weight in the gradient. It is left out if everything is in sight.

function makeBar(role, size, failed) {
  const bar = element("i", failed ? "failed" : "")
  bar.dataset.role = role
  bar.style.flexGrow = Math.max(1, size).toFixed(0)
  return bar
}

/** Words for a message in a tooltip. */
function messageWords({ title, block }) {
  const calls = (block.calls ?? []).map(
    (call) => `${call.name}${call.result?.error ? ` (${t("error")})` : ""}`,
  )
  const start = (block.text ?? block.reasoning ?? block.calls?.[0]?.text)?.text.trim().slice(0, 120)
  const head = [
    title,
    calls.join(", "),
    block.seconds,
    block.reward && t("reward {reward}", { reward: block.reward }),
  ]
  return [head.filter(Boolean).join(" · "), start].filter(Boolean).join("\n")
}

class TurnMap {
  constructor(list, go) {
    this.root = element("div", "map")
    this.root.setAttribute("aria-hidden", "true") // the outline can be reached by keyboard
    this.frame = element("div", "frame")
    this.cover = element("div", "cover")
    this.cover.hidden = true
    this.legend = element("div", "map-legend")
    this.list = list
    this.go = go
    this.messages = []
    this.root.addEventListener("pointerdown", (event) => this.#drag(event))
  }

  /** Draw the bars: of each message, and below it one for each result of a tool. */
  show(messages, hits, shares = [], why = "") {
    this.messages = messages
    const largest = Math.max(...shares.map(([share]) => share), 0)
    this.root.classList.toggle("weighted", largest > 0)
    const most = Math.max(...messages.map(({ block }) => Math.abs(block.worth ?? 0)), 0)
    const found = new Set(hits.map(([message]) => message))
    this.groups = messages.map((message) => {
      const group = element("div", "bars")
      const stack = element("div", "stack")
      group.title = messageWords(message)
      stack.append(makeBar(message.role, message.ownSize, message.block.error))
      for (const { result } of message.block.calls ?? [])
        if (result) stack.append(makeBar("tool", lengthOf(result), result.error))
      group.append(stack)
      if (found.has(message.index)) group.append(element("s"))
      const { worth } = message.block
      if (worth) group.append(rewardBar(worth, most))
      const [share, push] = shares[message.block.turn - 1] ?? []
      if (share) {
        const bar = element("b", push < 0 ? "weight down" : "weight")
        bar.style.width = `${(14 * share) / largest}px`
        group.append(bar)
        const words = push < 0 ? t("pushed down") : t("pushed up")
        group.title += `\n${t("{share} % of the rollout's gradient", { share: (100 * share).toFixed(1) })} · ${words}`
      }
      return group
    })
    this.root.replaceChildren(...this.groups, this.cover, this.frame)
    this.#explain(most > 0, found.size > 0, largest > 0, why)
    this.place()
  }

  /** Put the bars where the messages are now. */
  place() {
    const { scrollHeight, clientHeight } = this.list
    this.root.hidden = scrollHeight <= clientHeight + 8
    this.legend.hidden = this.root.hidden
    if (this.root.hidden) return
    const share = 100 / scrollHeight
    const places = this.messages.map(({ node }) => [node.offsetTop, node.offsetHeight])
    for (const [k, [top, height]] of places.entries()) {
      this.groups[k].style.top = `${top * share}%`
      this.groups[k].style.height = `${height * share}%`
    }
    this.veil(this.reached ?? -1)
    this.follow()
  }

  /** Frame what is visible. */
  follow() {
    const { scrollHeight, clientHeight, scrollTop } = this.list
    this.frame.style.top = `${(100 * scrollTop) / scrollHeight}%`
    this.frame.style.height = `${(100 * clientHeight) / scrollHeight}%`
  }

  /** Cover what a replay has not come to: all behind a message; nothing for -1. */
  veil(message) {
    this.reached = message
    const node = this.messages[message]?.node
    this.cover.hidden = !node
    if (node)
      this.cover.style.top = `${(100 * (node.offsetTop + node.offsetHeight)) / this.list.scrollHeight}%`
  }

  #explain(hasRewards, hasHits, hasWeights, why) {
    const roles = new Set(this.messages.map(({ role }) => role))
    const failed = this.messages.some((message) => message.failed)
    const entries = [
      [roles.has("assistant"), "assistant", t("policy")],
      [roles.has("user") || roles.has("system"), "user", t("given")],
      [this.messages.some(({ role, block }) => role === "tool" || block.calls), "tool", t("result")],
      [failed, "failed", t("error")],
      [hasHits, "hit", t("hit")],
      [hasRewards, "plus", t("reward above 0")],
      [hasRewards, "minus", t("below 0")],
      [hasWeights, "weight", t("share of the gradient, pushed up")],
      [hasWeights, "weight down", t("pushed down")],
    ]
    this.legend.replaceChildren(
      ...entries
        .filter(([exists]) => exists)
        .map(([, kind, words]) => {
          const entry = element("span")
          const sign = element("i", kind)
          sign.dataset.role = kind
          entry.append(sign, words)
          return entry
        }),
      ...(why ? [element("span", "why", t("Gradient by turn is not drawn: {why}.", { why }))] : []),
    )
  }

  #drag(event) {
    const go = ({ clientY }) => {
      const box = this.root.getBoundingClientRect()
      this.go((clientY - box.top) / box.height)
    }
    this.root.setPointerCapture(event.pointerId)
    this.root.onpointermove = go
    this.root.onpointerup = () => {
      this.root.onpointermove = null
    }
    go(event)
  }
}

/** A reward as a bar from the middle to the right if it is above 0, else to the left. */
function rewardBar(worth, most) {
  const bar = element("u", worth > 0 ? "plus" : "minus")
  const width = `${Math.max(12, (50 * Math.abs(worth)) / most)}%`
  const box = element("span", "reward-bar")
  bar.style.width = width
  bar.style[worth > 0 ? "left" : "right"] = "50%"
  box.append(bar)
  return box
}
