// Bars as rows of a table: a screen reader reads label, value and note.
"use strict";
(function (P) {
  const cell = (role, name, ...children) => P.h("div", { role, class: name }, children);

  P.blocks.bars = (block) => P.figure(block, (view, body) => {
    const largest = Math.max(...view.rows.map((row) => row.high ?? row.value), 0) || 1;
    const rows = view.rows.map((row) => {
      const bar = P.h("div", { class: "bar" });
      bar.style.width = `${100 * row.value / largest}%`;
      const parts = [bar];
      if (row.low !== undefined && row.high > row.low) {
        const range = P.h("div", { class: "range" });
        range.style.left = `${100 * row.low / largest}%`;
        range.style.width = `${100 * (row.high - row.low) / largest}%`;
        parts.push(range);
      }
      return P.h("div", { role: "row", class: row.best ? "bar-row best" : "bar-row" },
        cell("rowheader", "label", row.label, row.best ? P.h("span", { class: "badge" }, row.badge || "best") : null),
        cell("cell", "track", parts), cell("cell", "value", row.text),
        block.note_title ? cell("cell", "note", row.note || "-") : null);
    });
    const heads = ["configuration", "", view.name, ...(block.note_title ? [block.note_title] : [])];
    const better = view.better ? (view.better === "less" ? "less is better" : "more is better") : "";
    const head = P.h("div", { role: "row", class: "bar-row head" },
      heads.map((title, number) => cell("columnheader", ["label", "track", "value", "note"][number], number === 1 ? better || "bar" : title)));
    body.append(P.h("div", { role: "table", class: block.note_title ? "bars noted" : "bars", "aria-label": `${block.title}: ${view.name}` }, head, rows));
  });

  P.legend = (phases) => P.h("ul", { class: "legend" }, phases.map((phase) => {
    const mark = P.h("span", { class: "mark" });
    mark.style.background = `var(--phase-${phase}, var(--soft))`;
    return P.h("li", {}, mark, phase);
  }));

  // One stacked bar. Parts are phases with their share of `total`.
  P.stack = function (parts, total, text) {
    const track = P.h("div", { class: "stack" });
    for (const [phase, value] of parts) {
      const share = total ? value / total : 0;
      const part = P.h("span", { class: "part", title: `${phase}: ${text(value, share)}`, "data-phase": phase });
      part.style.width = `${100 * share}%`;
      part.style.background = `var(--phase-${phase}, var(--soft))`;
      track.append(part);
    }
    return track;
  };
  P.topParts = (parts, total, text, most = 3) => [...parts].sort((one, other) => other[1] - one[1]).slice(0, most)
    .filter(([, value]) => total && value / total >= 0.005).map(([phase, value]) => `${phase} ${text(value, value / total)}`).join(", ");

  P.blocks.shares = (block) => P.figure(block, (view, body) => {
    const isShare = view.unit === "%";
    const text = (value, share) => (isShare ? P.percent(share) : `${P.number(value)} ${view.unit}`);
    const totals = view.rows.map((row) => Object.values(row.parts).reduce((sum, value) => sum + value, 0));
    const largest = Math.max(...totals, 1e-12);
    const phases = [...new Set(view.rows.flatMap((row) => Object.keys(row.parts)))];
    const rows = view.rows.map((row, number) => {
      const parts = Object.entries(row.parts);
      return P.h("div", { role: "row", class: "bar-row" }, cell("rowheader", "label", row.label),
        cell("cell", "track", P.stack(parts, isShare ? totals[number] : largest, text)),
        cell("cell", "value wide", P.topParts(parts, totals[number], text)));
    });
    const head = P.h("div", { role: "row", class: "bar-row head" }, cell("columnheader", "label", "time of"),
      cell("columnheader", "track", P.legend(phases)), cell("columnheader", "value wide", "largest phases"));
    body.append(P.h("div", { role: "table", class: "bars stacks", "aria-label": block.title }, head, rows));
  });
})(window.Paceline);
