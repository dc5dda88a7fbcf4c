// Images of a conversation: thumbnails where the text has them, and in full size with arrows.

/** What a text has in the place of an image: our own mark, and those of templates. */
const IMAGE_MARK = /(?:\[image\]|<image>|(?:<\|vision_start\|>)?(?:<\|image_pad\|>)+(?:<\|vision_end\|>)?)/
  .source
const IMAGE_MARKS = new RegExp(`(\\s*${IMAGE_MARK}(?:\\s*${IMAGE_MARK})*\\s*)`)

class MessageImages {
  constructor(root, ask) {
    this.ask = ask
    this.known = new Map()
    this.places = [] // message and position of each image, in reading order
    this.waiting = new Map()
    this.at = -1
    this.dialog = element("dialog", "full-image")
    this.shown = element("div", "shown")
    this.count = element("span", "quiet")
    const bar = element("div", "bar")
    bar.append(
      button("step", "←", t("Previous image"), () => this.open(this.at - 1)),
      this.count,
      button("step", "→", t("Next image"), () => this.open(this.at + 1)),
      button("step", "×", t("Close"), () => this.dialog.close()),
    )
    this.dialog.append(this.shown, bar)
    this.shown.addEventListener("click", () => this.dialog.close())
    this.dialog.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key]
      event.stopPropagation() // the page has the same keys
      if (by) this.open(this.at + by)
    })
    root.append(this.dialog)
  }

  /** Forget all images; `places` are those of the next conversation. */
  reset(places) {
    this.known.clear()
    this.waiting.clear()
    this.places = places
    if (this.dialog.open) this.dialog.close()
  }

  /** The thumbnail of an image; it is filled once the server has sent it. */
  thumbnail([message, position]) {
    const key = `${message}:${position}:false`
    const at = this.places.findIndex(([m, p]) => m === message && p === position)
    const place = button("image", "", t("Show the image in full size"), () => this.open(at))
    const known = this.known.get(key)
    if (known !== undefined) this.#fill(place, known, at)
    else {
      const nodes = this.waiting.get(key) ?? []
      this.waiting.set(key, [...nodes.filter((node) => node.isConnected), place])
      if (!nodes.length) this.ask({ want: "image", message, position, full: false })
    }
    return place
  }

  receive({ message, position, full, image }) {
    const key = `${message}:${position}:${full}`
    this.known.set(key, image)
    const at = this.places.findIndex(([m, p]) => m === message && p === position)
    if (!full) for (const place of this.waiting.get(key) ?? []) this.#fill(place, image, at)
    this.waiting.delete(key)
    if (full && at === this.at && this.dialog.open) this.#show(image) // not after the reader closed it
  }

  /** Show an image in full size, if there is one with this number. */
  open(at) {
    const place = this.places[at]
    if (!place) return
    this.at = at
    const [message, position] = place
    const count = this.places.length
    this.count.textContent = t("{at} of {count}", { at: at + 1, count })
    for (const [k, step] of [...this.dialog.querySelectorAll(".step")].entries())
      step.hidden = count === 1 && k < 2
    const known = this.known.get(`${message}:${position}:true`)
    if (known !== undefined) {
      this.#show(known)
      return
    }
    this.ask({ want: "image", message, position, full: true })
    if (this.dialog.open) return
    this.shown.replaceChildren(element("div", "quiet", "…"))
    this.dialog.showModal()
  }

  #show(source) {
    if (!source.startsWith("data:image/")) this.shown.replaceChildren(element("div", "quiet", source))
    else {
      const image = element("img")
      image.alt = t("image in full size")
      image.src = source
      this.shown.replaceChildren(image)
    }
    if (!this.dialog.open) this.dialog.showModal()
  }

  #fill(place, source, at) {
    if (source.startsWith("data:image/")) {
      const image = element("img")
      image.alt = t("image {at}", { at: at + 1 })
      image.src = source
      place.replaceChildren(image)
    } else {
      place.textContent = source || t("image cannot be shown")
      place.disabled = true
    }
  }
}

/** Put thumbnails where a drawn text has its images. Return those without a place: all, if the marks are not as many. */
function placeImages(node, thumbnails) {
  const walker = document.createTreeWalker(node, NodeFilter.SHOW_TEXT)
  const texts = []
  while (walker.nextNode()) {
    const { currentNode } = walker
    if (currentNode instanceof Text && IMAGE_MARKS.test(currentNode.data)) texts.push(currentNode)
  }
  const count = (text) => [...text.matchAll(new RegExp(IMAGE_MARK, "g"))].length
  if (texts.reduce((sum, { data }) => sum + count(data), 0) !== thumbnails.length) return thumbnails
  const left = [...thumbnails]
  for (const text of texts) {
    const pieces = text.data.split(IMAGE_MARKS).map((piece, k) => {
      if (k % 2 === 0) return piece
      const strip = element("span", "images")
      strip.append(...left.splice(0, count(piece)))
      return strip
    })
    text.replaceWith(...pieces.filter((piece) => piece !== ""))
  }
  for (const strip of node.querySelectorAll(".images")) joinStrip(strip)
  return []
}

/** Append a strip to the one before it, if nothing but line breaks is between them; line breaks around it go. */
function joinStrip(strip) {
  const isGap = (node) => node?.nodeName === "BR" || (node instanceof Text && !node.data.trim())
  while (isGap(strip.nextSibling)) strip.nextSibling.remove()
  while (isGap(strip.previousSibling)) strip.previousSibling.remove()
  const before = strip.previousSibling
  if (!(before instanceof Element && before.classList.contains("images"))) return
  before.append(...strip.children)
  strip.remove()
}
