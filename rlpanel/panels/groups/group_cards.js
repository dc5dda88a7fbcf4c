// Cards of a group's samples, side by side. Texts are set through textContent, never as HTML.
function make(tag, name, text) {
  const element = document.createElement(tag)
  if (name) element.className = name
  if (text !== undefined) element.textContent = text
  return element
}

function makeNumbers(card) {
  const list = make("dl")
  for (const [label, value, tip, name] of card.numbers) {
    const entry = make("div")
    entry.title = tip
    entry.dataset.name = name
    entry.append(make("dt", "", label), make("dd", name === "reward" ? "policy" : "", value))
    list.append(entry)
  }
  return list
}

function makeCard(model, card) {
  const item = make("button", "card")
  item.type = "button"
  item.dataset.uid = card.uid
  item.title = t("Select this sample")
  item.addEventListener("click", () => model.send_msg(card.uid))
  item.append(makeNumbers(card), make("p", "", card.response))
  return item
}

export function render({ model }) {
  const box = make("div", "cards")
  const markChosen = () => {
    for (const item of box.children) {
      item.classList.toggle("chosen", item.dataset.uid === model.chosen)
      item.setAttribute("aria-pressed", item.dataset.uid === model.chosen)
    }
  }
  const draw = () => {
    box.replaceChildren(...model.cards.map((card) => makeCard(model, card)))
    markChosen()
  }
  model.on("cards", draw)
  model.on("chosen", markChosen)
  draw()
  return box
}
