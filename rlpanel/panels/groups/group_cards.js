// Cards of a group's samples, side by side. Texts of a log are set through textContent, never as HTML.
function colorOf(name, value) {
  if (name === "reward") return "policy"
  const isBad =
    (name === "tool_errors" && value !== "0") || (name === "status" && !["ok", "–"].includes(value))
  return isBad ? "bad" : ""
}

function makeNumbers(card) {
  const list = element("dl")
  for (const [label, value, tip, name] of card.numbers) {
    const entry = element("div")
    entry.title = tip
    entry.dataset.name = name
    entry.append(element("dt", "", label), element("dd", colorOf(name, value), value))
    list.append(entry)
  }
  if (card.discarded) list.append(element("div", "discarded", card.discarded))
  return list
}

function makeLine([label, text]) {
  const line = element("div", "line")
  line.append(element("span", "", label), text)
  line.title = text
  return line
}

function makeCard(model, card) {
  const item = element("button", "card")
  item.type = "button"
  item.dataset.uid = card.uid
  item.title = t("Select this sample")
  item.addEventListener("click", () => model.send_msg(card.uid))
  item.append(makeNumbers(card))
  // A rollout of an agent has a row, with a few lines of its text; another sample has all of it.
  if (card.lines) item.append(...card.lines.map(makeLine))
  else item.append(element("p", "", card.response))
  const box = element("div", "card-box")
  const words = t(
    "Read its conversation beside that of the selected sample, from the turn at which they part",
  )
  box.append(
    item,
    button("beside", t("beside ⇥"), words, () => model.send_msg({ beside: card.uid })),
  )
  return box
}

export function render({ model }) {
  const root = element("div"),
    fit = element("div", "rl-fit"),
    box = element("div", "cards")
  root.append(fit, box)
  const writeFit = () => {
    fit.innerHTML = model.fit
  }
  const markChosen = () => {
    for (const item of box.querySelectorAll(".card")) {
      item.classList.toggle("chosen", item.dataset.uid === model.chosen)
      item.setAttribute("aria-pressed", item.dataset.uid === model.chosen)
    }
  }
  const draw = () => {
    box.classList.toggle(
      "rows",
      model.cards.some((card) => card.lines),
    )
    box.replaceChildren(...model.cards.map((card) => makeCard(model, card)))
    markChosen()
  }
  model.on("fit", writeFit)
  model.on("cards", draw)
  model.on("chosen", markChosen)
  writeFit()
  draw()
  return root
}
