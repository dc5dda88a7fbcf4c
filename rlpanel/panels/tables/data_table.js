// A table of one page of rows, drawn by Tabulator; see data_table.py. Rows are sorted, filtered and paged by the server.

/** Pages that the pager names beside the current one. */
const NEAR = 2
/** Milliseconds until a table says that its script is missing; a multiple of 50. */
const SCRIPT_PATIENCE = 5000
/** Pixels that a text keeps where it makes room for the first number. */
const LEAST_TEXT = 90

export function render({ model }) {
  const holder = element("div", "rl-rows")
  const pager = element("div", "tabulator-footer")
  const widths = element("style")
  let table
  let ready = tabulatorLoaded(holder)
  // Changes wait for each other: Tabulator creates a table in a later task, and refuses changes before.
  const then = (change) => {
    ready = ready.then(() => table && change()).catch((error) => console.error(error))
  }

  const named = (field) => model.shape.columns.find((column) => column.field === field)?.name
  // What the table shows, as JSON: Tabulator reports its own redraws as if the viewer had sorted or filtered.
  const known = {}
  const report = (what, value) => {
    const text = JSON.stringify(value)
    if (text !== known[what]) model.send_msg({ [what]: value })
    known[what] = text
  }

  const build = () => {
    ready = ready.then(
      () =>
        new Promise((done) => {
          table?.destroy()
          known.order = JSON.stringify(model.order)
          known.filters = JSON.stringify(model.filters)
          holder.style.setProperty("--rl-row", `${model.shape.rowHeight}px`)
          table = new globalThis.Tabulator(holder, options(model))
          table.on("tableBuilt", () => {
            // Tabulator's role of a group's head does not exist, and a group is not sorted.
            for (const head of holder.querySelectorAll("[role=columngroup]")) {
              for (const name of ["aria-sort", "aria-title"]) head.removeAttribute(name)
              head.setAttribute("role", "none")
            }
            done(undefined)
          })
          table.on("cellClick", (_, cell) => {
            model.send_msg({ pick: [cell.getData().key, named(cell.getField())] })
          })
          table.on("dataSorted", (sorters) => {
            report(
              "order",
              sorters.map(({ field, dir }) => [named(field), dir === "desc"]),
            )
          })
          table.on("dataFiltering", (filters) => {
            report("filters", Object.fromEntries(filters.map(({ field, value }) => [named(field), value])))
          })
        }),
    )
    then(reveal)
    if (model.shape.byRoom) then(measure) // its holder had its size before it was built
    widths.textContent = growing(model.shape.columns)
    then(clear)
  }
  const fill = async () => {
    const data = dataOf(model)
    const rows = table.getRows()
    const moved = rows.map((row) => row.getData().key).join() !== data.map(({ key }) => key).join()
    if (rows.length === data.length) {
      // Cells whose text stays are kept: the browser neither creates nor measures them again.
      table.blockRedraw()
      rows.forEach((row, at) => {
        row.update(data[at])
      })
      table.restoreRedraw()
    } else {
      await table.replaceData(data)
    }
    // A chosen row comes with its rows, or stands elsewhere among new ones.
    if (moved) reveal()
    else mark()
  }
  const order = () => {
    if (known.order === JSON.stringify(model.order)) return
    known.order = JSON.stringify(model.order)
    table.setSort(sortersOf(model))
  }
  const mark = () => {
    for (const row of table.getRows()) {
      const isChosen = row.getData().key === model.chosen
      row.getElement().classList.toggle("tabulator-selected", isChosen)
      row.getElement().ariaSelected = isChosen
    }
  }
  const reveal = () => {
    mark()
    const row = table.getRows().find((each) => each.getData().key === model.chosen)
    if (row) table.scrollToRow(row, "nearest", false).catch(() => {})
  }
  // A cell that the edge cuts looks like another one. The texts give it the room that it lacks; if they have too
  // little, they take its room, so that it is out of view.
  const clear = () => {
    const { columns } = model.shape
    holder.style.setProperty("--rl-spare", "0px")
    holder.style.setProperty("--rl-give", "0px")
    const edge = holder.getBoundingClientRect().right
    const boxOf = ({ field }) =>
      holder.querySelector(`.tabulator-col[tabulator-field="${field}"]`)?.getBoundingClientRect()
    const at = columns.findIndex((column) => {
      const head = column.grow ? null : boxOf(column)
      return head && head.left < edge - 1 && head.right > edge + 1
    })
    // Texts behind the edge have no room to give.
    const texts = columns.slice(0, Math.max(at, 0)).filter(({ grow }) => grow)
    const lacking = (givers) => Math.ceil((boxOf(columns[at]).right - edge) / givers.length)
    const give = (givers, least) =>
      givers.length > 0 && givers.every((column) => boxOf(column)?.width - least(column) >= lacking(givers))
    // The first number beside the texts, the reward, is read before the ends of these.
    if (texts.length === at && give(texts, ({ width }) => Math.min(width, LEAST_TEXT))) {
      holder.style.setProperty("--rl-give", `${-lacking(texts)}px`)
      return
    }
    const growers = texts.filter(({ grow, width }) => grow > width)
    if (!growers.length) return
    const gives = give(growers, ({ width }) => width)
    const spare = gives ? -lacking(growers) : Math.ceil((edge - boxOf(columns[at]).left) / growers.length)
    holder.style.setProperty("--rl-spare", `${spare}px`)
  }
  let fits = 0
  const measure = () => {
    const rows = holder.querySelector(".tabulator-tableholder")?.clientHeight ?? 0
    const fitting = Math.floor(rows / model.shape.rowHeight)
    if (fitting > 0 && fitting !== fits) model.send_msg({ fits: fitting })
    fits = fitting || fits
  }
  const showPages = () => drawPager(pager, model)

  model.on("shape", build)
  model.on("rows", () => then(fill))
  model.on("order", () => then(order))
  model.on("chosen", () => then(reveal))
  model.on(["page", "pages"], showPages)
  model.on("after_render", build)
  // A table that was built while it was hidden has heads of no height: it is drawn again once it has a width.
  let width = 0
  const sized = new ResizeObserver(() => {
    if (!width && holder.clientWidth) then(() => table.redraw(true))
    if (width !== holder.clientWidth) then(clear)
    width = holder.clientWidth
    if (model.shape.byRoom) measure()
  })
  sized.observe(holder)
  model.on("remove", () => {
    sized.disconnect()
    table?.destroy()
    table = null
  })
  showPages()
  const view = element("div", "rl-table")
  view.append(widths, holder, pager)
  return view
}

