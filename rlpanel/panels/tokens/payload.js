// Decodes the payload of token_payload.py and formats the values of its rows.

const KIND = { PLAIN: 0, EMPTY: 1, FRAGMENT: 2, CONTROL: 3, SPECIAL: 4, PAD: 5, INDEX: 6 }
const SEPARATOR = 0xff // a byte that UTF-8 never uses

/** Split bytes at the separator and decode each text. */
function splitTexts(bytes) {
  const decoder = new TextDecoder()
  const texts = []
  let start = 0
  for (let end = 0; end < bytes.length; end++) {
    if (bytes[end] === SEPARATOR) {
      texts.push(decoder.decode(bytes.subarray(start, end)))
      start = end + 1
    }
  }
  return texts
}

/** Decode an array that lossless() in token_payload.py encoded. */
function readInput({ type, data }) {
  if (type === "f4") return new Float32Array(data)
  if (type === "f8") return new Float64Array(data)
  const special = new Map([
    [-(2 ** 31), NaN],
    [-(2 ** 31) + 1, -Infinity],
    [2 ** 31 - 1, Infinity],
  ])
  return Float64Array.from(new Int32Array(data), (x) => special.get(x) ?? x / 1e6)
}

/** Values of a row: a slice of the shared floats, one constant, or computed by a formula. */
function rowValues(row, floats, inputs) {
  if (row.at === -2)
    return computeRow(
      row.name,
      row.needs.map((need) => inputs.get(need)),
    )
  if (row.at < 0) return new Float32Array(row.size).fill(row.constant)
  return floats.subarray(row.at, row.at + row.size)
}

/** The categories of a row of whole numbers by their values. */
function readCategories(categories) {
  return new Map(categories.map(([value, color, name]) => [value, { color, name }]))
}

/** The rows: each has its metric's declaration, its packed attributes and its values. */
function readRows({ rows, inputs }, metrics, floats) {
  const arrays = new Map(Object.entries(inputs ?? {}).map(([name, packed]) => [name, readInput(packed)]))
  return (rows?.name ?? []).map((name, k) => {
    const row = { ...(rows.logged?.[k] ?? metrics[name]) }
    for (const [key, column] of Object.entries(rows)) row[key] = column[k]
    row.categories = row.categories?.length ? readCategories(row.categories) : null
    row.values = rowValues(row, floats, arrays)
    return row
  })
}

/** The token that a vocabulary of this encoding usually has for a text; the server sends the exceptions. */
function spell(text, encoding) {
  if (encoding === "byte-level") return text.replaceAll(" ", "Ġ").replaceAll("\n", "Ċ")
  return encoding === "sentencepiece" ? text.replaceAll(" ", "▁") : text
}

/** The token as logged if it differs from its text; else empty. */
function rawPiece(sample, i) {
  const raw = sample.raws?.[i] || spell(sample.texts[i], sample.encoding)
  return raw === sample.texts[i] ? "" : raw
}

/** Whether the loss mask excludes the token. */
const isOutside = (sample, i) => Boolean(sample.outside && (sample.outside[i >> 3] >> (i & 7)) & 1)

/** Decode the payload; `cells` is the number of positions, with or without token texts. */
function readSample(payload, metrics) {
  const floats = new Float32Array(payload.values ?? new ArrayBuffer(0))
  const kinds = new Uint8Array(payload.kinds ?? new ArrayBuffer(0))
  return {
    state: payload.state,
    plain: payload.plain ?? "",
    tokens: payload.tokens ?? 0,
    cells: payload.cells ?? 0,
    texts: splitTexts(new Uint8Array(payload.texts ?? new ArrayBuffer(0))),
    raws: payload.raws ? splitTexts(new Uint8Array(payload.raws)) : null,
    ids: payload.ids ? new Int32Array(payload.ids) : null,
    kinds,
    encoding: payload.encoding ?? "plain",
    outside: payload.outside ? new Uint8Array(payload.outside) : null,
    rows: readRows(payload, metrics, floats),
    notes: payload.notes ?? [],
    alternatives: payload.alternatives ?? null,
  }
}

/** The text at a position; without token texts its id or its index. */
function cellText(sample, i) {
  if (i < sample.texts.length) return sample.texts[i]
  return sample.ids && i < sample.ids.length ? `#${sample.ids[i]}` : `#${i}`
}

function cellKind(sample, i) {
  return i < sample.texts.length ? sample.kinds[i] : KIND.INDEX
}

/** As Number.toFixed, but an exact tie goes to the even digit, as in Python. */
function toFixed(x, digits) {
  const halves = x * 2 ** (digits + 1)
  if (!Number.isInteger(halves) || halves % 2 === 0) return x.toFixed(digits) // not an exact tie
  const below = Math.floor(x * 10 ** digits)
  return ((below + (below & 1)) / 10 ** digits).toFixed(digits)
}

/** Whether the row's colours diverge from zero. */
const isSigned = (row) => row.scale === "diverging" && row.around === 0

/** A value as text with the row's decimals; a plus sign if the row diverges from zero, no sign for zero. */
function formatValue(row, x) {
  if (x === undefined) return "—"
  const category = row.categories?.get(x)
  if (category) return category.name
  if (Number.isNaN(x)) return "NaN"
  if (!Number.isFinite(x)) return x > 0 ? "+inf" : "-inf"
  const text = Math.abs(x) >= 1e7 ? x.toExponential(4) : toFixed(x, row.digits)
  if (!/[1-9]/.test(text)) return text.replace("-", "")
  return isSigned(row) && x > 0 ? `+${text}` : text
}

/** A number in a legend: two decimals, fewer if it is large. */
function formatShort(x, signed = false) {
  if (!Number.isFinite(x)) return ""
  const size = Math.abs(x)
  const text = size >= 1e5 ? x.toExponential(1) : x.toFixed(size >= 1000 ? 0 : size >= 100 ? 1 : 2)
  if (!/[1-9]/.test(text)) return text.replace("-", "")
  return signed && x > 0 ? `+${text}` : text
}

/** Both ends of a range as texts with a true minus; in powers of ten if two decimals would show only zeros. */
function formatRange(low, high, signed = false) {
  const tiny = Math.max(Math.abs(low), Math.abs(high)) < 0.01
  return [low, high].map((x) =>
    (tiny && x !== 0 ? x.toExponential(0) : formatShort(x, signed)).replaceAll("-", "−"),
  )
}

/** The requested row; for a hidden KL estimator the visible KL row; else the first row with a range. */
function chooseRow(rows, requested) {
  return (
    rows.find((row) => row.name === requested) ??
    (requested.startsWith("kl_") ? rows.find((row) => row.name.startsWith("kl_")) : undefined) ??
    rows.find((row) => row.short === "") ??
    rows[0] ??
    null
  )
}
