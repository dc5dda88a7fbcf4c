// The tokens of one message, coloured by the chosen metric.

const FIRST_TOKENS = 2_000; // tokens of a message that are drawn before the reader asks for all

/** Draw the tokens [first, last) into a node; `colors` gives background and ink of a token. */
function drawTokens(node, sample, [first, last], colors, whole) {
  const end = whole ? last : Math.min(last, first + FIRST_TOKENS);
  const spans = [];
  for (let i = first; i < end; i++) {
    const span = makeSpan(sample, i);
    const shade = colors(i);
    if (shade) [span.style.backgroundColor, span.style.color] = shade;
    span.classList.toggle("unknown", shade?.[0] === "");
    spans.push(span);
  }
  node.replaceChildren(...spans);
  return last - end;
}

/** Return for each token [background, ink]; empty for NaN, null without a value. */
function shadeOf(sample, row, palette) {
  if (!row) return () => null;
  const {backgrounds, inks} = palette.ramp(row);
  return (i) => {
    if (i >= row.values.length || cellKind(sample, i) === KIND.PAD) return null;
    const step = stepOf(row, row.values[i]);
    return step < 0 ? ["", ""] : [backgrounds[step], inks[step]];
  };
}