/** Wait for Tabulator's script: in a page of another tool, such as marimo, it may come after this component. */
async function tabulatorLoaded(holder) {
  for (let waited = 0; !globalThis.Tabulator; waited += 50) {
    if (waited === SCRIPT_PATIENCE) holder.textContent = t("The table's script is still loading …")
    await new Promise((done) => setTimeout(done, 50))
  }
  holder.textContent = ""
}

/** Return the current page as Tabulator's rows. */
function dataOf(model) {
  if (!model.rows) return []
  const { cells, keys } = JSON.parse(model.rows)
  const fields = model.shape.columns.map(({ field }) => field)
  // A text of all rows is sent once; a few texts stand before the digit of each row's.
  const cell = (column = [], at = 0) =>
    Array.isArray(column[0]) ? column[0][column[1][at]] : column[column.length > 1 ? at : 0]
  return keys.map((key, at) => ({
    key,
    ...Object.fromEntries(fields.map((field, of) => [field, cell(cells[of], at)])),
  }))
}

/** Return the style sheet of columns that share the room; one that the viewer has resized keeps its width. */
function growing(columns) {
  const growers = columns.filter(({ grow }) => grow)
  const taken = columns.reduce((sum, { grow, width }) => sum + (grow ? 0 : width), 14)
  let before = ""
  return growers
    .map(({ field, name, width, grow }, at) => {
      const rest = `(100cqw - ${taken}px${before}) / ${growers.length - at}`
      // Where room is scarce the response keeps a third: it is what people read first.
      // Letters are larger on a large screen, and so is what the texts need.
      const most = `calc(${grow}px * var(--rl-letters, 1))`
      const size = `clamp(${width}px, max(${rest}, ${name === "response" ? 34 : 24}cqw), ${most})`
      const spare = `var(--rl-give, 0px) + ${grow > width ? "var(--rl-spare, 0px)" : "0px"}`
      before += ` - ${size}`
      const room = `calc(${size} + ${spare}) !important`
      return `[tabulator-field="${field}"][style*="width: ${width}px"] { width: ${room}; min-width: ${room}; }`
    })
    .join("\n")
}

