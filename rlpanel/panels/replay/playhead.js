// The playhead of a replay: one for the page, so that conversation and tree stand at the same moment. It runs in the
// browser; the server only sends a score, the times of the events (`replay_score.py`).

const SPEEDS = [0.5, 1, 2, 4, 8, 16, 32]
/** Seconds of a frame that count at most: a window in the background does not jump. */
const LONGEST_FRAME = 0.25

/** Return the number of ascending values that are not above a limit. */
function countUpTo(values, limit) {
  let [low, high] = [0, values.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if (values[middle] <= limit) low = middle + 1
    else high = middle
  }
  return low
}

/** Return a value of one ascending list at the place of another list's value, in between by proportion. */
function between(value, from, to) {
  const at = countUpTo(from, value) - 1
  if (at < 0) return to[0] ?? 0
  if (at >= from.length - 1) return to.at(-1)
  const width = from[at + 1] - from[at]
  return to[at] + (width ? ((value - from[at]) / width) * (to[at + 1] - to[at]) : 0)
}

class Playhead extends EventTarget {
  constructor() {
    super()
    this.score = null
    this.at = 0
    this.speed = 1
    this.isPlaying = false
  }

  /** Events that are shown so far. */
  get count() {
    return this.score ? countUpTo(this.score.shown, this.at + 1e-6) : 0
  }

  /** Unix seconds; null where the log has none. */
  get moment() {
    const { score } = this
    return score?.start == null ? null : score.start + between(this.at, score.shown, score.recorded)
  }

  get length() {
    return this.score?.shown.at(-1) ?? 0
  }

  /** Take the score of a view, at a place of its clock. */
  load(score, at) {
    this.score = score
    this.seek(at)
  }

  seek(at) {
    this.at = Math.min(Math.max(at, 0), this.length)
    this.#tell()
  }

  /** Go to the event before or after, which may be a result. */
  step(by) {
    this.pause()
    const { shown = [] } = this.score ?? {}
    const at = Math.min(Math.max(this.count - 1 + by, 0), shown.length - 1)
    // Of events at the same time, all are shown; the one before stands earlier.
    const target = by < 0 ? shown.findLast((time) => time < shown[Math.max(this.count - 1, 0)]) : shown[at]
    this.seek(target ?? 0)
  }

  toggle() {
    if (this.isPlaying) this.pause()
    else this.play()
  }

  play() {
    if (this.isPlaying || !this.score) return
    if (this.at >= this.length) this.at = 0
    this.isPlaying = true
    this.#tell()
    let before = performance.now()
    const frame = (now) => {
      if (!this.isPlaying) return
      const seconds = Math.min(Math.max(now - before, 0) / 1000, LONGEST_FRAME)
      before = now
      this.at = Math.min(this.at + seconds * this.speed, this.length)
      if (this.at >= this.length) this.isPlaying = false
      this.#tell()
      requestAnimationFrame(frame)
    }
    requestAnimationFrame(frame)
  }

  pause() {
    if (!this.isPlaying) return
    this.isPlaying = false
    this.#tell()
  }

  /** End the replay: everything is shown again. */
  close() {
    this.isPlaying = false
    this.score = null
    this.at = 0
    this.#tell()
  }

  #tell() {
    this.dispatchEvent(new Event("move"))
  }
}

/** The page's only playhead, whichever view was there first. */
const pagePlayhead = () => {
  globalThis.rlpanelPlayhead ??= new Playhead()
  return globalThis.rlpanelPlayhead
}

/** Return where the playhead stands in a view's own clock; null if it plays something else. */
function placeIn(score, playhead) {
  const other = playhead.score
  if (!other || !score?.shown) return null
  if (other === score || (score.uid && other.uid === score.uid)) return playhead.at
  const isEpisode = score.episode && score.episode === other.episode && score.start != null
  if (!isEpisode || playhead.moment === null) return null
  return between(playhead.moment - score.start, score.recorded, score.shown)
}
