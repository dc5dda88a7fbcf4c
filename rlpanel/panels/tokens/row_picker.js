// Picker for the rows of the heatmap and their order. The choice is saved in the browser for all runs.

const ROWS_KEY = "rlpanel.token-rows"

/** Read the saved choice: names in order and hidden names; empty if nothing is saved. */
function readChoice() {
  try {
    const { order, hidden } = JSON.parse(localStorage.getItem(ROWS_KEY)) ?? {}
    const names = (list) => (Array.isArray(list) ? list.filter((name) => typeof name === "string") : [])
    return { order: names(order), hidden: new Set(names(hidden)) }
  } catch {
    return { order: [], hidden: new Set() }
  }
}

/** Save the choice; without storage it is lost when the page is closed. */
function saveChoice({ order, hidden }) {
  try {
    if (order.length || hidden.size)
      localStorage.setItem(ROWS_KEY, JSON.stringify({ order, hidden: [...hidden] }))
    else localStorage.removeItem(ROWS_KEY)
  } catch {
    /* storage may be blocked */
  }
}

/** Rows in the chosen order; a row without a chosen position follows its predecessor in the default order. */
function inOrder(rows, order) {
  const chosen = order.map((name) => rows.find((row) => row.name === name)).filter(Boolean)
  rows.forEach((row, k) => {
    if (chosen.includes(row)) return
    const predecessor = k > 0 ? chosen.indexOf(rows[k - 1]) : -1
    chosen.splice(predecessor + 1, 0, row)
  })
  return chosen
}

/** Button that opens the list of rows, where each row can be shown, hidden and moved. */
class RowChoice {
  constructor(tools, root, { changed }) {
    this.choice = readChoice()
    this.changed = changed
    this.rows = []
    this.toggle = button(
      "rl-tool rl-rows",
      t("Rows"),
      t("Show, hide and reorder the rows of the heatmap"),
      () => {
        this.list.hidden = !this.list.hidden
        this.toggle.setAttribute("aria-expanded", !this.list.hidden)
        this.#fill()
      },
    )
    this.list = element("div", "rl-row-list")
    this.list.hidden = true
    tools.append(this.toggle)
    root.append(this.list)
  }

  /** Set the rows of a new sample; returns the visible ones. */
  show(rows) {
    this.all = rows
    this.rows = inOrder(rows, this.choice.order)
    this.toggle.hidden = rows.length < 2
    this.#fill()
    return this.visible
  }

  get visible() {
    return this.rows.filter((row) => !this.choice.hidden.has(row.name))
  }

  #fill() {
    const count = this.rows.length - this.visible.length
    this.toggle.textContent = count ? t("Rows ({count} hidden)", { count }) : t("Rows")
    if (this.list.hidden) return
    const changed = this.choice.order.length || this.choice.hidden.size
    const reset = button("rl-tool rl-rows-reset", t("Reset"), t("Show all rows in the default order"), () => {
      this.#change([], new Set())
    })
    reset.disabled = !changed
    this.list.replaceChildren(...this.rows.map((row, k) => this.#item(row, k)), reset)
  }

  #item(row, index) {
    const { hidden } = this.choice
    const item = element("span", "rl-row-item")
    item.dataset.choice = row.name
    const toggle = button("rl-tool rl-row-shown", row.label, t("Show or hide"), () => {
      const after = new Set(hidden)
      if (!after.delete(row.name)) after.add(row.name)
      this.#change(this.choice.order, after)
    })
    toggle.setAttribute("aria-pressed", !hidden.has(row.name))
    const move = (text, by, title) => {
      const arrow = button("rl-tool", text, title, () => {
        const names = this.rows.map(({ name }) => name)
        names.splice(index + by, 0, ...names.splice(index, 1))
        this.#change(names, hidden)
      })
      arrow.disabled = index + by < 0 || index + by >= this.rows.length
      return arrow
    }
    item.append(move("▴", -1, t("Move up")), move("▾", 1, t("Move down")), toggle)
    return item
  }

  #change(order, hidden) {
    this.choice = { order, hidden }
    saveChoice(this.choice)
    this.changed(this.show(this.all))
  }
}
