// Predicted throughput for other links, numbers of workers and batches: a slider for each, and the curve of one of them.
"use strict";
(function (P) {
  const rateText = (bits) => (bits >= 1e9 ? `${P.plain(bits / 1e9)} Gbit/s` : `${P.plain(bits / 1e6)} Mbit/s`);
  P.plain = (value) => P.number(value).replace(/\.0+$|(\.\d*[1-9])0+$/, "$1");

  // The settings that can be changed: those with more than one value.
  function axesOf(block) {
    return [
      { key: "link", title: "link", axis: "link (Mbit/s)", values: block.links || [], text: rateText, x: (value) => value / 1e6, log: true },
      { key: "workers", title: "workers", axis: "workers", values: block.workers, text: String, x: Number, log: false },
      { key: "batch", title: "batch", axis: "batch (examples per worker)", values: block.batches, text: String, x: Number, log: true },
    ].map((axis) => ({ ...axis, base: Math.max(0, axis.values.indexOf(block.base[axis.key])) }));
  }

  P.blocks.whatif = function (block) {
    const axes = axesOf(block), moving = axes.filter((axis) => axis.values.length > 1);
    const chosen = Object.fromEntries(axes.map((axis) => [axis.key, axis.base]));
    const at = (place) => block.points[(place.link * block.workers.length + place.workers) * block.batches.length + place.batch];
    const METRICS = {
      examples: { title: "examples/s", value: (point, number) => point[number] * point[3], measured: (run) => run.examples },
      updates: { title: "updates/s", value: (point, number) => point[number], measured: (run) => run.updates },
    };
    let over = moving[0], metric = METRICS.examples;

    const heading = P.h("h3", { id: P.id("figure") }, block.title);
    const answer = P.h("p", { class: "whatif-answer", role: "status" });
    const plot = P.h("div", { class: "plot points" });
    const sliders = moving.map((axis) => {
      const value = P.h("output", {}), input = P.h("input", { type: "range", min: 0, max: axis.values.length - 1, step: 1, value: axis.base, "aria-label": axis.title });
      const set = () => { chosen[axis.key] = Number(input.value); value.textContent = axis.text(axis.values[chosen[axis.key]]); input.setAttribute("aria-valuetext", value.textContent); };
      input.addEventListener("input", () => { set(); update(); });
      axis.reset = () => { input.value = String(axis.base); set(); };
      set();
      return P.h("label", { class: "slider" }, P.h("span", {}, axis.title), input, value);
    });
    const group = (label, items, pick) => {
      const buttons = items.map(([text, item], number) => P.h("button", { type: "button", "aria-pressed": String(number === 0), onclick: () => { buttons.forEach((button, other) => button.setAttribute("aria-pressed", String(other === number))); pick(item); update(); } }, text));
      return P.h("div", { class: "views", role: "group", "aria-label": label }, buttons);
    };
    const reset = P.h("button", { type: "button", onclick: () => { moving.forEach((axis) => axis.reset()); update(); } }, "As measured");

    const shownRuns = () => block.measured.filter((run) => axes.every((axis) => axis === over || !axis.values.length || run[axis.key] === axis.values[chosen[axis.key]]));

    function sentence() {
      const point = at(chosen), setting = axes.filter((axis) => axis.values.length).map((axis) => (axis.key === "link" ? axis.text(axis.values[chosen.link]) : axis.key === "workers" ? P.count(axis.values[chosen.workers], "worker") : `batch ${axis.text(axis.values[chosen[axis.key]])}`)).join(", ");
      if (!point) return [`${setting}: not predicted in this file, to keep its making short; paceline predict does`];
      const measured = block.measured.filter((run) => axes.every((axis) => !axis.values.length || run[axis.key] === axis.values[chosen[axis.key]]));
      const known = measured.length ? `; measured: ${measured.map((run) => `${P.number(metric.measured(run))} (${run.run})`).join(", ")}` : "";
      return [`${setting}: predicted ${P.number(metric.value(point, 0))} ${metric.title} (80 % interval ${P.number(metric.value(point, 1))} to ${P.number(metric.value(point, 2))})`,
        P.h("span", { class: "hide-when-guessing" }, `, bottleneck: ${point[4]}`), known];
    }

    function draw() {
      const C = P.pointChart, width = Math.max(280, plot.clientWidth);
      const curve = over.values.map((value, number) => [over.x(value), at({ ...chosen, [over.key]: number }), number]).filter((item) => item[1]);
      const runs = shownRuns();
      const heights = [...curve.flatMap(([, point]) => [1, 2].map((number) => metric.value(point, number))), ...runs.map(metric.measured)];
      const view = { x: { title: over.axis, log: over.log, ticks: over.values.map(over.x) }, y: { title: metric.title, zero: true } };
      const svg = P.s("svg", { width, height: C.HEIGHT, viewBox: `0 0 ${width} ${C.HEIGHT}`, role: "group", "aria-label": `${block.title}: ${metric.title} by ${over.axis}` });
      if (heights.length) {
        const x = C.scale(view.x, over.values.map(over.x), C.LEFT, width - C.RIGHT), y = C.scale(view.y, heights, C.HEIGHT - C.BOTTOM, C.TOP);
        C.frame(svg, view, x, y, width);
        const line = (number) => curve.map(([value, point]) => `${x.place(value)} ${y.place(metric.value(point, number))}`);
        if (curve.length > 1) {
          svg.append(P.s("path", { class: "band", d: `M${[...line(1), ...line(2).reverse()].join("L")}Z` }),
            P.s("path", { class: "joined", d: `M${line(0).join("L")}`, fill: "none", stroke: "var(--line-0)", "stroke-width": 2 }));
        }
        for (const [value, point, number] of curve) {
          const here = number === chosen[over.key];
          svg.append(C.marker("circle", x.place(value), y.place(metric.value(point, 0)), { class: here ? "predicted here" : "predicted", r: here ? 7 : 4, fill: "var(--line-0)", stroke: "var(--paper)", "stroke-width": 1.5, tabindex: "0", role: "img",
            "aria-label": `predicted at ${over.title} ${over.text(over.values[number])}: ${P.number(metric.value(point, 0))} ${metric.title}, bottleneck ${point[4]}` }));
        }
        for (const run of runs) {
          svg.append(C.marker("diamond", x.place(over.x(run[over.key])), y.place(metric.measured(run)), { class: "measured", fill: "var(--line-1)", stroke: "var(--paper)", "stroke-width": 1.5, tabindex: "0", role: "img",
            "aria-label": `measured in ${run.run} at ${over.title} ${over.text(run[over.key])}: ${P.number(metric.measured(run))} ${metric.title}` }));
        }
      }
      plot.replaceChildren(svg);
    }
    function update() { answer.replaceChildren(...sentence()); P.redraw(plot); }
    const legend = P.h("ul", { class: "legend" }, [["circle", "predicted, with its 80 % interval", 0], ["diamond", "measured", 1]].map(([shape, text, colour]) =>
      P.h("li", {}, P.s("svg", { width: 14, height: 14, viewBox: "-8 -8 16 16", "aria-hidden": "true" }, P.pointChart.marker(shape, 0, 0, { fill: `var(--line-${colour})` })), text)));
    const figure = P.h("figure", { class: "whatif", "data-key": block.key, "aria-labelledby": heading.id }, heading,
      P.h("div", { class: "sliders" }, sliders, reset), answer,
      P.h("div", { class: "whatif-views" }, moving.length > 1 ? group("Curve over", moving.map((axis) => [`over ${axis.title}`, axis]), (axis) => { over = axis; }) : null,
        group("Metric", [["examples/s", METRICS.examples], ["updates/s", METRICS.updates]], (item) => { metric = item; })),
      plot, legend, P.h("figcaption", {}, block.caption));
    P.drawWhenSeen(plot, draw);
    answer.replaceChildren(...sentence());
    return figure;
  };

  // In `paceline ui` predictions are made when a reader asks for them: they compute for some seconds.
  P.blocks.whatif_request = function (block) {
    const body = P.h("div", {});
    const status = P.h("p", { class: "soft", role: "status" }, "How fast would these runs be with other links, more or fewer workers, or another batch?");
    const button = P.h("button", { type: "button", class: "primary" }, "Predict other settings");
    button.addEventListener("click", async () => {
      button.disabled = true;
      status.textContent = "Predicting from the selected runs: this takes some seconds.";
      try {
        const found = await (await P.fetch(`/api/what-if?${block.runs.map((run) => `run=${encodeURIComponent(run)}`).join("&")}`)).json();
        body.replaceChildren(...found.blocks.map(P.render));
      } catch (error) { status.textContent = error.message; button.disabled = false; }
    });
    body.append(status, button);
    return body;
  };
})(window.Paceline);
