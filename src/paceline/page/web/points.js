// Few points on two axes, as SVG: trade-offs, scaling and batch sizes.
"use strict";
(function (P) {
  const HEIGHT = 340, LEFT = 74, RIGHT = 16, TOP = 14, BOTTOM = 46;

  function scale(axis, values, from, to) {
    let low = Math.min(...values), high = Math.max(...values);
    const log = axis.log && low > 0;
    if (axis.zero) low = 0;
    if (low === high) { low = axis.zero ? 0 : low * 0.9 - (low ? 0 : 1); high = high * 1.1 || 1; }
    if (log) { low /= 1.15; high *= 1.15; } else { const pad = (high - low) * 0.07; high += pad; if (!axis.zero) low -= pad; }
    const place = log
      ? (value) => from + (to - from) * (Math.log(value) - Math.log(low)) / (Math.log(high) - Math.log(low))
      : (value) => from + (to - from) * (value - low) / (high - low);
    const ticks = axis.ticks && axis.ticks.length ? axis.ticks : log
      ? [1, 2, 5].flatMap((factor) => Array.from({ length: 24 }, (_, power) => factor * 10 ** (power - 12))).sort((a, b) => a - b)
      : P.ticks(low, high, Math.max(3, Math.round(Math.abs(to - from) / (from < to ? 90 : 45))));
    return { place, ticks: ticks.filter((tick) => tick >= low && tick <= high) };
  }

  function frame(svg, view, x, y, width) {
    for (const tick of x.ticks) {
      svg.append(P.s("line", { class: "grid", x1: x.place(tick), x2: x.place(tick), y1: TOP, y2: HEIGHT - BOTTOM }),
        P.s("text", { class: "tick", x: x.place(tick), y: HEIGHT - BOTTOM + 18, "text-anchor": "middle" }, P.number(tick).replace(/\.00$/, "")));
    }
    for (const tick of y.ticks) {
      svg.append(P.s("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y.place(tick), y2: y.place(tick) }),
        P.s("text", { class: "tick", x: LEFT - 8, y: y.place(tick) + 4, "text-anchor": "end" }, P.number(tick).replace(/\.00$/, "")));
    }
    svg.append(P.s("text", { class: "axis-title", x: (LEFT + width - RIGHT) / 2, y: HEIGHT - 8, "text-anchor": "middle" }, view.x.title),
      P.s("text", { class: "axis-title", transform: `translate(14 ${(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)`, "text-anchor": "middle" }, view.y.title));
  }

  const SHAPES = ["circle", "square", "triangle", "diamond"];
  function marker(shape, x, y, attributes) {
    const path = { square: "M-5-5h10v10h-10z", triangle: "M0-6L6 5H-6z", diamond: "M0-7L6 0 0 7-6 0z" }[shape];
    return path ? P.s("path", { d: path, transform: `translate(${x} ${y})`, ...attributes }) : P.s("circle", { cx: x, cy: y, r: 5, ...attributes });
  }

  function series(svg, view, one, number, x, y) {
    const colour = one.ideal ? "var(--soft)" : `var(--line-${number % 8})`, shape = SHAPES[Math.floor(number / 8) % 4];
    const group = P.s("g", { class: one.best ? "series best" : "series" });
    if (one.joined !== false && one.points.length > 1) {
      group.append(P.s("path", { class: "joined", d: "M" + one.points.map((point) => `${x.place(point[0])} ${y.place(point[1])}`).join("L"),
        fill: "none", stroke: colour, "stroke-width": 2, "stroke-dasharray": one.ideal ? "3 5" : number >= 8 ? "6 4" : null }));
    }
    for (const [px, py, low, high] of one.ideal ? [] : one.points) {
      if (low !== null && high > low) {
        group.append(P.s("line", { x1: x.place(px), x2: x.place(px), y1: y.place(low), y2: y.place(high), stroke: colour, "stroke-width": 1.5 }));
      }
      const text = `${one.name}: ${view.x.title} ${P.number(px)}, ${view.y.title} ${P.number(py)}`;
      const point = marker(one.best ? "diamond" : shape, x.place(px), y.place(py), { fill: colour, stroke: "var(--paper)", "stroke-width": 1.5, tabindex: "0", role: "img", "aria-label": text });
      const show = () => { const box = point.getBoundingClientRect(); P.tip.show(box.right, box.bottom, one.name, `${view.x.title}: ${P.number(px)}`, `${view.y.title}: ${P.number(py)}`); };
      point.addEventListener("pointerenter", show); point.addEventListener("focus", show);
      point.addEventListener("pointerleave", P.tip.hide); point.addEventListener("blur", P.tip.hide);
      group.append(point);
    }
    svg.append(group);
  }

  P.pointChart = { HEIGHT, LEFT, RIGHT, TOP, BOTTOM, scale, frame, marker };

  P.blocks.points = (block) => P.figure(block, (view, body) => {
    const all = view.series.flatMap((one) => one.points);
    const plot = P.h("div", { class: "plot points" });
    body.append(plot, P.h("ul", { class: "legend" }, view.series.map((one, number) => {
      const mark = P.s("svg", { width: 14, height: 14, viewBox: "-8 -8 16 16", "aria-hidden": "true" }, one.ideal
        ? P.s("line", { x1: -8, x2: 8, y1: 0, y2: 0, stroke: "var(--soft)", "stroke-width": 2, "stroke-dasharray": "2 3" })
        : marker(one.best ? "diamond" : SHAPES[Math.floor(number / 8) % 4], 0, 0, { fill: `var(--line-${number % 8})` }));
      return P.h("li", { class: one.best ? "best" : null }, mark, one.name, one.best ? P.h("span", { class: "badge" }, "best") : null);
    })));
    P.drawWhenSeen(plot, () => {
      const width = Math.max(280, plot.clientWidth);
      const x = scale(view.x, all.map((point) => point[0]), LEFT, width - RIGHT);
      const y = scale(view.y, all.flatMap((point) => [point[1], point[2] ?? point[1], point[3] ?? point[1]]), HEIGHT - BOTTOM, TOP);
      const svg = P.s("svg", { width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: "group", "aria-label": `${block.title}: ${view.y.title} by ${view.x.title}` });
      frame(svg, view, x, y, width);
      view.series.forEach((one, number) => series(svg, view, one, number, x, y));
      plot.replaceChildren(svg);
    });
  });
})(window.Paceline);
