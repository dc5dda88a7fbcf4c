// Marks what a search found in drawn texts. The server counts characters, the browser units of UTF-16.

/** Return a function from a character's number in a text to its place in units. */
function unitsOf(text) {
  if (!/[\ud800-\udfff]/.test(text)) return (character) => character
  const places = [0]
  for (const character of text) places.push(places.at(-1) + character.length)
  return (character) => places[Math.min(character, places.length - 1)]
}

/** Return where texts stand in another one, in order: [first, last, number]; those that are missing are left out. */
function placesOf(shown, texts) {
  let at = 0
  const found = []
  for (const [text, number] of texts) {
    const place = shown.indexOf(text, at)
    if (place < 0) continue
    at = place + text.length
    found.push([place, at, number])
  }
  return found
}

/** Return each hit's text and number, as far as it was sent; hits are [start, end, number] in characters. */
function textsOf(part, hits) {
  const units = unitsOf(part.text)
  const texts = hits.map(([start, end, number]) => [part.text.slice(units(start), units(end)), number])
  return texts.filter(([text]) => text) // an empty text stands everywhere
}

/** Mark hits in a node that shows the beginning of a text. Return false if one is missing in a formatted text. */
function markHits(node, part, known) {
  const shown = node.textContent
  const units = unitsOf(part.text)
  // A hit behind the part that was sent is marked once the rest has come.
  const hits = known.filter(([start]) => units(start) < part.text.length)
  const isPlain = part.text.startsWith(shown)
  const ranges = isPlain
    ? hits.map(([start, end, number]) => [units(start), units(end), number])
    : placesOf(shown, textsOf(part, hits))
  markRanges(node, ranges)
  return isPlain || ranges.length === hits.length
}

/** Put ranges [first, last, number] of a node's text, in order and without overlaps, into marks. */
function markRanges(node, ranges) {
  const walker = document.createTreeWalker(node, NodeFilter.SHOW_TEXT)
  const texts = []
  while (walker.nextNode()) texts.push(walker.currentNode)
  let [begin, k] = [0, 0]
  for (let text of texts) {
    const end = begin + text.data.length
    while (k < ranges.length && ranges[k][0] < end) {
      const [first, last, number] = ranges[k]
      const start = Math.max(first, begin)
      const found = text.splitText(start - begin)
      begin = Math.min(last, end)
      text = found.splitText(begin - start)
      const mark = element("mark")
      mark.dataset.hit = number
      found.replaceWith(mark)
      mark.append(found)
      if (last > end) break
      k += 1
    }
    begin = end
  }
}
