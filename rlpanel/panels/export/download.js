// Copies text to the clipboard and saves files.

async function copy(text) {
  if (navigator.clipboard && window.isSecureContext) return navigator.clipboard.writeText(text)
  const area = element("textarea") // over plain http, browsers offer no clipboard API
  area.value = text
  document.body.append(area)
  area.select()
  document.execCommand("copy")
  area.remove()
}

/** Show for a moment that something was copied, in place of a button's text. */
function showCopied(node) {
  const text = node.dataset.text ?? node.textContent
  node.dataset.text = text
  node.textContent = "✓"
  setTimeout(() => (node.textContent = text), 1500)
}

function save(parts, name, kind) {
  const link = element("a")
  link.href = URL.createObjectURL(new Blob(parts, { type: kind }))
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000)
}
