// A group's samples side by side, a card each. Texts are set as text, never as HTML.
function make(tag, name, text) {
  const element = document.createElement(tag)
  if (name) { element.className = name }
  if (text !== undefined) { element.textContent = text }
  return element
}

function numbersOf(card) {
  const list = make("dl")
  for (const [label, value, tip, name] of card.numbers) {
    const pair = make("div")
    pair.title = tip
    pair.dataset.name = name
    pair.append(make("dt", "", label), make("dd", name === "reward" ? "policy" : "", value))
    list.append(pair)
  }
  return list
}

function cardOf(model, card) {
  const item = make("button", "card")
  item.type = "button"
  item.dataset.uid = card.uid
  item.title = "Show this sample"
  item.addEventListener("click", () => model.send_msg(card.uid))
  item.append(numbersOf(card), make("p", "", card.response))
  return item
}

export function render({ model }) {
  const box = make("div", "cards")
  const mark = () => {
    for (const item of box.children) {
      item.classList.toggle("chosen", item.dataset.uid === model.chosen)
      item.setAttribute("aria-pressed", item.dataset.uid === model.chosen)
    }
  }
  const draw = () => {
    box.replaceChildren(...model.cards.map((card) => cardOf(model, card)))
    mark()
  }
  model.on("cards", draw)
  model.on("chosen", mark)
  draw()
  return box
}
