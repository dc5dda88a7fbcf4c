// Draws the step buttons, the label, the slider and the switch. Only what the user does is sent: a value that
// comes from the server is never sent back.
const TITLES = { "-1": t("Previous step (←)"), 1: t("Next step (→)") }

export function render({ model }) {
  const bar = element("div", "bar")
  const label = element("div", "rl-step")
  const slider = element("input", "slider")
  Object.assign(slider, { type: "range", min: 0, step: 1 })
  slider.setAttribute("aria-label", t("Step"))
  const follow = element("label", "rl-follow")
  const box = element("input")
  Object.assign(box, { type: "checkbox" })
  box.setAttribute("role", "switch")
  follow.append(box, element("span", "switch"), t("Follow latest"))
  follow.title = t("Select the newest complete step whenever one arrives")

  const send = (action, value) => model.send_msg([action, value])
  const moves = [
    ["◀", -1],
    ["▶", 1],
  ].map(([text, by]) => {
    const node = button("move", text, TITLES[by], () => send("move", by))
    node.setAttribute("aria-label", TITLES[by])
    return node
  })

  // While the thumb is dragged, its place and range belong to the user.
  let dragged = false
  const share = () => Number(slider.value) / Number(slider.max)
  const drawTrack = () => slider.style.setProperty("--share", share())
  slider.addEventListener("pointerdown", () => {
    dragged = true
  })
  slider.addEventListener("input", () => {
    drawTrack()
    send("show", share())
  })
  slider.addEventListener("change", () => {
    dragged = false
    send("select", share())
  })
  // A drag that ends where it began changes nothing; "change" comes after "pointerup".
  const release = () =>
    setTimeout(() => {
      if (dragged) {
        dragged = false
        drawSlider()
      }
    })
  slider.addEventListener("pointerup", release)
  slider.addEventListener("pointercancel", release)
  box.addEventListener("change", () => send("follow", box.checked))

  const drawSlider = () => {
    if (dragged) return
    slider.max = Math.max(1, model.steps - 1)
    slider.value = model.position
    slider.disabled = model.steps < 2
    drawTrack()
  }
  const drawLabel = () => {
    const name = model.label ? [element("b", "", model.label), " "] : []
    const doubts = model.doubts ? [" ", element("span", "doubts", model.doubts)] : []
    label.replaceChildren(...name, element("span", "note", model.note), ...doubts)
    slider.setAttribute("aria-valuetext", label.textContent)
  }
  const drawButtons = () => {
    for (const node of moves) node.disabled = model.steps < 2
  }
  const drawFollow = () => {
    box.checked = model.follow
  }

  model.on(["steps", "position"], () => {
    drawSlider()
    drawButtons()
  })
  model.on(["label", "note", "doubts"], drawLabel)
  model.on("follow", drawFollow)
  for (const draw of [drawSlider, drawLabel, drawButtons, drawFollow]) draw()
  bar.append(...moves, label, slider, follow)
  return bar
}
