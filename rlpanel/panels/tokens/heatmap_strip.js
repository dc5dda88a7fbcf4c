// The strip: one canvas, a row a metric, each on its own scale; label left, range right. Below it, on the
// same axis, the lines. Dragging over it zooms in.

const ROW = 15; // CSS pixels from row to row
const BAR = 12; // of which the cells take
const DRAG = 5; // pixels a pointer moves before a click is a drag

/** For each of `columns` pixels, the token farthest from the row's centre of those in it; -1 if none. */
function extremes(row, from, to, columns) {
  const best = new Int32Array(columns).fill(-1);
  const size = new Float64Array(columns).fill(-1);
  const end = Math.min(to, row.values.length);
  for (let i = from; i < end; i++) {
    const column = Math.min(columns - 1, Math.floor(((i - from) / (to - from)) * columns));
    const x = Math.abs(row.values[i] - row.center);
    if (x > size[column]) {
      size[column] = x;
      best[column] = i;
    } else if (best[column] < 0) best[column] = i;
  }
  return best;
}

/** The row on the scale of its drawn extremes: of seventy tokens in a pixel one is often beyond the row's. */
function rescaled(row, indices) {
  const drawn = Float64Array.from(indices, (i) => (i < 0 ? NaN : row.values[i])).filter(Number.isFinite).sort();
  if (!drawn.length || row.short) return row;
  const inner = (share) => drawn[Math.round(share * (drawn.length - 1))];
  const [lo, hi] = [inner(0.01), inner(0.99)];
  if (row.scale === "diverging" && !isOneSided(row)) {
    const bound = Math.max(row.around - lo, hi - row.around, row.hi - row.around);
    return {...row, lo: row.around - bound, hi: row.around + bound};
  }
  return {...row, lo: Math.min(lo, row.lo), hi: Math.max(hi, row.hi)};
}

class Strip {
  constructor(root, {choose, hover, pin, zoom}) {
    this.labels = element("div", "rl-strip-labels");
    this.ranges = element("div", "rl-strip-ranges");
    this.plot = element("div", "rl-strip-plot");
    this.canvas = element("canvas", "rl-strip");
    this.lines = new Lines();
    this.band = element("div", "rl-band"); // tokens in the text's view
    this.cursors = {hover: element("div", "rl-cursor hover"), pin: element("div", "rl-cursor pin")};
    this.brush = element("div", "rl-brush");
    this.plot.append(this.canvas, this.lines.canvas, this.band, this.brush, ...Object.values(this.cursors));
    root.append(this.labels, this.plot, this.ranges);
    Object.assign(this, {choose, hover, pin, zoom, at: {hover: -1, pin: -1}, seen: null, hits: []});
    this.#listen();
  }

  show(sample, palette, rows) {
    Object.assign(this, {sample, palette, range: [0, sample.cells], hits: []});
    this.setRows(rows);
  }

