// The grid's query bar: filter with completion, scope (this step or all steps), presets, and export menu.
// Text from a log reaches the page through textContent only.
const MAX_SUGGESTIONS = 12
const WORD = /[\p{L}_][\p{L}\p{N}_]*$|`[^`]*$/u

// Return the column names that match the word before the caret: first by prefix, then by substring.
function matchingNames(names, word) {
  const pattern = word.replace("`", "").toLowerCase()
  const begins = names.filter(([name]) => name.toLowerCase().startsWith(pattern))
  const contains = names.filter(
    ([name]) => name.toLowerCase().includes(pattern) && !begins.some(([b]) => b === name),
  )
  return [...begins, ...contains].slice(0, MAX_SUGGESTIONS)
}

function field(model) {
  const box = element("div", "field")
  const input = element("input")
  Object.assign(input, {
    placeholder: t("filter   reward < 0 and kl_k3_mean > p99"),
    spellcheck: false,
    autocomplete: "off",
  })
  input.setAttribute("aria-label", t("filter expression"))
  const list = element("ul")
  list.setAttribute("role", "listbox")
  const clear = button("clear", "×", t("Clear the filter"), () => {
    input.value = ""
    send()
    input.focus()
  })
  box.append(input, clear, list)
  let suggestions = [],
    chosen = -1

  const beforeCaret = () => input.value.slice(0, input.selectionStart)
  const insideQuotes = () => (beforeCaret().match(/"/g) ?? []).length % 2 === 1
  const close = () => {
    suggestions = []
    chosen = -1
    list.replaceChildren()
  }
  const draw = () => {
    list.replaceChildren(
      ...suggestions.map(([name, label], position) => {
        const item = element("li", position === chosen ? "chosen" : "")
        item.setAttribute("role", "option")
        item.append(element("b", "", name), element("span", "", label))
        item.addEventListener("pointerdown", (event) => {
          event.preventDefault()
          complete(position)
        })
        return item
      }),
    )
    list.children[chosen]?.scrollIntoView({ block: "nearest" })
  }
  const suggest = () => {
    clear.hidden = !input.value
    const word = beforeCaret().match(WORD)?.[0] ?? ""
    suggestions = word && !insideQuotes() ? matchingNames(model.names, word) : []
    if (suggestions.length === 1 && suggestions[0][0] === word) suggestions = []
    chosen = -1
    draw()
  }
  const complete = (position) => {
    const head = beforeCaret().replace(WORD, ""),
      name = suggestions[position][0]
    const quotedName = /^[\p{L}_][\p{L}\p{N}_]*$/u.test(name) ? name : `\`${name}\``
    const tail = input.value.slice(input.selectionStart).replace(/^`/, "")
    input.value = `${head}${quotedName} ${tail.trimStart()}`
    const caret = head.length + quotedName.length + 1
    input.setSelectionRange(caret, caret)
    close()
  }
  const send = () => {
    close()
    if (model.filter !== input.value) model.filter = input.value
  }
  input.addEventListener("input", suggest)
  input.addEventListener("change", send)
  input.addEventListener("blur", close)
  input.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    if (step && suggestions.length) {
      event.preventDefault()
      chosen = (chosen + step + suggestions.length) % suggestions.length
      draw()
    } else if (event.key === "Tab" && suggestions.length) {
      event.preventDefault()
      complete(Math.max(chosen, 0))
    } else if (event.key === "Enter") {
      if (chosen >= 0) {
        complete(chosen)
      } else {
        send()
      }
    } else if (event.key === "Escape") {
      if (suggestions.length) {
        close()
      } else {
        input.blur()
      }
    }
  })
  const show = () => {
    if (input.value !== model.filter) input.value = model.filter
    clear.hidden = !input.value
  }
  const markError = () => {
    input.classList.toggle("wrong", Boolean(model.error))
    if (model.error && box.getRootNode().activeElement === input) {
      input.setSelectionRange(model.error_at, model.error_at)
    }
  }
  model.on("filter", show)
  model.on("error", markError)
  show()
  markError()
  // An example replaces the filter and is run; a column is put where the caret was.
  const write = (text, whole) => {
    if (whole) {
      input.value = text
      send()
    } else {
      const plain = /^[\p{L}_][\p{L}\p{N}_]*$/u.test(text)
      input.setRangeText(plain ? text : `\`${text}\``, input.selectionStart, input.selectionEnd, "end")
    }
    clear.hidden = !input.value
    input.focus()
  }
  return [box, filterHelp(model, write)]
}

// What narrows the grid down, each with a button that takes it off.
function chips(model) {
  const box = element("div", "chips")
  const show = () => {
    box.hidden = !model.chips.length
    box.replaceChildren(
      ...model.chips.map(([key, label, alone]) => {
        const chip = element("span", "chip")
        const off = button("", "×", t("Take off {label}", { label }), () =>
          model.send_msg({ do: "off", what: key }),
        )
        chip.append(element("span", "", label), ...(alone ? [element("i", "", alone)] : []), off)
        chip.title = label
        return chip
      }),
      ...(model.chips.length > 1
        ? [button("all", t("clear all"), "", () => model.send_msg({ do: "off", what: "all" }))]
        : []),
    )
  }
  model.on("chips", show)
  show()
  return box
}

function scope(model) {
  const box = element("div", "scope")
  const buttons = [
    ["step", t("This step")],
    ["run", t("All steps")],
  ].map(([key, label]) => {
    const button = element("button", "", label)
    button.addEventListener("click", () => {
      model.scope = key
    })
    return [key, button]
  })
  const show = () => {
    for (const [key, button] of buttons) button.setAttribute("aria-pressed", key === model.scope)
  }
  model.on("scope", show)
  show()
  box.append(...buttons.map(([, button]) => button))
  return box
}

// The button that shows or hides the filters in the column heads: they take a line, and are rarely used.
function headFilters(model) {
  const button = element("button", "heads", "▽")
  Object.assign(button, { title: t("Filter single columns"), ariaLabel: t("Filter single columns") })
  button.addEventListener("click", () => {
    model.heads = !model.heads
  })
  const show = () => button.setAttribute("aria-pressed", model.heads)
  model.on("heads", show)
  show()
  return button
}

function statusLine(model) {
  const box = element("div", "says")
  const text = element("span"),
    stop = element("button", "", t("Stop")),
    bar = element("i")
  stop.addEventListener("click", () => model.send_msg({ do: "stop" }))
  box.append(bar, text, stop)
  const show = () => {
    const running = model.progress >= 0
    text.textContent = model.error || model.note
    text.className = model.error ? "wrong" : ""
    bar.hidden = stop.hidden = !running
    bar.style.setProperty("--done", `${100 * Math.max(model.progress, 0)}%`)
    box.hidden = !(text.textContent || running)
  }
  for (const name of ["error", "note", "progress"]) model.on(name, show)
  show()
  return box
}

// Return a message handler that collects the parts of a file. The last message holds its name and saves it.
function fileReceiver() {
  let parts = []
  return ({ piece, name, kind, cell }) => {
    if (cell !== undefined) {
      copy(cell)
      return
    }
    if (piece !== undefined) {
      parts.push(piece)
      return
    }
    if (name) save(parts, name, kind)
    parts = [] // the file is saved, or a new export begins
  }
}

export function render({ model }) {
  const box = element("div", "query"),
    row = element("div", "row")
  const presetMenu = menu(
    t("Presets ▾"),
    t("Ready-made filters and sort orders"),
    () => model.presets,
    (key) => {
      model.send_msg({ do: "preset", what: key })
    },
  )
  const exportMenu = menu(
    t("Export ▾"),
    t("Save the matching samples as a file, or copy a link"),
    () => model.takes,
    (key) => {
      if (key === "link") {
        copy(location.href)
      } else {
        model.send_msg({ do: "take", what: key })
      }
    },
  )
  model.on("msg:custom", fileReceiver())
  row.append(...field(model), headFilters(model), scope(model), presetMenu, exportMenu)
  box.append(row, chips(model), statusLine(model))
  return box
}
