// Tables that sort by any column. All cells are shown in full: a wide table scrolls inside of its frame.
"use strict";
(function (P) {
  const text = (cell) => (Array.isArray(cell) ? cell[0] : cell);
  const value = (cell) => (Array.isArray(cell) ? cell[1] : null);
  const order = new Intl.Collator("en", { numeric: true }).compare;

  // Compares two cells of a column; missing values come last in both directions.
  P.compareCells = function (one, other, numeric, sign) {
    const [a, b] = numeric ? [value(one), value(other)] : [text(one), text(other)];
    const [noA, noB] = [a === null || a === undefined || a === "", b === null || b === undefined || b === ""];
    if (noA || noB) return noA - noB;
    return sign * (numeric ? a - b : order(a, b));
  };

  P.blocks.table = function (block) {
    const numeric = block.columns.map((_, at) => block.rows.some((row) => typeof value(row[at]) === "number"));
    const wordy = block.columns.map((_, at) => block.rows.some((row) => text(row[at]).length > 40));
    const look = (at) => (numeric[at] ? "number" : wordy[at] ? "wordy" : null);
    let sorted = null;
    const body = P.h("tbody");
    const fillBody = (rows) => body.replaceChildren(...rows.map((row) => P.h("tr", {}, row.map((cell, at) =>
      P.h(at === 0 ? "th" : "td", { class: look(at), scope: at === 0 ? "row" : null, title: typeof value(cell) === "number" ? String(value(cell)) : null, "data-value": value(cell) }, text(cell))))));
    const heads = block.columns.map((name, at) => P.h("th", { scope: "col", class: numeric[at] ? "number" : null, "aria-sort": "none" },
      P.h("button", { type: "button", onclick: () => sortBy(at) }, name)));
    function sortBy(at) {
      const descending = sorted && sorted.at === at ? !sorted.descending : numeric[at];
      sorted = { at, descending };
      heads.forEach((head, other) => head.setAttribute("aria-sort", other === at ? (descending ? "descending" : "ascending") : "none"));
      fillBody([...block.rows].sort((one, other) => P.compareCells(one[at], other[at], numeric[at], descending ? -1 : 1)));
    }
    fillBody(block.rows);
    const heading = P.h("h3", { id: P.id("table") }, block.title);
    return P.h("div", { class: "table-block", "data-key": block.key }, heading, block.note ? P.h("p", { class: "soft" }, block.note) : null,
      P.h("div", { class: "scroll", tabindex: "0", role: "region", "aria-labelledby": heading.id }, P.h("table", {}, P.h("thead", {}, P.h("tr", {}, heads)), body)));
  };
})(window.Paceline);
