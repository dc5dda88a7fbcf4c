// Elements. Text from a log reaches the page through textContent and in no other way.

function element(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

/** A small button; it takes no focus by tab, the keys do the same. */
function button(className, text, title, click) {
  const node = element("button", className, text);
  Object.assign(node, {type: "button", title, tabIndex: -1});
  node.addEventListener("click", click);
  return node;
}
