// Wires the parts together: one sample, one chosen row, one token under the pointer, one pinned.
// The server joins this file behind the other tokens_*.js, which hold the parts.

class TokenBoard {
  constructor(model) {
    this.model = model;
    this.root = element("div", "rl-tokens");
    this.root.tabIndex = 0;
    this.root.setAttribute("role", "group");
    this.root.setAttribute("aria-label", "response, token by token");
    const choose = (name) => { this.model.metric = name; };
    const pin = (i) => (i === this.model.token ? this.text.reveal(i) : (this.model.token = i));
    const toggle = (i) => { this.model.token = i === this.model.token ? -1 : i; };
    const zoom = (from, to) => this.zoom(from, to);

    const bar = element("div", "rl-bar");
    this.textBox = element("div", "rl-tokens-text");
    const strip = element("div", "rl-strip-grid");
    this.notes = element("div", "rl-notes quiet");
    this.pinned = element("div", "rl-pin");
    this.root.append(bar, this.textBox);
    this.bar = new MetricBar(bar, {choose});
    this.text = new RunningText(this.textBox, {seen: (range) => this.strip.showSeen(range)});
    this.tools = element("div", "rl-tools");
    this.outliers = new Outliers(this.tools, {pin});
    this.finder = new Finder(this.tools, {pin, mark: (hits) => this.markHits(hits)});
    this.zoomed = button("rl-tool rl-zoomed", "", "show all tokens (Esc)", () => zoom(0, this.sample.cells));
    this.crowd = element("span", "rl-crowd quiet");
    this.tools.append(this.zoomed, this.crowd);
    this.root.append(this.tools, this.outliers.list);
    this.choice = new RowChoice(this.tools, this.root, {
      changed: (shown) => {
        this.strip.setRows(shown);
        this.strip.select(this.row);
      },
    });
    const hover = (i, event) => this.hover(i, event && boxAt(event));
    this.strip = new Strip(strip, {choose, pin: toggle, zoom, hover});
    this.root.append(strip, this.pinned, this.notes);
    this.tip = new Tip(this.root);
    this.pinned.setAttribute("aria-live", "polite");
    this.resizing = new ResizeObserver(() => this.#resized());
    this.resizing.observe(this.root);
    this.#listen(toggle);
    listenKeys(this);
  }

  /** A new sample: everything is drawn again. */
  show() {
    this.sample = readSample(this.model.data, this.model.metrics);
    const {state, rows, notes} = this.sample;
    this.root.dataset.state = state;
    this.tip.hide();
    this.bar.show(rows);
    this.strip.show(this.sample, this.palette, this.choice.show(rows));
    if (this.sample.cells) this.text.show(this.sample);
    else this.text.showPlain(this.sample.plain);
    this.tools.hidden = !this.sample.cells;
    this.outliers.show(this.sample);
    this.finder.show(this.sample);
    this.notes.replaceChildren(...[...notes, ...rowNotes(rows)].map((note) => element("div", "", note)));
    this.color();
    this.point();
    this.#showZoom();
  }

  /** The chosen row colours the text; nothing is fetched for it. */
  color() {
    const wish = this.model.metric;
    this.row = chooseRow(this.sample.rows, wish);
    const missing = this.row && this.row.name !== wish ? labelOf(this.model.metrics, wish) : "";
    this.bar.select(this.row, this.palette, missing);
    this.strip.select(this.row);
    this.outliers.select(this.row);
    this.text.paint(this.#shade());
    this.#showPinned();
  }

  /** The pinned token changed, here or on the server. */
  point() {
    const i = this.model.token;
    this.pin = i >= 0 && i < this.sample.cells ? i : -1;
    this.outliers.at = this.pin;
    this.text.mark("pinned", this.pin < 0 ? [] : [this.pin]);
    this.strip.point("pin", this.pin);
    if (this.pin >= 0) {
      this.text.reveal(this.pin);
      this.#follow();
    }
    this.#showPinned();
  }

  theme() {
    this.root.classList.toggle("dark", this.model.dark);
    this.palette = makePalette(this.root);
    if (!this.sample) return;
    this.strip.restyle(this.palette);
    this.color();
  }

  hover(i, box) {
    this.text.mark("hovered", i < 0 ? [] : [i]);
    this.strip.point("hover", i);
    if (i < 0) this.tip.hide();
    else this.tip.show(describeToken(this.sample, i, this.row?.name), box);
  }

  /** Show the tokens [from, to) in strip and lines. */
  zoom(from, to) {
    this.strip.setRange(from, to);
    if (to - from < this.sample.cells && (this.pin < from || this.pin >= to)) this.text.reveal(from);
    this.#showZoom();
  }

  markHits(hits) {
    const tokens = hits.flatMap(([first, last]) => Array.from({length: last - first}, (_, k) => first + k));
    this.text.mark("hit", tokens);
    this.strip.setHits(hits);
  }

  /** Colour by the row before or after the chosen one. */
  stepMetric(direction) {
    const {rows} = this.sample;
    if (rows.length) this.model.metric = rows[(rows.indexOf(this.row) + direction + rows.length) % rows.length].name;
  }

  /** Pin the neighbour of the pinned token; from nowhere, the first or the last. */
  stepToken(direction) {
    const last = this.sample.cells - 1;
    if (last < 0) return;
    const from = this.pin < 0 ? (direction > 0 ? -1 : last + 1) : this.pin;
    this.model.token = Math.min(last, Math.max(0, from + direction));
  }

  destroy() {
    this.tip.hide();
    this.text.destroy();
    this.resizing.disconnect();
  }

  #listen(toggle) {
    const indexOf = (event) => Number(event.target.closest?.("[data-i]")?.dataset.i ?? -1);
    this.textBox.addEventListener("pointerover", (event) => {
      const i = indexOf(event);
      this.hover(i, i < 0 ? null : boxAt(event));
    });
    this.textBox.addEventListener("pointerleave", () => this.hover(-1));
    this.textBox.addEventListener("scroll", () => this.hover(-1), {passive: true});
    this.textBox.addEventListener("click", (event) => {
      if (indexOf(event) >= 0) toggle(indexOf(event));
    });
  }

  #shade() {
    const [row, sample] = [this.row, this.sample];
    if (!row) return () => null;
    const {backgrounds, inks} = this.palette.ramp(row);
    const unknown = ["", ""];
    return (i) => {
      if (i >= row.values.length || cellKind(sample, i) === KIND.PAD) return null;
      const step = stepOf(row, row.values[i]);
      return step < 0 ? unknown : [backgrounds[step], inks[step], Math.abs(row.values[i]) === Infinity];
    };
  }

