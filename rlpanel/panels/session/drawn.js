// Waits until the browser has drawn what it received.

/** Milliseconds after which a view that is not ready counts as drawn: it may have failed. */
const PATIENCE = 10000

const later = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds))

/** Wait until all views of a page are ready, which Bokeh builds in later tasks, and the browser shows them. */
async function drawn({ root }) {
  const end = performance.now() + PATIENCE
  let ready
  while (ready !== root.ready && performance.now() < end) {
    ready = root.ready // a view that is ready may make others
    // Plots of a hidden page are never ready.
    await Promise.race([ready.catch(() => {}), later(document.hidden ? 1000 : end - performance.now())])
  }
  await nextFrames()
}

/** Wait for the next two frames: plots are drawn in one of them, and a table in a task before. */
async function nextFrames() {
  for (let frame = 0; frame < 2 && !document.hidden; frame += 1) {
    // A page that is hidden in the meantime has no frames.
    await Promise.race([new Promise(requestAnimationFrame), later(1000)])
  }
  await later(0)
}
