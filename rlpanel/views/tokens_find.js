// Finding tokens: outliers of the chosen row, the ten most extreme, and a search of the text.
//
// The browser's own search sees the text but not the tokens; this one counts its hits and walks them.

/** Indices of the tokens beyond the row's threshold, in order. */
function outliers(row) {
  const found = [];
  if (row && !row.short) row.values.forEach((x, i) => { if (Math.abs(x) > row.outlier) found.push(i); });
  return found;
}

/** The `count` tokens farthest from zero, the farthest first. */
function mostExtreme(row, count) {
  const order = Array.from(row.values.keys()).filter((i) => !Number.isNaN(row.values[i]));
  return order.sort((a, b) => Math.abs(row.values[b]) - Math.abs(row.values[a])).slice(0, count);
}

/** The neighbour of `from` among sorted `indices`, going round at the ends; -1 if there is none. */
function step(indices, from, direction) {
  if (!indices.length) return -1;
  if (direction > 0) return indices.find((i) => i > from) ?? indices[0];
  return indices.findLast((i) => from < 0 || i < from) ?? indices.at(-1);
}

/** A pattern from what was typed: `/…/` is a regular expression, the rest is text; null if it is broken. */
function makePattern(typed) {
  const regex = typed.match(/^\/(.+)\/?$/s);
  const source = regex ? regex[1].replace(/\/$/, "") : typed.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  try {
    return new RegExp(source, "giu");
  } catch {
    return null;
  }
}

/** [first, last) token of every place where the running text matches. */
function findText(sample, pattern) {
  const starts = [];
  let text = "";
  for (const [i, part] of sample.texts.entries()) {
    starts.push(text.length);
    if (sample.kinds[i] !== KIND.FRAGMENT) text += part;
  }
  const tokenAt = (place) => {
    let [low, high] = [0, starts.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (starts[middle] <= place) low = middle;
      else high = middle - 1;
    }
    return low;
  };
  const hits = [];
  for (const match of text.matchAll(pattern)) {
    if (match[0]) hits.push([tokenAt(match.index), tokenAt(match.index + match[0].length - 1) + 1]);
  }
  return hits;
}

/** The row of tools between text and strip. */
class Finder {
  constructor(root, {pin, mark, unzoom}) {
    Object.assign(this, {pin, mark, sample: null, row: null, hits: [], hit: -1, at: -1});
    this.count = button("rl-tool rl-outliers", "", "the ten most extreme tokens", () => this.#toggleList());
    this.before = button("rl-tool", "‹", "previous outlier (shift ←)", () => this.walk(-1));
    this.after = button("rl-tool", "›", "next outlier (shift →)", () => this.walk(1));
    this.outliers = element("span", "rl-group");
    this.outliers.append(this.before, this.count, this.after);
    this.input = element("input", "rl-token-search");
    Object.assign(this.input, {type: "text", placeholder: "search tokens  /", spellcheck: false});
    this.input.title = "text, or /regular expression/; Enter and Shift+Enter walk the hits";
    this.found = element("span", "rl-found quiet");
    this.zoomed = button("rl-tool rl-zoomed", "", "show all tokens (Esc)", unzoom);
    this.crowd = element("span", "rl-crowd quiet");
    this.list = element("div", "rl-extremes");
    this.list.hidden = true;
    this.bar = element("div", "rl-tools");
    this.bar.append(this.outliers, this.input, this.found, this.zoomed, this.crowd);
    root.append(this.bar, this.list);
    this.#listen();
  }

  show(sample) {
    Object.assign(this, {sample, hits: [], hit: -1});
    this.bar.hidden = !sample.cells;
    this.input.hidden = !sample.texts.length;
    this.search();
  }

  select(row) {
    this.row = row;
    this.indices = outliers(row);
    const count = this.indices.length;
    this.outliers.hidden = !row;
    this.count.textContent = `${count} outlier${count === 1 ? "" : "s"}`;
    this.count.title = row ? `|${row.label}| > ${formatShort(row.outlier)}; click for the ten most extreme` : "";
    this.before.disabled = this.after.disabled = !count;
    this.#fillList();
  }

  /** Pin the next or previous outlier. */
  walk(direction) {
    const i = step(this.indices ?? [], this.at, direction);
    if (i >= 0) this.pin(i);
  }

  search() {
    const typed = this.input.value;
    const pattern = typed ? makePattern(typed) : null;
    this.hits = pattern && this.sample ? findText(this.sample, pattern) : [];
    this.hit = -1;
    this.input.classList.toggle("broken", Boolean(typed) && !pattern);
    this.#report(typed, pattern);
    this.mark(this.hits);
  }

  /** Pin the first token of the next or previous hit. */
  walkHits(direction) {
    if (!this.hits.length) return;
    this.hit = this.hit < 0 && direction < 0 ? this.hits.length - 1
      : (this.hit + direction + this.hits.length) % this.hits.length;
    this.#report(this.input.value, true);
    this.pin(this.hits[this.hit][0]);
  }

  #report(typed, pattern) {
    const place = this.hit < 0 ? "" : `${this.hit + 1} of `;
    const count = this.hits.length;
    this.found.textContent = !typed ? "" : !pattern ? "not a pattern" : `${place}${count} hit${count === 1 ? "" : "s"}`;
  }

  #toggleList() {
    this.list.hidden = !this.list.hidden;
    this.#fillList();
  }

  #fillList() {
    if (this.list.hidden || !this.row) return;
    this.list.replaceChildren(...mostExtreme(this.row, 10).map((i) => {
      const text = i < this.sample.texts.length ? this.sample.texts[i].trim().slice(0, 16) : "";
      const item = button("rl-tool", `#${i} `, "", () => this.pin(i));
      item.append(element("b", "", text), ` ${formatValue(this.row, this.row.values[i])}`);
      return item;
    }));
  }

  #listen() {
    this.input.addEventListener("input", () => this.search());
    this.input.addEventListener("keydown", (event) => {
      event.stopPropagation(); // the board's keys are letters here
      if (event.key === "Enter") this.walkHits(event.shiftKey ? -1 : 1);
      if (event.key !== "Escape") return;
      this.input.value = "";
      this.search();
      this.input.blur();
      this.bar.parentElement.focus();
    });
  }
}
