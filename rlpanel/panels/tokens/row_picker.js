// Which rows the strip shows, and in what order. The browser keeps the choice, for all runs and samples.

const ROWS_KEY = "rlpanel.token-rows";

/** The kept choice: names in order, and names left out; none where the browser keeps nothing. */
function readChoice() {
  try {
    const {order, hidden} = JSON.parse(localStorage.getItem(ROWS_KEY)) ?? {};
    const names = (list) => (Array.isArray(list) ? list.filter((name) => typeof name === "string") : []);
    return {order: names(order), hidden: new Set(names(hidden))};
  } catch {
    return {order: [], hidden: new Set()};
  }
}

/** Keep the choice; a browser that keeps nothing forgets it with the page. */
function keepChoice({order, hidden}) {
  try {
    if (order.length || hidden.size) localStorage.setItem(ROWS_KEY, JSON.stringify({order, hidden: [...hidden]}));
    else localStorage.removeItem(ROWS_KEY);
  } catch { /* storage may be forbidden */ }
}

/** Rows in the chosen order; those never ordered stand behind the row they usually follow. */
function inOrder(rows, order) {
  const chosen = order.map((name) => rows.find((row) => row.name === name)).filter(Boolean);
  rows.forEach((row, at) => {
    if (chosen.includes(row)) return;
    const before = at > 0 ? chosen.indexOf(rows[at - 1]) : -1;
    chosen.splice(before + 1, 0, row);
  });
  return chosen;
}

/** The button in the tools and the list it opens: a row a line, shown or not, up or down. */
class RowChoice {
  constructor(tools, root, {changed}) {
    this.choice = readChoice();
    this.changed = changed;
    this.rows = [];
    this.toggle = button("rl-tool rl-rows", "rows", "choose and order the rows of the strip", () => {
      this.list.hidden = !this.list.hidden;
      this.toggle.setAttribute("aria-expanded", !this.list.hidden);
      this.#fill();
    });
    this.list = element("div", "rl-row-list");
    this.list.hidden = true;
    tools.append(this.toggle);
    root.append(this.list);
  }

  /** A new sample's rows; gives back those to draw. */
  show(rows) {
    this.all = rows;
    this.rows = inOrder(rows, this.choice.order);
    this.toggle.hidden = rows.length < 2;
    this.#fill();
    return this.shown;
  }

  get shown() {
    return this.rows.filter((row) => !this.choice.hidden.has(row.name));
  }

  #fill() {
    const count = this.rows.length - this.shown.length;
    this.toggle.textContent = count ? `rows, ${count} hidden` : "rows";
    if (this.list.hidden) return;
    const changed = this.choice.order.length || this.choice.hidden.size;
    const reset = button("rl-tool rl-rows-reset", "reset", "all rows in their usual order", () => {
      this.#change([], new Set());
    });
    reset.disabled = !changed;
    this.list.replaceChildren(...this.rows.map((row, at) => this.#item(row, at)), reset);
  }

  #item(row, at) {
    const {hidden} = this.choice;
    const item = element("span", "rl-row-item");
    item.dataset.choice = row.name;
    const shown = button("rl-tool rl-row-shown", row.label, "show or hide", () => {
      const after = new Set(hidden);
      if (!after.delete(row.name)) after.add(row.name);
      this.#change(this.choice.order, after);
    });
    shown.setAttribute("aria-pressed", !hidden.has(row.name));
    const move = (text, by, title) => {
      const arrow = button("rl-tool", text, title, () => {
        const names = this.rows.map((other) => other.name);
        names.splice(at + by, 0, ...names.splice(at, 1));
        this.#change(names, hidden);
      });
      arrow.disabled = at + by < 0 || at + by >= this.rows.length;
      return arrow;
    };
    item.append(move("▴", -1, "up"), move("▾", 1, "down"), shown);
    return item;
  }

  #change(order, hidden) {
    this.choice = {order, hidden};
    keepChoice(this.choice);
    this.changed(this.show(this.all));
  }
}
