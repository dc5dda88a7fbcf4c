// Creates elements. Text from a log reaches the page through textContent only.

function element(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

/** Create a small button. Tab skips it, because keyboard shortcuts do the same. */
function button(className, text, title, click) {
  const node = element("button", className, text);
  Object.assign(node, {type: "button", title, tabIndex: -1});
  node.addEventListener("click", click);
  return node;
}
