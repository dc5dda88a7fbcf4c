// Draws the parts of a region. Each part has an element with a shadow root of its own, and a model that looks to
// its script like the model of a component. See region.py.

/** Values of one part as attributes. They follow the JSON text that the server sends. */
class PartModel {
  #callbacks = []
  #values = {}
  #texts = {} // each value as JSON text
  #unanswered = new Set() // values that the browser has set, until the server has answered
  #sent = 0
  #send

  constructor(texts, send) {
    this.#send = send
    for (const text of texts) this.take(text)
  }

  /** Call back when one of the values changes; "msg:custom", "after_render" and "remove" are events. */
  on(names, callback) {
    this.#callbacks.push([[names].flat(), callback])
  }

  send_msg(message) {
    this.#send({ message })
  }

  /** Set a value in the browser and on the server. */
  #set(name, value) {
    this.#unanswered.add(name)
    this.#sent += 1
    this.#values[name] = value
    this.#texts[name] = JSON.stringify(value)
    this.#send({ name, value, sent: this.#sent })
    this.notify([name])
  }

  /** Call the callbacks of some values or of an event. */
  notify(names, ...values) {
    for (const [wanted, callback] of this.#callbacks) {
      if (wanted.some((name) => names.includes(name))) callback(...values)
    }
  }

  /** Take the part's values from the server, and call back for those that changed. */
  take(text) {
    const { answered, values } = JSON.parse(text)
    if (answered >= this.#sent) this.#unanswered.clear()
    const changed = Object.keys(values).filter((name) => this.#take(name, values[name]))
    if (changed.length) this.notify(changed)
  }

  #take(name, value) {
    const text = JSON.stringify(value)
    if (this.#unanswered.has(name) || text === this.#texts[name]) return false
    if (!(name in this)) {
      Object.defineProperty(this, name, {
        get: () => this.#values[name],
        set: (changed) => this.#set(name, changed),
      })
    }
    this.#values[name] = value
    this.#texts[name] = text
    return true
  }
}

/**
 * Create the element of a part, with the classes and styles of its component.
 *
 * @returns {[HTMLElement, any]}
 */
function createPart(region, view, name) {
  const host = document.createElement("div")
  const root = host.attachShadow({ mode: "open" })
  root.adoptedStyleSheets = SHEETS[name].map((text) => {
    const sheet = new CSSStyleSheet()
    sheet.replaceSync(text)
    return sheet
  })
  /** @type {any} */
  const part = new PartModel(
    TEXTS[name].map((text) => region[text]),
    (message) => region.send_msg({ part: name, ...message }),
  )
  const place = () => {
    host.className = part.css_classes.join(" ")
    host.hidden = !part.visible
    host.style.display = part.visible ? "" : "none"
  }
  part.on(["css_classes", "visible"], place)
  place()
  root.append(DRAW[name]({ model: part, view, el: host }))
  for (const text of TEXTS[name]) region.on(text, () => part.take(region[text]))
  return [host, part]
}

export function render({ model, view }) {
  const box = document.createElement("div")
  box.className = "region"
  const parts = {}
  for (const name of Object.keys(DRAW)) {
    if (!model[name]) continue
    const [host, part] = createPart(model, view, name)
    parts[name] = part
    box.append(host)
  }
  model.on("msg:custom", ({ part, message }) => parts[part]?.notify(["msg:custom"], message))
  model.on("after_render", () => {
    for (const part of Object.values(parts)) part.notify(["after_render"])
  })
  model.on("remove", () => {
    for (const part of Object.values(parts)) part.notify(["remove"])
  })
  return box
}
