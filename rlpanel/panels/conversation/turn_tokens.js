// The tokens of one message, coloured by the chosen metric.

const FIRST_TOKENS = 2_000 // tokens of a message that are drawn before the reader asks for all

/** Draw the tokens [first, last) into a node; `colors` is a function as `shadeOf` returns it. */
function drawTokens(node, sample, [first, last], colors, whole) {
  const end = whole ? last : Math.min(last, first + FIRST_TOKENS)
  const spans = []
  for (let i = first; i < end; i++) {
    const span = makeSpan(sample, i)
    colorSpan(span, colors(i))
    spans.push(span)
  }
  node.replaceChildren(...spans)
  return last - end
}
