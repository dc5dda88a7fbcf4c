// What is known of one token: the hover card, and the same card standing below the strip when pinned.

const CELL_NAMES = {
  [KIND.EMPTY]: "empty piece",
  [KIND.FRAGMENT]: "part of a character",
  [KIND.CONTROL]: "holds invisible characters",
  [KIND.SPECIAL]: "special",
  [KIND.PAD]: "pad",
};

/** `#13 “d”`, the raw piece where it differs, the id where it is known, and every row's value. */
function describeToken(sample, i, chosen) {
  const card = document.createDocumentFragment();
  const head = element("div", "rl-tip-head");
  head.append(element("b", "", `#${i}`));
  if (i < sample.texts.length) {
    const text = sample.texts[i];
    if (text) head.append(` “${text.replaceAll("\n", "↵").replaceAll("\t", "⇥")}”`);
    const raw = rawPiece(sample, i);
    if (raw) head.append(element("span", "quiet", "raw "), element("code", "", raw));
    const name = CELL_NAMES[sample.kinds[i]];
    if (name) head.append(element("span", "quiet", name));
  } else head.append(element("span", "quiet", "no token text"));
  if (isOutside(sample, i)) head.append(element("span", "quiet", "outside the loss"));
  if (sample.ids && i < sample.ids.length) head.append(element("span", "quiet", `id ${sample.ids[i]}`));
  const values = element("dl");
  for (const row of sample.rows) {
    const pair = element("div", row.name === chosen ? "chosen" : "");
    pair.dataset.row = row.name;
    const value = element("dd", "", formatValue(row, row.values[i]));
    if (row.unit) value.append(element("span", "unit", row.unit));
    pair.append(element("dt", "", row.label), value);
    values.append(pair);
  }
  card.append(head, values);
  return card;
}

/** The hover card. It lives in the browser's top layer, so no card or scroller cuts it. */
class Tip {
  constructor(root) {
    this.element = element("div", "rl-tip");
    this.element.setAttribute("role", "tooltip");
    if ("popover" in this.element) this.element.popover = "manual";
    this.element.hidden = true;
    root.append(this.element);
  }

  show(content, box) {
    this.element.replaceChildren(content);
    this.element.hidden = false;
    if (!this.element.matches(":popover-open")) this.element.showPopover?.();
    const {width, height} = this.element.getBoundingClientRect();
    const below = box.bottom + 8;
    const top = below + height < window.innerHeight ? below : Math.max(4, box.top - height - 8);
    const left = Math.max(4, Math.min(box.left, window.innerWidth - width - 8));
    this.element.style.top = `${top}px`;
    this.element.style.left = `${left}px`;
  }

  hide() {
    if (this.element.hidden) return;
    this.element.hidePopover?.();
    this.element.hidden = true;
  }
}
