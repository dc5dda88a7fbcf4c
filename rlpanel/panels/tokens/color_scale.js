// Colour scales: a ramp from the surface colour per row, and a legible text colour for each of its steps.

const STEPS = 256
const STRONGEST = 0.86 // share of the end colour at most, so that coloured text is less strong than a button

function parseColor(text) {
  const hex = text.trim().replace("#", "")
  const full = hex.length === 3 ? [...hex].map((c) => c + c).join("") : hex
  return [0, 2, 4].map((start) => parseInt(full.slice(start, start + 2), 16))
}

const toLinear = (c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4)
const toByte = (c) =>
  Math.round(255 * Math.min(1, Math.max(0, c <= 0.0031308 ? 12.92 * c : 1.055 * c ** (1 / 2.4) - 0.055)))

/** sRGB to OKLab (Ottosson 2020), a colour space in which equal steps look equal. */
function toLab(rgb) {
  const [r, g, b] = rgb.map(toLinear)
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b)
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b)
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b)
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ]
}

/** @param {number[]} lab */
function fromLab([L, a, b]) {
  const l = (L + 0.3963377774 * a + 0.2158037573 * b) ** 3
  const m = (L - 0.1055613458 * a - 0.0638541728 * b) ** 3
  const s = (L - 0.0894841775 * a - 1.291485548 * b) ** 3
  return [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ].map(toByte)
}

function luminance(rgb) {
  const [r, g, b] = rgb.map(toLinear)
  return 0.2126 * r + 0.7152 * g + 0.0722 * b
}

/** WCAG contrast ratio. */
function contrast(first, second) {
  const [dark, light] = [luminance(first), luminance(second)].sort((a, b) => a - b)
  return (light + 0.05) / (dark + 0.05)
}

const css = (rgb) => `rgb(${rgb.join(", ")})`

/** The theme's text colour if its contrast is 4.5 : 1 or more; else black or white, one of which suffices. */
function inkFor(background, text) {
  return [text, [0, 0, 0], [255, 255, 255]].find((ink) => contrast(ink, background) >= 4.5)
}

/** STEPS + 1 colours from `below` through the surface colour to `above`; a sequential ramp has no `below`. */
function makeRamp(surface, text, above, below) {
  const middle = toLab(surface)
  const mix = (end, t) => fromLab(toLab(end).map((c, k) => middle[k] + (c - middle[k]) * t * STRONGEST))
  const colors = Array.from({ length: STEPS + 1 }, (_, step) => {
    const t = below ? (2 * step) / STEPS - 1 : step / STEPS
    return t < 0 ? mix(below, -t) : mix(above, t)
  })
  return { backgrounds: colors.map(css), inks: colors.map((color) => css(inkFor(color, text))) }
}

const CATEGORIES = 6

/** The colours of categories by their numbers, as `makeRamp` returns those of a scale. */
function categoryRamp(text, color, ramps) {
  if (!ramps.has("categories")) {
    const colors = Array.from({ length: CATEGORIES }, (_, k) => color(`category${k}`))
    const inks = colors.map((background) => css(inkFor(background, text)))
    ramps.set("categories", { backgrounds: colors.map(css), inks })
  }
  return ramps.get("categories")
}

/** Read the theme from the element's CSS variables; called again when the theme changes. */
function makePalette(element) {
  const style = getComputedStyle(element)
  const color = (name) => parseColor(style.getPropertyValue(`--rl-${name}`) || "#888888")
  const [surface, text] = [color("surface"), color("text")]
  const ramps = new Map()
  return {
    valid: style.getPropertyValue("--rl-surface") !== "", // empty while the element is not in the page
    font: style.getPropertyValue("--rl-font"),
    name: (name) => css(color(name)),
    ramp(row) {
      if (row.categories) return categoryRamp(text, color, ramps)
      const key = row.scale === "diverging" ? "diverging" : row.color
      if (!ramps.has(key)) {
        const diverging = key === "diverging"
        const above = color(diverging ? "above" : key)
        ramps.set(key, makeRamp(surface, text, above, diverging ? color("below") : null))
      }
      return ramps.get(key)
    },
  }
}

/** What a scale is taken from: all samples of the run, those of the step, or the values of this sample. */
const SCALES = ["run", "step", "sample"]

const isBothSided = ([low, high]) => low < 0 && high > 0

/** Give each row the ends of its colours on the chosen scale; where the run keeps none, the sample's own. */
function scaleRows(rows, scales, choice) {
  for (const row of rows) {
    row.own ??= { lo: row.lo, hi: row.hi, flip: row.flip }
    const kept = scales[choice] ?? {}
    const ends = !row.categories && Object.hasOwn(kept, row.name) ? kept[row.name] : undefined
    if (row.logged) row.scale = isBothSided(ends ?? [row.least, row.most]) ? "diverging" : "sequential"
    const flip = ends && row.scale !== "diverging" && (row.sure || Math.abs(ends[0]) > Math.abs(ends[1]))
    Object.assign(row, ends ? { lo: ends[0], hi: ends[1], flip } : row.own)
    row.scaledBy = ends ? choice : "sample"
  }
}

/** Whether a finite value lies beyond the ends of the scale; it then has the colour of the end and a mark. */
function isBeyond(row, x) {
  if (row.categories || !Number.isFinite(x)) return false
  const slack = 1e-6 * (row.hi - row.lo) // values are 32-bit floats
  return x > row.hi + slack || x < row.lo - slack
}

/** Whether a diverging row's range excludes the neutral value; it then uses the colours of one side. */
const isOneSided = (row) => row.scale === "diverging" && (row.lo > row.around || row.hi < row.around)
const isAbove = (row) => row.lo > row.around

/** The colours from the row's lower to its upper bound. */
function rampOf(palette, row) {
  const { backgrounds } = palette.ramp(row)
  const half = STEPS / 2
  const colors = isOneSided(row)
    ? isAbove(row)
      ? backgrounds.slice(half)
      : backgrounds.slice(0, half + 1)
    : backgrounds
  return row.flip ? colors.toReversed() : colors
}

/** The row's colours as a CSS gradient. */
function gradientOf(palette, row) {
  if (row.categories) {
    const colors = [...row.categories.values()].map(({ color }) => palette.ramp(row).backgrounds[color])
    const edge = (k) => `${(100 * k) / colors.length}%`
    return `linear-gradient(to right, ${colors.map((color, k) => `${color} ${edge(k)} ${edge(k + 1)}`).join(", ")})`
  }
  const stops = rampOf(palette, row).filter((_, step) => step % 16 === 0)
  return `linear-gradient(to right, ${stops.join(", ")})`
}

/** The index of a value's colour in its ramp; -1 for NaN. */
function stepOf(row, x) {
  if (row.categories) return row.categories.get(x)?.color ?? -1
  if (Number.isNaN(x)) return -1
  const t = Math.min(1, Math.max(0, (x - row.lo) / (row.hi - row.lo)))
  if (isOneSided(row)) return Math.round((isAbove(row) ? 1 + t : t) * (STEPS / 2))
  return Math.round((row.flip ? 1 - t : t) * STEPS)
}
