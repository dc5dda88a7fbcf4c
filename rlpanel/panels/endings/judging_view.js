// Cards of judge calls and outputs of a verifier. Texts are set as text only, and come when a card is opened.

/** Most cards that are built at once; the others follow behind a button. */
const CARDS = 50

function foldOf(title, open) {
  const fold = element("details")
  const body = element("div", "body")
  fold.append(element("summary", "", title), body)
  fold.addEventListener("toggle", () => {
    if (!fold.open || body.childElementCount) return
    body.append(element("p", "note", t("Reading …")))
    open(body)
  })
  return fold
}

/** Draw the texts that a card asked for. */
function fill(body, message) {
  const blocks = []
  const block = (title, text) => {
    if (title) blocks.push(element("h5", "", title))
    blocks.push(element("pre", "", text))
  }
  if (message.kind === "call") {
    for (const [role, text] of message.request) block(role, text)
    block(t("answer"), message.answer || t("not logged"))
    block(t("verdict"), message.verdict || t("no verdict"))
  } else block("", message.output)
  body.replaceChildren(...blocks)
}

function cardOf(card, at, ask) {
  const box = element("article", `card is-${card.state}`)
  const head = element("div", "head")
  head.append(element("b", "place", `${at + 1}`), element("strong", "", shownText(card.name)))
  if (card.model) head.append(element("span", "model", shownText(card.model)))
  const verdict = element("span", "verdict", shownText(card.verdict))
  head.append(verdict)
  if (card.score && card.score !== card.verdict)
    head.append(element("span", "score", t("score {score}", { score: card.score })))
  head.append(element("span", "facts", card.facts.join(" · ")))
  box.append(head)
  if (card.error) box.append(element("p", "error", card.error))
  if (card.answer) {
    const answer = element("p", "answer", card.answer)
    box.append(answer)
  } else box.append(element("p", "note", t("The answer is not logged.")))
  const asked = card.messages
    ? t("Request and whole answer ({count} messages)", { count: card.messages })
    : t("Whole answer; the request is not logged")
  if (card.messages || card.cut || card.long) box.append(foldOf(asked, (body) => ask("call", at, body)))
  else box.append(element("p", "note", t("The request is not logged.")))
  return box
}

export function render({ model }) {
  const root = element("div", "judging")
  const waiting = new Map()
  const ask = (kind, at, body) => {
    waiting.set(`${kind} ${at}`, body)
    model.send_msg([kind, at, model.words.uid])
  }
  model.on("msg:custom", (message) => {
    if (message.uid !== model.words.uid) return
    const body = waiting.get(`${message.kind} ${message.at}`)
    if (body) fill(body, message)
  })
  const draw = () => {
    waiting.clear()
    const parts = []
    const { words, cards, outputs } = model
    if (words.missing) parts.push(element("p", "note", words.missing))
    if (words.summary) parts.push(element("p", "summary", words.summary))
    const list = element("div", "cards")
    const add = (from) => {
      list.append(...cards.slice(from, from + CARDS).map((card, at) => cardOf(card, from + at, ask)))
      const left = cards.length - from - CARDS
      if (left <= 0) return
      const more = button("more", t("{count} more judge calls", { count: left }), "", () => {
        more.remove()
        add(from + CARDS)
      })
      list.append(more)
    }
    if (cards.length) add(0)
    parts.push(list)
    if (outputs.length) {
      parts.push(element("h4", "", t("Output of the verifier")))
      for (const [at, [name, chars]] of outputs.entries()) {
        const title = `${shownText(name)} · ${t("{count} characters", { count: chars.toLocaleString("en-US") })}`
        const fold = foldOf(title, (body) => ask("output", at, body))
        fold.className = "output"
        fold.open = at === 0 // its toggle event asks for the text
        parts.push(fold)
      }
    }
    root.replaceChildren(...parts)
  }
  // One change of the sample sets several of them.
  let queued = false
  const later = () => {
    if (queued) return
    queued = true
    queueMicrotask(() => {
      queued = false
      draw()
    })
  }
  for (const name of ["cards", "outputs", "words"]) model.on(name, later)
  draw()
  return root
}