function sortersOf(model) {
  const field = Object.fromEntries(model.shape.columns.map((column) => [column.name, column.field]))
  return model.order.map(([name, falls]) => ({ column: field[name], dir: falls ? "desc" : "asc" }))
}

function options(model) {
  const { columns, rowHeight, sortable, empty } = model.shape
  const wide = columns.some(({ width }) => !width)
  return {
    data: dataOf(model),
    columns: grouped(columns, sortable),
    columnDefaults: { resizable: "header", headerSortTristate: true },
    initialSort: sortersOf(model),
    initialHeaderFilter: columns
      .filter(({ name }) => name in model.filters)
      .map(({ name, field }) => ({ field, value: model.filters[name] })),
    height: "100%",
    layout: wide ? "fitColumns" : "fitData",
    placeholder: element("div", "tabulator-placeholder-contents", empty),
    renderVertical: "basic", // a page is short
    rowHeight,
    selectableRows: false,
  }
}

/** Return the columns, those of one group below a common head. */
function grouped(columns, sortable) {
  const heads = []
  for (const column of columns) {
    const made = definition(column, sortable)
    const last = heads.at(-1)
    if (!column.group) heads.push(made)
    else if (last?.columns && last.title === column.group) last.columns.push(made)
    else
      heads.push({
        title: column.group,
        titleFormatter: () => document.createTextNode(column.group),
        columns: [made],
      })
  }
  return heads
}

function definition(column, sortable) {
  const { title, tip, field, width, align, image, swatch } = column
  return {
    field,
    title,
    titleFormatter: () => document.createTextNode(title),
    headerTooltip: tip && (() => element("span", "", tip)),
    formatter: image
      ? imageOf
      : swatch
        ? coloredOf
        : (cell) => document.createTextNode(cell.getValue() ?? ""),
    ...(width ? { width } : { minWidth: 130 }), // one that shares the room stays readable on a phone
    hozAlign: align,
    headerHozAlign: align === "right" ? "right" : "left",
    headerSort: sortable,
    sorter: () => 0, // the server has sorted
    ...(column.filter && {
      headerFilter: column.filter === "number" ? "number" : "input",
      headerFilterFunc: () => true, // the server has filtered
      headerFilterPlaceholder: column.filter === "number" ? "≥" : t("contains"),
      // Tab skips it: thirty of them would stand before the rows.
      headerFilterParams: { elementAttributes: { tabindex: "-1", "aria-label": column.filter_label } },
    }),
  }
}

function imageOf(cell) {
  const shown = element("img")
  if (cell.getValue()?.startsWith("data:image/")) shown.src = cell.getValue()
  shown.alt = ""
  return shown
}

/** A number with a square in the colour that it has on its scale; its text keeps the colour of all texts. */
function coloredOf(cell) {
  const [color, text] = (cell.getValue() ?? "\t").split("\t")
  const shown = element("span", "colored", text)
  shown.style.setProperty("--color", color)
  return shown
}

function drawPager(pager, model) {
  const { page, pages } = model
  pager.hidden = pages < 2
  const go = (to, text, title) => {
    const shown = button("tabulator-page", text, title, () => model.send_msg({ page: to }))
    shown.disabled = to < 1 || to > pages
    if (to === page && text === String(to)) {
      shown.classList.add("active")
      shown.ariaCurrent = "page"
    }
    return shown
  }
  const first = Math.max(1, Math.min(page - NEAR, pages - 2 * NEAR))
  const last = Math.min(pages, first + 2 * NEAR)
  const near = Array.from({ length: last - first + 1 }, (_, at) => first + at)
  pager.replaceChildren(
    go(page > 1 ? 1 : 0, t("First"), t("First page")),
    go(page - 1, t("Prev"), t("Previous page")),
    ...near.map((each) => go(each, String(each), t("Show page {page}", { page: each }))),
    go(page + 1, t("Next"), t("Next page")),
    go(page < pages ? pages : pages + 1, t("Last"), t("Last page")),
  )
}
