// Reports when the browser has drawn a redraw, and how long that took; see browser_pace.py.

export function render({ model }) {
  let since = 0
  model.on("begun", () => {
    since = performance.now()
  })
  model.on("sent", () => {
    const { sent } = model
    const done = () => model.send_msg([sent, performance.now() - since])
    // Plots are drawn in the next frame or in the one after it. A hidden page has no frames.
    if (document.hidden) {
      done()
    } else {
      nextFrame(() => nextFrame(() => setTimeout(done)))
    }
  })
  return document.createElement("span")
}

// Call back in the next frame, or after a second if the page is hidden in the meantime.
function nextFrame(callback) {
  let called = false
  const once = () => {
    if (!called) {
      called = true
      callback()
    }
  }
  requestAnimationFrame(once)
  setTimeout(once, 1000)
}