  /** The rows to draw, in order; the caller draws. */
  setRows(rows) {
    this.rows = rows;
    this.labels.replaceChildren(...rows.map((row) => this.#label(row)));
    this.ranges.replaceChildren(...rows.map((row) => this.#rangeOf(row)));
    if (this.sample.outside) this.#nameMask();
    this.lines.show(rows);
    this.#drawLegends();
  }

  restyle(palette) {
    this.palette = palette;
    this.#drawLegends();
    this.draw();
  }

  /** Mark the row that colours the text; the lines follow it where no others were chosen. */
  select(row) {
    for (const label of this.labels.children) label.classList.toggle("chosen", label.dataset.row === row?.name);
    this.lines.follow(row);
    this.draw();
  }

  setRange(from, to) {
    this.range = [from, to];
    this.draw();
  }

  setHits(hits) {
    this.hits = hits;
    this.draw();
  }

  /** Put a cursor ("hover" or "pin") on a token; -1 takes it away. */
  point(which, i) {
    this.at[which] = i;
    const [from, to] = this.range ?? [0, 0];
    this.#place(this.cursors[which], i >= from && i < to ? [i, i + 1] : null);
  }

  /** Mark the tokens that the text shows; null where it shows all. */
  showSeen(range) {
    this.seen = range;
    this.#place(this.band, range);
  }

  /** The token under the pointer; where many share a pixel, the one that the row pointed at draws. */
  indexAt(event) {
    const box = this.canvas.getBoundingClientRect();
    const [from, to] = this.range;
    const share = Math.min(0.999999, Math.max(0, (event.clientX - box.left) / box.width));
    const columns = this.canvas.width;
    const row = this.rows[Math.floor((event.clientY - box.top) / ROW)];
    if (to - from <= columns || !row) return from + Math.floor(share * (to - from));
    return extremes(row, from, to, columns)[Math.floor(share * columns)];
  }

  draw() {
    const width = this.plot.clientWidth;
    if (!this.sample || !width) return;
    const ratio = window.devicePixelRatio || 1;
    const height = (this.rows.length + (this.sample.outside ? 1 : 0)) * ROW;
    this.canvas.style.height = `${height}px`;
    this.plot.style.height = `${height + this.lines.height}px`;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    const pen = this.canvas.getContext("2d");
    this.rows.forEach((row, k) => this.#drawRow(pen, row, Math.round(k * ROW * ratio), ratio));
    if (this.sample.outside) this.#drawMask(pen, Math.round(this.rows.length * ROW * ratio), ratio);
    this.#drawHits(pen, ratio);
    this.lines.draw(width, ratio, this.range, this.palette);
    for (const which of ["hover", "pin"]) this.point(which, this.at[which]);
    this.showSeen(this.seen);
  }

  /** How many tokens share a pixel; 1 where each has its own. */
  get crowd() {
    const [from, to] = this.range;
    return Math.max(1, (to - from) / Math.max(1, this.canvas.width));
  }

  #place(node, range) {
    const [from, to] = this.range ?? [0, 1];
    const percent = (i) => (100 * (Math.min(to, Math.max(from, i)) - from)) / (to - from);
    node.style.display = range ? "block" : "none";
    if (!range) return;
    node.style.left = `${percent(range[0])}%`;
    node.style.width = `max(3px, ${percent(range[1]) - percent(range[0])}%)`;
  }

  #listen() {
    let start = null;
    const moved = (event) => start && Math.abs(event.clientX - start.x) > DRAG;
    this.plot.addEventListener("pointerdown", (event) => {
      if (event.button === 0) start = {x: event.clientX, i: this.indexAt(event)};
    });
    this.plot.addEventListener("pointermove", (event) => {
      const i = this.indexAt(event);
      if (moved(event)) {
        this.plot.setPointerCapture(event.pointerId);
        this.#place(this.brush, [Math.min(start.i, i), Math.max(start.i, i) + 1]);
        this.hover(-1);
      } else this.hover(i, event);
    });
    this.plot.addEventListener("pointerup", (event) => {
      const i = this.indexAt(event);
      if (moved(event)) this.zoom(Math.min(start.i, i), Math.max(start.i, i) + 1);
      else if (start) this.pin(i);
      start = null;
      this.#place(this.brush, null);
    });
    this.plot.addEventListener("pointerleave", () => this.hover(-1));
  }

  #drawRow(pen, row, top, ratio) {
    const [from, to] = this.range;
    const columns = this.canvas.width;
    const count = to - from;
    const crowded = count > columns;
    const drawn = crowded ? extremes(row, from, to, columns) : null;
    const scale = crowded ? rescaled(row, drawn) : row;
    const {backgrounds} = this.palette.ramp(row);
    const paint = (i, left, right) => {
      if (i < 0 || i >= row.values.length) return; // nothing logged here: the card shows through
      const step = stepOf(scale, row.values[i]);
      pen.fillStyle = step < 0 ? hatch(pen, this.palette.name("faint"), ratio) : backgrounds[step];
      pen.fillRect(left, top, right - left, Math.round(BAR * ratio));
      if (Math.abs(row.values[i]) !== Infinity) return;
      pen.fillStyle = this.palette.name("text"); // a bar at the foot: beyond every scale
      pen.fillRect(left, top + Math.round((BAR - 3) * ratio), right - left, Math.round(3 * ratio));
    };
    if (crowded) return drawn.forEach((i, column) => paint(i, column, column + 1));
    const gap = columns / count >= 6 * ratio ? ratio : 0;
    const edge = (k) => Math.round((k / count) * columns);
    for (let k = 0; k < count; k++) paint(from + k, edge(k), Math.max(edge(k) + 1, edge(k + 1) - gap));
  }

  #nameMask() {
    this.labels.append(element("div", "rl-mask-label", "outside the loss"));
    this.ranges.append(element("div", "rl-mask-label", ""));
  }

  /** Below the rows, a line over the tokens that took no part in the loss. */
  #drawMask(pen, top, ratio) {
    const [from, to] = this.range;
    const scale = this.canvas.width / (to - from);
    pen.fillStyle = this.palette.name("muted");
    for (let i = from; i < to; i++) {
      if (!isOutside(this.sample, i)) continue;
      let last = i + 1;
      while (last < to && isOutside(this.sample, last)) last++;
      const left = Math.floor((i - from) * scale);
      pen.fillRect(left, top + Math.round(4 * ratio), Math.max(1, Math.round((last - from) * scale) - left), Math.round(4 * ratio));
      i = last;
    }
  }

  /** Search hits: ticks between the first rows. */
  #drawHits(pen, ratio) {
    const [from, to] = this.range;
    pen.fillStyle = this.palette.name("text");
    for (const [first] of this.hits) {
      if (first < from || first >= to) continue;
      const left = ((first - from) / (to - from)) * this.canvas.width;
      pen.fillRect(left, 0, Math.max(ratio, 2), 4 * ratio);
    }
  }

  #label(row) {
    const title = [row.tip, row.note].filter(Boolean).join("\n");
    const label = button("rl-row-label", row.label, title, () => this.choose(row.name));
    label.dataset.row = row.name;
    return label;
  }

  /** Colours of the row's scale, then its least and its largest value. */
  #rangeOf(row) {
    const text = row.short || formatRange(row.least, row.most).join(" … ") + (row.note ? " *" : "");
    const scale = row.short ? "" : `colours from ${formatRange(row.lo, row.hi, isSigned(row)).join(" to ")}`;
    const title = [scale, row.unit, row.note, "click: draw as a line"].filter(Boolean).join("\n");
    const range = button("rl-row-range", "", title, () => {
      this.lines.toggle(row.name);
      this.draw();
    });
    range.append(element("i"), text);
    return range;
  }

  /** The theme's colours in the legends. */
  #drawLegends() {
    if (!this.rows) return;
    this.rows.forEach((row, k) => {
      const legend = this.ranges.children[k].firstChild;
      legend.style.background = row.short ? "none" : gradientOf(this.palette, row);
    });
  }
}

/** What stands for NaN: not a colour of any map. */
function hatch(pen, color, ratio) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = Math.round(4 * ratio);
  const ink = tile.getContext("2d");
  ink.strokeStyle = color;
  ink.lineWidth = ratio;
  ink.beginPath();
  ink.moveTo(0, tile.height);
  ink.lineTo(tile.width, 0);
  ink.stroke();
  return pen.createPattern(tile, "repeat");
}
