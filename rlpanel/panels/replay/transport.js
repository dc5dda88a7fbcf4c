// Buttons of a replay: play, one event back and on, a slider, the speed, and what the log lacks. Space plays and
// pauses, the arrow keys go one event back and on.

const clockText = (seconds) => {
  const whole = Math.floor(seconds + 1e-6)
  const minutes = Math.floor(whole / 60)
  const hours = Math.floor(minutes / 60)
  const rest = String(whole % 60).padStart(2, "0")
  return hours ? `${hours}:${String(minutes % 60).padStart(2, "0")}:${rest}` : `${minutes}:${rest}`
}

class Transport {
  /**
   * `begin` returns where the reader is, in the score's clock; `moved` is called with the place, or null without a
   * replay; `isInSight` says whether the view can be seen.
   */
  constructor({ begin, moved, isInSight }) {
    this.begin = begin
    this.moved = moved
    this.isInSight = isInSight
    this.playhead = pagePlayhead()
    this.score = null
    this.place = null
    this.toggle = button("replay-toggle", t("Replay"), t("Replay this rollout event by event"), () =>
      this.#open(),
    )
    this.root = element("div", "replay")
    this.root.setAttribute("role", "group")
    this.root.setAttribute("aria-label", t("Replay"))
    this.play = button("play", "▶", t("Play (space)"), () => this.#act(() => this.playhead.toggle()))
    this.slider = element("input", "seek")
    Object.assign(this.slider, { type: "range", min: 0, step: "any", title: t("Place in the replay") })
    this.slider.setAttribute("aria-label", t("Place in the replay"))
    this.slider.addEventListener("input", () =>
      this.#act(() => this.playhead.seek(Number(this.slider.value))),
    )
    this.time = element("output", "time")
    this.speed = element("select", "speed")
    this.speed.title = t("Speed")
    this.speed.setAttribute("aria-label", t("Speed"))
    this.speed.append(
      ...SPEEDS.map((speed) => Object.assign(element("option", "", `${speed} ×`), { value: String(speed) })),
    )
    this.speed.addEventListener("change", () => {
      this.playhead.speed = Number(this.speed.value)
      this.playhead.seek(this.playhead.at)
    })
    this.notes = element("p", "replay-notes")
    const bar = element("div", "replay-bar")
    bar.append(
      button("step", "‹", t("One event back (←)"), () => this.#act(() => this.playhead.step(-1))),
      this.play,
      button("step", "›", t("One event on (→)"), () => this.#act(() => this.playhead.step(1))),
      this.slider,
      this.time,
      this.speed,
      button("step", "×", t("End the replay"), () => this.playhead.close()),
    )
    this.root.append(bar, this.notes)
    this.onMove = () => this.#draw()
    this.playhead.addEventListener("move", this.onMove)
    this.onKey = (event) => this.#onKey(event)
    // Before the page's own keys: the arrow keys change its step.
    document.addEventListener("keydown", this.onKey, true)
    this.show(null)
  }

  /** Take the score of what the view shows; null if there is nothing to play. */
  show(score) {
    const { playhead } = this
    this.score = score?.shown ? score : null
    this.toggle.hidden = !this.score
    const isSame = this.score?.uid && playhead.score?.uid === this.score.uid
    if (isSame) playhead.score = this.score // the same sample, read again
    this.notes.textContent = (score?.notes ?? []).join(" ")
    this.slider.max = this.score?.shown.at(-1) ?? 0
    this.#draw()
  }

  /** Show everything up to a place, if a replay is running. */
  reveal(at) {
    if (this.place !== null && this.place < at) this.#act(() => this.playhead.seek(at))
  }

  destroy() {
    this.playhead.removeEventListener("move", this.onMove)
    document.removeEventListener("keydown", this.onKey, true)
  }

  #open() {
    if (this.place === null) this.playhead.load(this.score, this.begin())
    else this.playhead.close()
  }

  /** Do something with the playhead, which then follows the clock of this view. */
  #act(act) {
    if (!this.score) return
    if (this.playhead.score !== this.score) this.playhead.load(this.score, this.place ?? this.begin())
    act()
  }

  #draw() {
    const { playhead, score } = this
    this.place = placeIn(score, playhead)
    const isOpen = this.place !== null
    this.root.hidden = !isOpen
    this.toggle.setAttribute("aria-pressed", isOpen)
    if (isOpen) {
      this.play.textContent = playhead.isPlaying ? "❚❚" : "▶"
      this.play.ariaLabel = playhead.isPlaying ? t("Pause (space)") : t("Play (space)")
      this.play.title = this.play.ariaLabel
      this.speed.value = String(playhead.speed)
      const count = countUpTo(score.shown, this.place + 1e-6)
      const events = score.shown.length
      // With reduced motion, slider and time move from event to event only.
      const shown = REDUCED.matches ? (score.shown[count - 1] ?? 0) : this.place
      this.slider.value = shown
      const event = t("{count} of {events}", {
        count: count.toLocaleString("en"),
        events: events.toLocaleString("en"),
      })
      const recorded = between(shown, score.shown, score.recorded)
      this.time.textContent = score.timed
        ? `${clockText(recorded)} / ${clockText(score.recorded.at(-1))} · ${event}`
        : event
    }
    this.moved(this.place)
  }

  #onKey(event) {
    const isChord = event.ctrlKey || event.metaKey || event.altKey || event.shiftKey
    if (this.place === null || isChord || !this.isInSight()) return
    const path = event.composedPath().filter((node) => node.matches)
    const inside = path.includes(this.root)
    if (
      path.some((node) => node.matches("input:not(.seek), textarea, select, dialog[open], [contenteditable]"))
    )
      return
    if (
      !inside &&
      path.some((node) => node.matches("[role=tab], [role=slider], [role=separator], .tabulator"))
    )
      return
    if (event.key === " ") {
      if (path[0].matches("button, a, summary")) return
      this.#act(() => this.playhead.toggle())
    } else if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      this.#act(() => this.playhead.step(event.key === "ArrowLeft" ? -1 : 1))
    } else return
    event.preventDefault()
    event.stopImmediatePropagation()
  }
}

const REDUCED = globalThis.matchMedia("(prefers-reduced-motion: reduce)")