  /** Move the zoomed range to where the pinned token is. */
  #follow() {
    const [from, to] = this.strip.range;
    if (this.pin >= from && this.pin < to) return;
    const first = Math.max(0, Math.min(this.sample.cells - (to - from), this.pin - ((to - from) >> 1)));
    this.zoom(first, first + to - from);
  }

  #resized() {
    if (!this.sample) return;
    if (!this.palette.valid) this.theme();
    this.strip.draw();
    this.#showZoom();
  }

  #showPinned() {
    this.pinned.replaceChildren(...(this.pin >= 0 ? [describeToken(this.sample, this.pin, this.row?.name)] : []));
  }

  #showZoom() {
    const [from, to] = this.strip.range;
    const all = to - from >= this.sample.cells;
    this.zoomed.textContent = all ? "" : `tokens ${from}–${to - 1} ✕`;
    this.zoomed.hidden = all;
    const crowd = this.strip.crowd;
    this.crowd.textContent = crowd < 1.5 ? "" : `${crowd.toFixed(crowd < 10 ? 1 : 0)} a pixel; drag to zoom`;
  }
}

/** Keys inside the view; what they do here must not reach the page's own keys. */
function listenKeys(board) {
  const keys = {
    ArrowLeft: (event) => (event.shiftKey ? board.outliers.walk(-1) : board.stepToken(-1)),
    ArrowRight: (event) => (event.shiftKey ? board.outliers.walk(1) : board.stepToken(1)),
    "[": () => board.stepMetric(-1),
    "]": () => board.stepMetric(1),
    "/": () => board.finder.input.focus(),
    Escape: () => (board.pin >= 0 ? (board.model.token = -1) : board.zoom(0, board.sample.cells)),
  };
  board.root.addEventListener("keydown", (event) => {
    const act = keys[event.key];
    if (!act || !board.sample?.cells || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    act(event);
  });
}

/** The box to place the card beside: the token's line under the pointer, or the pointer itself. */
function boxAt(event) {
  const span = event.target.closest?.("[data-i]");
  if (span) {
    const boxes = [...span.getClientRects()];
    return boxes.find((box) => event.clientY <= box.bottom) ?? span.getBoundingClientRect();
  }
  return {left: event.clientX + 12, top: event.clientY - 12, bottom: event.clientY + 12};
}

/** The label of a metric; a link may wish for any name, so only what was declared counts. */
function labelOf(metrics, name) {
  return Object.hasOwn(metrics, name) ? metrics[name].label : name;
}

function rowNotes(rows) {
  return rows.filter((row) => row.note).map((row) => `${row.label}: ${row.note}`);
}

export function render({model}) {
  const board = new TokenBoard(model);
  const when = (act) => () => board.sample && act();
  model.on("data", when(() => board.show()));
  model.on("metric", when(() => board.color()));
  model.on("token", when(() => board.point()));
  model.on("dark", when(() => board.theme()));
  model.on("after_render", () => {
    board.theme(); // colours come from the style sheet, which counts once the element is in the page
    board.show();
  });
  model.on("remove", () => board.destroy());
  return board.root;
}
