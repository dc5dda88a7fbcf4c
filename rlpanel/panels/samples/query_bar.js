// The grid's query: a filter with completion, the step or all steps, presets, and what to take away.
// Text from a log reaches the page through textContent and in no other way.
const MOST_OFFERED = 12
const WORD = /[\p{L}_][\p{L}\p{N}_]*$|`[^`]*$/u

// The names that fit what stands before the caret: those that begin with it, then those that hold it.
function fitting(names, word) {
  const sought = word.replace("`", "").toLowerCase()
  const begins = names.filter(([name]) => name.toLowerCase().startsWith(sought))
  const holds = names.filter(([name]) => name.toLowerCase().includes(sought) && !begins.some(([b]) => b === name))
  return [...begins, ...holds].slice(0, MOST_OFFERED)
}

function field(model) {
  const box = element("div", "field")
  const input = element("input")
  Object.assign(input, { placeholder: "filter   reward < 0 and kl_k3_mean > p99", spellcheck: false, autocomplete: "off" })
  input.setAttribute("aria-label", "filter expression")
  const list = element("ul")
  list.setAttribute("role", "listbox")
  box.append(input, list)
  let offered = [], chosen = -1

  const before = () => input.value.slice(0, input.selectionStart)
  const quoted = () => (before().match(/"/g) ?? []).length % 2 === 1
  const close = () => { offered = []; chosen = -1; list.replaceChildren() }
  const draw = () => {
    list.replaceChildren(...offered.map(([name, label], at) => {
      const item = element("li", at === chosen ? "chosen" : "")
      item.setAttribute("role", "option")
      item.append(element("b", "", name), element("span", "", label))
      item.addEventListener("pointerdown", (event) => { event.preventDefault(); take(at) })
      return item
    }))
    list.children[chosen]?.scrollIntoView({ block: "nearest" })
  }
  const offer = () => {
    const word = before().match(WORD)?.[0] ?? ""
    offered = word && !quoted() ? fitting(model.names, word) : []
    if (offered.length === 1 && offered[0][0] === word) { offered = [] }
    chosen = -1
    draw()
  }
  const take = (at) => {
    const head = before().replace(WORD, ""), name = offered[at][0]
    const written = /^[\p{L}_][\p{L}\p{N}_]*$/u.test(name) ? name : `\`${name}\``
    const tail = input.value.slice(input.selectionStart).replace(/^`/, "")
    input.value = `${head}${written} ${tail.trimStart()}`
    const caret = head.length + written.length + 1
    input.setSelectionRange(caret, caret)
    close()
  }
  const send = () => { close(); if (model.filter !== input.value) { model.filter = input.value } }
  input.addEventListener("input", offer)
  input.addEventListener("change", send)
  input.addEventListener("blur", close)
  input.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    if (step && offered.length) {
      event.preventDefault()
      chosen = (chosen + step + offered.length) % offered.length
      draw()
    } else if (event.key === "Tab" && offered.length) {
      event.preventDefault()
      take(Math.max(chosen, 0))
    } else if (event.key === "Enter") {
      if (chosen >= 0) { take(chosen) } else { send() }
    } else if (event.key === "Escape") {
      if (offered.length) { close() } else { input.blur() }
    }
  })
  const show = () => { if (input.value !== model.filter) { input.value = model.filter } }
  const mark = () => {
    input.classList.toggle("wrong", Boolean(model.error))
    if (model.error && box.getRootNode().activeElement === input) {
      input.setSelectionRange(model.error_at, model.error_at)
    }
  }
  model.on("filter", show)
  model.on("error", mark)
  show()
  mark()
  return box
}

function scope(model) {
  const box = element("div", "scope")
  const buttons = [["step", "this step"], ["run", "all steps"]].map(([key, label]) => {
    const button = element("button", "", label)
    button.addEventListener("click", () => { model.scope = key })
    return [key, button]
  })
  const show = () => buttons.forEach(([key, button]) => button.setAttribute("aria-pressed", key === model.scope))
  model.on("scope", show)
  show()
  box.append(...buttons.map(([, button]) => button))
  return box
}

function says(model) {
  const box = element("div", "says")
  const words = element("span"), stop = element("button", "", "stop"), bar = element("i")
  stop.addEventListener("click", () => model.send_msg({ do: "stop" }))
  box.append(bar, words, stop)
  const show = () => {
    const running = model.progress >= 0
    words.textContent = model.error || model.note
    words.className = model.error ? "wrong" : ""
    bar.hidden = stop.hidden = !running
    bar.style.setProperty("--done", `${100 * Math.max(model.progress, 0)}%`)
    box.hidden = !(words.textContent || running)
  }
  for (const name of ["error", "note", "progress"]) { model.on(name, show) }
  show()
  return box
}

// A file comes in pieces; the last one saves it.
function gathering() {
  let parts = []
  return ({ piece, name, kind }) => {
    if (piece !== undefined) { parts.push(piece); return }
    if (name) { save(parts, name, kind) }
    parts = []  // it is saved, or begins anew
  }
}

export function render({ model }) {
  const box = element("div", "query"), row = element("div", "row")
  const find = menu("find ▾", "samples that are worth a look", () => model.presets, (sent) => {
    model.send_msg({ do: "preset", what: sent })
  })
  const take = menu("take ▾", "what is found, as a file or a link", () => model.takes, (sent) => {
    if (sent === "link") { copy(location.href) } else { model.send_msg({ do: "take", what: sent }) }
  })
  model.on("msg:custom", gathering())
  row.append(field(model), scope(model), find, take)
  box.append(row, says(model))
  return box
}
