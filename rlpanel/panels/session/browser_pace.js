// Reports when the browser has drawn a redraw, and how long that took; see browser_pace.py. Offers
// `rlpanel.settled()`: a promise that is kept when all that came of earlier clicks is on the page.

export function render({ model, view }) {
  let since = 0
  model.on("begun", () => {
    since = performance.now()
  })
  model.on("sent", async () => {
    const { sent } = model
    await nextFrames()
    model.send_msg([sent, performance.now() - since])
  })

  const answers = []
  const settled = async () => {
    await new Promise((answer) => {
      model.send_msg(["settled", answers.push(answer) - 1])
    })
    await drawn(view)
  }
  model.on("msg:custom", (number) => answers[number]?.())
  globalThis.rlpanel = { ...globalThis.rlpanel, settled }
  return document.createElement("span")
}
