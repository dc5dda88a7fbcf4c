// The lines below the strip: chosen metrics over the same tokens, those of one unit on one scale.

const LINES = 58; // CSS pixels, from below the strip
const KEY = 18; // of the names below them
const FIRST_LINES = ["value", "token_return"]; // what the critic saw beside what came

class Lines {
  constructor() {
    this.canvas = element("canvas", "rl-lines");
    this.rows = [];
    this.chosen = new Set(); // by hand; kept from sample to sample
    this.row = null;
  }

  show(rows) {
    this.rows = rows;
  }

  /** The row that colours the text: drawn where nothing else is. */
  follow(row) {
    this.row = row;
  }

  toggle(name) {
    if (!this.chosen.size) for (const row of this.drawn) this.chosen.add(row.name);
    if (!this.chosen.delete(name)) this.chosen.add(name);
  }

  get drawn() {
    const byHand = this.rows.filter((row) => this.chosen.has(row.name));
    if (byHand.length) return byHand;
    const first = this.rows.filter((row) => FIRST_LINES.includes(row.name) && !row.short);
    return first.length ? first : this.rows.filter((row) => row === this.row && !row.short);
  }

  get height() {
    return this.drawn.length ? LINES + KEY + 6 : 0;
  }

  draw(width, ratio, range, palette) {
    const rows = this.drawn;
    this.canvas.style.height = `${this.height}px`;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    if (!rows.length) return;
    const pen = this.canvas.getContext("2d");
    pen.scale(ratio, ratio);
    for (const row of rows) drawLine(pen, row, sharedScale(rows, row), width, range, palette);
    drawKey(pen, rows, width, palette);
  }
}

/** Lowest and highest value of all drawn rows in the row's unit. */
function sharedScale(rows, row) {
  const same = rows.filter((other) => other.unit === row.unit && Number.isFinite(other.least));
  const [low, high] = [Math.min(...same.map((r) => r.least)), Math.max(...same.map((r) => r.most))];
  return high > low ? [low, high] : [low - 0.5, low + 0.5];
}

function drawLine(pen, row, [low, high], width, [from, to], palette) {
  const x = (i) => ((i + 0.5 - from) / (to - from)) * width;
  const y = (value) => 8 + (1 - (Math.min(high, Math.max(low, value)) - low) / (high - low)) * (LINES - 10);
  pen.strokeStyle = palette.name(row.color);
  pen.lineWidth = 1.5;
  pen.lineJoin = "round";
  pen.beginPath();
  const indices = to - from > 4 * width ? envelope(row.values, from, to, Math.floor(width)) : null;
  let gap = true;
  const visit = (i) => {
    const value = row.values[i];
    if (value === undefined || Number.isNaN(value)) gap = true;
    else if (gap) pen.moveTo(x(i), y(value)), (gap = false);
    else pen.lineTo(x(i), y(value));
  };
  if (indices) indices.forEach(visit);
  else for (let i = from; i < to; i++) visit(i);
  pen.stroke();
}

/** Smallest and largest of each pixel, in the order they stand: the line's outline, nothing lost. */
function envelope(values, from, to, columns) {
  const indices = [];
  for (let column = 0; column < columns; column++) {
    const first = from + Math.floor((column / columns) * (to - from));
    const last = from + Math.floor(((column + 1) / columns) * (to - from));
    let [least, most] = [first, first];
    for (let i = first; i < last; i++) {
      if (values[i] < values[least]) least = i;
      if (values[i] > values[most]) most = i;
    }
    indices.push(Math.min(least, most), Math.max(least, most));
  }
  return indices;
}

function drawKey(pen, rows, width, palette) {
  pen.font = `11px ${palette.font}`;
  pen.textBaseline = "middle";
  let left = 0;
  for (const row of rows) {
    pen.fillStyle = palette.name(row.color);
    pen.fillRect(left, LINES + KEY / 2 + 1, 10, 3);
    pen.fillStyle = palette.name("muted");
    const text = `${row.label}${row.unit ? `, ${row.unit}` : ""}`;
    pen.fillText(text, left + 14, LINES + KEY / 2 + 3);
    left += pen.measureText(text).width + 30;
    if (left > width) break;
  }
}
