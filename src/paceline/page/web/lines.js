// Lines over time, updates or examples, drawn by uPlot in panels below each other. Dragging zooms all panels of a figure.
"use strict";
(function (P) {
  const PANEL_HEIGHT = 190, LAST_EXTRA = 28;

  // Merges lines with different x values into the columns that uPlot needs: one x column, one y column per line.
  P.columns = function (lines) {
    const same = lines.every((line) => line.x === lines[0].x || (line.x.length === lines[0].x.length && line.x.every((value, at) => value === lines[0].x[at])));
    if (same) return [lines[0].x, ...lines.map((line) => line.y)];
    const xs = [...new Set(lines.flatMap((line) => line.x))].sort((one, other) => one - other);
    const at = new Map(xs.map((value, number) => [value, number]));
    return [xs, ...lines.map((line) => {
      const column = new Array(xs.length).fill(undefined);
      line.x.forEach((value, number) => { column[at.get(value)] = line.y[number]; });
      return column;
    })];
  };

  // Bands of faults and lines of incidents behind the lines.
  P.markPlugin = (marks) => ({
    hooks: {
      drawAxes: [(plot) => {
        const { ctx, bbox } = plot;
        ctx.save();
        ctx.beginPath(); ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height); ctx.clip();
        for (const mark of marks()) {
          const colour = P.colour(mark.kind === "fault" ? "fault" : "incident");
          const x = plot.valToPos(mark.at, "x", true), until = mark.until ?? (mark.lasts ? plot.scales.x.max : mark.at);
          const end = plot.valToPos(until, "x", true);
          ctx.fillStyle = colour; ctx.strokeStyle = colour; ctx.lineWidth = 2 * devicePixelRatio;
          if (end > x + 1) { ctx.globalAlpha = 0.2; ctx.fillRect(x, bbox.top, end - x, bbox.height); ctx.globalAlpha = 1; }
          ctx.setLineDash(mark.kind === "fault" ? [] : [6 * devicePixelRatio, 4 * devicePixelRatio]);
          ctx.beginPath(); ctx.moveTo(x, bbox.top); ctx.lineTo(x, bbox.top + bbox.height); ctx.stroke();
        }
        ctx.restore();
      }],
    },
  });

  const limitPlugin = (limits) => ({
    hooks: {
      draw: [(plot) => {
        const { ctx, bbox } = plot;
        ctx.save();
        ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`; ctx.fillStyle = ctx.strokeStyle = P.colour("bad");
        ctx.lineWidth = 1.5 * devicePixelRatio; ctx.setLineDash([2 * devicePixelRatio, 4 * devicePixelRatio]); ctx.textAlign = "left"; ctx.textBaseline = "bottom";
        for (const limit of limits) {
          const y = plot.valToPos(limit.value, "y", true);
          if (y < bbox.top || y > bbox.top + bbox.height) continue;
          ctx.beginPath(); ctx.moveTo(bbox.left, y); ctx.lineTo(bbox.left + bbox.width, y); ctx.stroke();
          ctx.fillText(limit.name, bbox.left + 6 * devicePixelRatio, y - 4 * devicePixelRatio);
        }
        ctx.restore();
      }],
    },
  });

  function axis(more) {
    return { stroke: P.colour("soft"), grid: { stroke: P.colour("line"), width: 1 }, ticks: { stroke: P.colour("line"), width: 1 }, font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif", ...more };
  }
  const labels = (_, values) => values.map((value) => (value === null ? "" : Math.abs(value) >= 1e4 ? P.number(value) : String(Number(value.toPrecision(6)))));

  // The options of a panel. `onRange` is called with the new range of x after zooming.
  P.panelOptions = function (panel, { width, xTitle, marks, onRange, live }) {
    const limits = panel.limits || [];
    const highest = Math.max(0, ...limits.map((limit) => limit.value));
    const range = panel.log ? undefined : (_, low, high) => {
      const top = Math.max(high ?? 1, Number.isFinite(highest) && (high ?? 0) > highest * 0.4 ? highest * 1.05 : 0) || 1;
      return panel.zero ? [0, top * 1.06 || 1] : low === high ? [low - Math.abs(low || 1) * 0.1, high + Math.abs(high || 1) * 0.1] : [low - (top - low) * 0.05, top + (top - low) * 0.05];
    };
    return {
      width, height: PANEL_HEIGHT + (xTitle ? LAST_EXTRA : 0), ms: 1, legend: { show: !live, live: true },
      cursor: { drag: { x: true, y: false }, points: { size: 6 }, sync: { key: onRange ? onRange.key : null } },
      scales: { x: { time: false }, y: { distr: panel.log ? 3 : 1, ...(range ? { range } : {}) } },
      series: [{ label: xTitle || "at", value: (_, value) => (value === null || value === undefined ? "-" : P.number(value)) }, ...panel.lines.map((line) => ({
        label: line.name, stroke: line.phase ? P.phaseColour(line.phase) : P.lineColour(line.colour || 0), width: line.thin ? 1 : 2, dash: line.dashed ? [5, 4] : undefined,
        spanGaps: true, points: { show: Boolean(line.points), size: 5 }, value: (_, value) => P.number(value),
      }))],
      axes: [axis({ label: xTitle || undefined, labelSize: xTitle ? 20 : 0, size: 30, values: labels }), axis({ label: panel.title, size: 62, labelSize: 24, values: panel.log ? undefined : labels })],
      plugins: [P.markPlugin(marks), limitPlugin(limits)],
      hooks: onRange ? { setSelect: [(plot) => { if (plot.select.width > 4) onRange(plot.posToVal(plot.select.left, "x"), plot.posToVal(plot.select.left + plot.select.width, "x")); }] } : {},
    };
  };

  function values(view) {
    const table = P.h("table", { class: "plain" });
    const fold = P.h("details", { class: "values" }, P.h("summary", {}, "Values"), P.h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Values of the lines" }, table));
    fold.addEventListener("toggle", () => {
      if (!fold.open || table.rows.length) return;
      table.append(P.h("thead", {}, P.h("tr", {}, ["", "line", "first", "lowest", "highest", "last"].map((name) => P.h("th", { scope: "col" }, name || P.h("span", { class: "only-read" }, "panel"))))));
      const body = P.h("tbody");
      for (const panel of view.panels) {
        for (const line of panel.lines) {
          const known = line.y.filter((value) => value !== null && value !== undefined);
          const low = known.reduce((one, other) => Math.min(one, other), Infinity), high = known.reduce((one, other) => Math.max(one, other), -Infinity);
          body.append(P.h("tr", {}, [panel.title, line.name].map((text) => P.h("td", {}, text)),
            (known.length ? [known[0], low, high, known[known.length - 1]] : []).map((value) => P.h("td", { class: "number" }, P.number(value)))));
        }
      }
      table.append(body);
    });
    return fold;
  }

  P.markList = (marks) => (marks && marks.length ? P.h("ul", { class: "marks" }, marks.slice(0, 40).map((mark) =>
    P.h("li", { class: mark.kind }, `${mark.at.toFixed(1)}${mark.until ? `–${mark.until.toFixed(1)}` : ""} s: ${mark.kind}: ${mark.text}`))) : null);

  P.blocks.lines = (block) => P.figure(block, (view, body) => {
    const overTime = view.x_title.includes("(s)"), marks = () => (overTime ? block.marks || [] : []);
    const plot = P.h("div", { class: "plot lines", role: "img", "aria-label": `${block.title}: ${view.panels.map((panel) => panel.title).join(", ")} over ${view.x_title}; the values are in the table below` });
    const reset = P.h("button", { type: "button", hidden: true }, "show all");
    let shown = [], full = null;
    const zoom = (low, high) => { shown.forEach((one) => one.setScale("x", { min: low, max: high })); reset.hidden = low === full[0] && high === full[1]; };
    zoom.key = P.id("cursor");
    reset.addEventListener("click", () => zoom(...full));
    P.put(body, P.h("div", { class: "plot-tools" }, reset), plot, overTime ? P.markList(block.marks) : null, values(view));
    P.drawWhenSeen(plot, () => {
      shown.forEach((one) => one.destroy());
      plot.replaceChildren();
      const width = Math.max(260, plot.clientWidth);
      const drawn = view.panels.filter((panel) => panel.lines.length);
      const xs = drawn.flatMap((panel) => panel.lines.flatMap((line) => [line.x[0], line.x[line.x.length - 1]])).filter((value) => value !== undefined);
      full = [Math.min(...xs), Math.max(...xs)];
      shown = drawn.map((panel, number) => {
        const one = new uPlot(P.panelOptions(panel, { width, xTitle: number === drawn.length - 1 ? view.x_title : "", marks, onRange: zoom }), P.columns(panel.lines), plot);
        one.over.addEventListener("dblclick", () => zoom(...full));
        return one;
      });
      if (full[0] < full[1]) zoom(...full);
    });
  });
})(window.Paceline);
