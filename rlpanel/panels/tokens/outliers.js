// Outliers of the chosen row: which tokens lie beyond a bound, a walk from one to the next, and the ten
// most extreme.

const USUAL_BOUND = "99%";

/** A bound from what was typed, null if it is none: `99%` and `0.5` count the distance from the row's plain
 * value, `> 0.5` and `< 1%` the value itself; a percentile is one of the row's own. */
function readBound(typed) {
  const found = (typed.trim() || USUAL_BOUND).match(/^([<>]?)\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*(%?)$/i);
  if (!found) return null;
  const [side, number, percent] = [found[1], Number(found[2]), found[3] === "%"];
  return percent && (number < 0 || number > 100) ? null : {side, number, percent};
}

/** How far out a value is in the sense of the bound: more is farther. */
function farness(row, {side}) {
  if (side === "<") return (x) => -x;
  return side === ">" ? (x) => x : (x) => Math.abs(x - row.around);
}

/** The farness that a token must exceed; of a percentile the inner neighbour, which is a value of the row. */
function limitOf(row, bound) {
  if (!bound.percent) return bound.side === "<" ? -bound.number : bound.number;
  const far = farness(row, bound);
  const known = Float64Array.from(row.values, far).filter(Number.isFinite).sort();
  const share = (bound.side === "<" ? 100 - bound.number : bound.number) / 100;
  return known.length ? known[Math.floor(share * (known.length - 1) + 1e-9)] : Infinity;
}

/** Indices of the tokens beyond the bound, in order. */
function outliers(row, bound) {
  const found = [];
  if (!row || row.short || !bound) return found;
  const [far, limit] = [farness(row, bound), limitOf(row, bound)];
  row.values.forEach((x, i) => { if (far(x) > limit) found.push(i); });
  return found;
}

/** The `count` tokens farthest out, the farthest first. */
function mostExtreme(row, bound, count) {
  const far = farness(row, bound);
  const order = Array.from(row.values.keys()).filter((i) => !Number.isNaN(row.values[i]));
  return order.sort((a, b) => far(row.values[b]) - far(row.values[a]) || a - b).slice(0, count);
}

/** The neighbour of `from` among sorted `indices`, going round at the ends; -1 if there is none. */
function neighbour(indices, from, direction) {
  if (!indices.length) return -1;
  if (direction > 0) return indices.find((i) => i > from) ?? indices[0];
  return indices.findLast((i) => from < 0 || i < from) ?? indices.at(-1);
}

/** The tools that walk and list outliers. */
class Outliers {
  constructor(tools, {pin}) {
    Object.assign(this, {pin, sample: null, row: null, at: -1, indices: []});
    this.count = button("rl-tool rl-outliers", "", "the ten most extreme tokens", () => this.#toggleList());
    this.before = button("rl-tool", "‹", "previous outlier (shift ←)", () => this.walk(-1));
    this.after = button("rl-tool", "›", "next outlier (shift →)", () => this.walk(1));
    this.input = element("input", "rl-field rl-bound");
    Object.assign(this.input, {type: "text", placeholder: USUAL_BOUND, spellcheck: false});
    this.input.title = "which tokens are outliers: 99% of the size, or 0.5, > 0.5, < 0.01, > 95%, < 5%";
    this.input.setAttribute("aria-label", "bound of outliers");
    this.group = element("span", "rl-group");
    this.group.append(this.before, this.count, this.after, element("span", "quiet", "beyond"), this.input);
    this.list = element("div", "rl-extremes");
    this.list.hidden = true;
    tools.append(this.group);
    this.input.addEventListener("input", () => this.select(this.row));
    this.input.addEventListener("keydown", (event) => this.#onKey(event));
  }

  show(sample) {
    this.sample = sample;
  }

  select(row) {
    this.row = row;
    this.bound = readBound(this.input.value);
    this.indices = outliers(row, this.bound);
    this.group.hidden = !row;
    this.input.classList.toggle("broken", !this.bound);
    const count = this.indices.length;
    this.count.textContent = this.bound ? `${count} outlier${count === 1 ? "" : "s"}` : "not a bound";
    this.count.title = row && this.bound ? `${this.#inWords()}; click for the ten most extreme` : "";
    this.before.disabled = this.after.disabled = !count;
    this.#fillList();
  }

  /** Pin the next or previous outlier. */
  walk(direction) {
    const i = neighbour(this.indices, this.at, direction);
    if (i >= 0) this.pin(i);
  }

  #inWords() {
    const {row, bound} = this;
    const limit = limitOf(row, bound);
    if (bound.side) return `${row.label} ${bound.side} ${formatShort(bound.side === "<" ? -limit : limit)}`;
    return `|${row.label}${row.around ? ` − ${row.around}` : ""}| > ${formatShort(limit)}`;
  }

  #toggleList() {
    this.list.hidden = !this.list.hidden;
    this.#fillList();
  }

  #fillList() {
    if (this.list.hidden || !this.row || !this.bound) return;
    this.list.replaceChildren(...mostExtreme(this.row, this.bound, 10).map((i) => {
      const text = i < this.sample.texts.length ? this.sample.texts[i].trim().slice(0, 16) : "";
      const item = button("rl-tool", `#${i} `, "", () => this.pin(i));
      item.append(element("b", "", text), ` ${formatValue(this.row, this.row.values[i])}`);
      return item;
    }));
  }

  #onKey(event) {
    event.stopPropagation(); // the board's keys are letters here
    if (event.key === "Enter") this.walk(event.shiftKey ? -1 : 1);
    if (event.key !== "Escape") return;
    this.input.value = "";
    this.select(this.row);
    this.input.blur();
    this.group.getRootNode().querySelector(".rl-tokens").focus();
  }
}
