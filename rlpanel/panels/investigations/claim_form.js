// Form for a new claim: its fields depend on the kind. Values are sent as they are; the server checks them.

const CLAIM_FIELDS = {
  text: [],
  number: ["metric", "steps", "expected", "tolerance"],
  finding: ["finding"],
  quotation: ["uid", "field", "quote"],
  query: ["question", "options"],
}

function labelled(text, field) {
  const label = element("label", "field")
  label.append(element("span", "", text), field)
  return label
}

function input(name, value = "", hint = "") {
  const field = element("input")
  Object.assign(field, { name, value, placeholder: hint, autocomplete: "off" })
  return field
}

function select(name, options, value) {
  const field = element("select")
  field.name = name
  for (const [key, text] of options) {
    const option = element("option", "", text)
    option.value = key
    option.selected = key === value
    field.append(option)
  }
  return field
}

function area(name, rows, hint) {
  const field = element("textarea")
  Object.assign(field, { name, rows, placeholder: hint })
  return field
}

/** Return the fields of a kind, filled with what the board shows now. */
function fieldsOf(kind, state) {
  const makers = {
    metric: () => [
      t("Number"),
      select(
        "metric",
        (state.metrics ?? []).map((name) => [name, name]),
        "reward_mean",
      ),
    ],
    steps: () => [t("Step, or steps"), input("steps", state.step, "10..20")],
    expected: () => [t("Value"), input("expected", "", t("as it is now"))],
    tolerance: () => [t("Tolerance"), input("tolerance", "", "0")],
    finding: () => [
      t("Finding"),
      select(
        "finding",
        (state.rules ?? []).map((each, at) => [String(at), shownText(each.title)]),
        "0",
      ),
    ],
    uid: () => [t("Sample"), input("uid", state.uid, t("its uid"))],
    field: () => [
      t("Text"),
      select(
        "field",
        ["response", "prompt", "ground_truth", "ref_response"].map((name) => [name, name]),
        "response",
      ),
    ],
    quote: () => [t("Exact words"), area("quote", 2, "")],
    question: () => [
      t("Question"),
      select(
        "question",
        (state.questions ?? []).map((name) => [name, name]),
        "groups",
      ),
    ],
    options: () => [t("Options"), input("options", "", '{"step": 12}')],
  }
  return CLAIM_FIELDS[kind].map((name) => labelled(...makers[name]()))
}

/** Return the claim that the form holds; a text that says what is wrong if it is not valid. */
function claimOf(form, kind, state) {
  const value = (name) => form.querySelector(`[name=${name}]`)?.value ?? ""
  const claim = { kind, text: value("text"), report: value("report").trim() }
  for (const name of ["metric", "steps", "uid", "field", "quote", "question"])
    if (form.querySelector(`[name=${name}]`))
      claim[name] = name === "quote" ? value(name) : value(name).trim()
  for (const name of ["expected", "tolerance"]) {
    if (!value(name).trim()) continue
    const number = Number(value(name))
    if (!Number.isFinite(number)) return t("The value and the tolerance are numbers")
    claim[name] = number
  }
  if (kind === "finding") {
    const chosen = (state.rules ?? [])[Number(value("finding"))]
    if (!chosen) return t("The run has no finding")
    Object.assign(claim, { rule: chosen.rule, subject: chosen.subject })
  }
  if (value("options").trim()) {
    try {
      claim.options = JSON.parse(value("options"))
    } catch {
      return t("The options are no JSON object")
    }
    if (claim.options === null || typeof claim.options !== "object" || Array.isArray(claim.options))
      return t("The options are no JSON object")
  }
  return claim
}

/** Return a folded form; ``send`` gets the claim. */
function claimForm(getState, send) {
  const box = element("details", "claim-form")
  const form = element("form")
  const kinds = [
    ["number", t("a number")],
    ["finding", t("a finding")],
    ["quotation", t("a quotation")],
    ["query", t("a query")],
    ["text", t("text only")],
  ]
  const kind = select("kind", kinds, "number")
  const report = input("report", "", "Report")
  const special = element("div", "fields")
  const wrong = element("p", "wrong")
  wrong.setAttribute("role", "alert")
  const text = area("text", 3, t("Markdown: the sentence that the claim supports"))
  const line = element("div", "fields")
  line.append(labelled(t("Claim"), kind), labelled(t("Report"), report))
  const submit = button("primary", t("Claim this"), "", () => {})
  submit.type = "submit"
  form.append(line, special, labelled(t("Words"), text), submit, wrong)
  /** Draw the fields of the kind; those that stay keep what the viewer wrote. */
  const draw = () => {
    const written = [...special.querySelectorAll("[name]")].map((field) => [field.name, field.value])
    special.replaceChildren(...fieldsOf(kind.value, getState()))
    for (const [name, value] of written) {
      const field = special.querySelector(`[name=${name}]`)
      if (field && value) field.value = value
    }
  }
  let offered = ""
  /** Draw the fields again if the lists that they offer have changed. */
  box.refresh = () => {
    const { metrics, rules, questions } = getState()
    const now = JSON.stringify([metrics, rules, questions])
    if (now === offered) return
    offered = now
    if (box.open) draw()
  }
  kind.addEventListener("change", draw)
  box.addEventListener("toggle", () => {
    if (!box.open) return
    report.value ||= getState().names?.[0] ?? "Report"
    draw()
  })
  form.addEventListener("submit", (event) => {
    event.preventDefault()
    const claim = claimOf(form, kind.value, getState())
    wrong.textContent = typeof claim === "string" ? claim : ""
    if (typeof claim !== "string") send(claim)
  })
  box.append(element("summary", "", t("Add a claim")), form)
  return box
}
