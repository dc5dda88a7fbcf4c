// Creates elements. Text from a log reaches the page through textContent only.

/** Return a label in the page's language. The page's head has the translations; without them it stays English. */
function t(text, values = {}) {
  const shown = globalThis.rlpanelLabels?.[text] ?? text
  return shown.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole))
}

// Control characters, line breaks, and marks that reverse the direction of what follows.
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g

/** Return a text of a log on one line, in the order of its characters. */
const shownText = (text) => String(text).replace(UNSEEN, "�")

function element(tag, className, text) {
  const node = document.createElement(tag)
  if (className) node.className = className
  if (text !== undefined) node.textContent = text
  return node
}

/** Create a small button. */
function button(className, text, title, click) {
  const node = element("button", className, text)
  Object.assign(node, { type: "button", title })
  if (title && !/[\p{L}\p{N}]/u.test(text)) node.ariaLabel = title
  node.addEventListener("click", click)
  return node
}

/** Return the first element that matches a selector, also inside shadow roots. */
function findDeep(root, selector) {
  const match = root.querySelector(selector)
  if (match) return match
  for (const node of root.querySelectorAll("*")) {
    const nested = node.shadowRoot && findDeep(node.shadowRoot, selector)
    if (nested) return nested
  }
  return null
}

/** Return the host of the outermost shadow root around an element; null outside of shadow roots. */
function outermostHost(node) {
  let host = node.getRootNode().host ?? null
  while (host?.getRootNode().host) host = host.getRootNode().host
  return host
}
