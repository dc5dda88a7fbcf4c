// Map of the conversation: one bar per message, as high as its share of the text; the visible part is framed.

function makeBar(role, size, failed) {
  const bar = element("i", failed ? "failed" : "")
  bar.dataset.role = role
  bar.style.flexGrow = Math.sqrt(Math.max(1, size)).toFixed(1)
  return bar
}

/** Scroll to a message. Messages around it are drawn then and change their height, so it is done again. */
function scrollToMessage(node, frames = 12) {
  if (!node?.isConnected || frames === 0) return
  node.scrollIntoView({ block: "start" })
  requestAnimationFrame(() => scrollToMessage(node, frames - 1))
}

class TurnMap {
  constructor(list) {
    this.root = element("div", "map")
    this.root.setAttribute("aria-hidden", "true") // the messages themselves can be reached by keyboard
    this.frame = element("div", "frame")
    this.list = list
    this.root.addEventListener("pointerdown", (event) => this.#drag(event))
    list.addEventListener("scroll", () => this.follow(), { passive: true })
    new ResizeObserver(() => this.follow()).observe(list)
  }

  /** Draw the bars: of each message, and below it one for each result of a tool. */
  show(messages) {
    this.groups = messages.map((message) => {
      const group = element("div", "bars")
      group.title = message.title
      group.append(makeBar(message.role, message.ownSize, message.block.error))
      for (const { result } of message.block.calls ?? []) {
        if (result) group.append(makeBar("tool", result.length ?? result.text.length, result.error))
      }
      // The square root keeps short messages visible beside one that is a thousand times longer.
      group.style.flexGrow = Math.sqrt(Math.max(1, message.size)).toFixed(1)
      return group
    })
    this.root.replaceChildren(...this.groups, this.frame)
    this.follow()
  }

  /** Frame the bars of the messages that are visible. */
  follow() {
    const sections = this.list.querySelectorAll("section.message")
    if (!sections.length || this.groups?.length !== sections.length) return
    const box = this.list.getBoundingClientRect()
    const visible = [...sections.keys()].filter((k) => {
      const place = sections[k].getBoundingClientRect()
      return place.bottom > box.top && place.top < box.bottom
    })
    this.frame.hidden = !visible.length || visible.length === sections.length
    if (this.frame.hidden) return
    const [first, last] = [this.groups[visible[0]], this.groups[visible.at(-1)]]
    this.frame.style.top = `${first.offsetTop - 2}px`
    this.frame.style.height = `${last.offsetTop + last.offsetHeight - first.offsetTop + 4}px`
  }

  #drag(event) {
    const go = (at) => {
      const k = this.groups.findIndex((node) => node.getBoundingClientRect().bottom >= at.clientY)
      scrollToMessage(this.list.querySelectorAll("section.message")[k < 0 ? this.groups.length - 1 : k])
    }
    this.root.setPointerCapture(event.pointerId)
    this.root.onpointermove = go
    this.root.onpointerup = () => {
      this.root.onpointermove = null
    }
    go(event)
  }
}
