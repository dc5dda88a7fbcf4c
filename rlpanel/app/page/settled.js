// Until the board is drawn, `rlpanel.settled()` waits for it; see browser_pace.js.
globalThis.rlpanel = {
  settled: () =>
    new Promise((done) => {
      document.addEventListener("rlpanel-settled", () => done(globalThis.rlpanel.settled()), { once: true })
    }),
}
