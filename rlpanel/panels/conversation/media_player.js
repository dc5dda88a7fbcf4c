// A player of audio or video. Its source is an address of our own server; the log's addresses are never loaded.

const MEDIA_ADDRESS = /^media\/[\w-]+$/

class MediaPlayer {
  constructor(kind, position) {
    this.kind = kind === "video" ? "video" : "audio"
    this.label = `${this.kind} ${position + 1} of this message`
    this.root = element("div", "player", `${this.kind} …`)
    this.root.dataset.kind = this.kind
  }

  receive({ address, reason }) {
    if (!MEDIA_ADDRESS.test(address ?? "")) {
      this.root.replaceChildren(element("span", "quiet", reason ?? ""))
      return
    }
    this.player = element(this.kind)
    this.player.controls = true
    this.player.preload = "metadata"
    this.player.setAttribute("aria-label", this.label)
    this.player.addEventListener("error", () =>
      this.root.replaceChildren(
        element(
          "span",
          "quiet",
          t("This browser cannot play the {kind}: it is damaged, or its codec is not known.", {
            kind: this.kind,
          }),
        ),
      ),
    )
    this.player.src = address
    this.root.replaceChildren(this.player)
  }

  pause() {
    this.player?.pause()
  }

  stop() {
    this.pause()
    this.player?.removeAttribute("src")
  }
}
