// Draws each figure when it comes into sight, so that a page with many of them opens at once.
"use strict";
(function () {
  const touch = matchMedia("(pointer: coarse)").matches;
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  const narrow = () => innerWidth < 600;
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function themed(layout, height) {
    const ink = colour("--ink"), line = colour("--line");
    const whole = {
      height: height, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", hovermode: "x",
      margin: { l: 56, r: 12, t: 20, b: 44 }, font: { size: narrow() ? 10 : 12, color: ink, family: "system-ui, sans-serif" },
      legend: { orientation: "h", y: 1, yanchor: "bottom", x: 0, traceorder: "normal", uirevision: "kept" },
      hoverlabel: { bgcolor: colour("--panel"), bordercolor: line, font: { color: ink } },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("--soft"), activecolor: colour("--accent") },
      dragmode: touch ? false : "zoom",
    };
    for (const [key, value] of Object.entries(layout)) {
      whole[key] = /^[xy]axis/.test(key)
        ? { gridcolor: line, linecolor: line, zerolinecolor: line, automargin: true, ...value }
        : value;
    }
    return whole;
  }

  // On a phone a legend of long names has one line for each, which must not be taken from the figure.
  function legendHeight(traces) {
    const names = traces.filter((trace) => trace.name && trace.showlegend !== false);
    return narrow() && names.length > 4 && names.some((trace) => trace.name.length > 16) ? 18 * names.length : 0;
  }

  function place(plot) {
    const data = document.getElementById(plot.id + "-data");
    plot.figure = plot.figure || JSON.parse(data.textContent);
    return plot.figure;
  }

  function draw(plot, number) {
    const figure = place(plot), view = figure.views[number];
    plot.dataset.view = number;
    const options = { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d"] };
    // Copied, since plotly writes into what it is given.
    const copy = JSON.parse(JSON.stringify(view));
    return Plotly.react(plot, copy.traces, themed(copy.layout, figure.height + legendHeight(copy.traces)), options);
  }

  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) {
        seen.unobserve(entry.target);
        draw(entry.target, 0);
      }
    }
  }, { rootMargin: "300px" });
  const plots = [...document.querySelectorAll(".plot")];
  plots.forEach((plot) => seen.observe(plot));

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-view]");
    if (!button) return;
    const others = button.parentElement.querySelectorAll("button");
    others.forEach((other) => other.setAttribute("aria-pressed", String(other === button)));
    const plot = button.closest("figure").querySelector(".plot");
    seen.unobserve(plot);
    draw(plot, Number(button.dataset.view));
  });

  const choice = document.getElementById("run-choice");
  if (choice) {
    choice.addEventListener("change", () => {
      document.querySelectorAll(".run").forEach((run) => { run.hidden = run.id !== choice.value; });
      // The contents lead to the figures of the run that is shown; one it has not got leads to its head.
      document.querySelectorAll('nav a[href^="#run-"]').forEach((link) => {
        link.dataset.key = link.dataset.key || link.getAttribute("href").replace(/^#run-\d+/, "");
        const wanted = choice.value + link.dataset.key;
        link.setAttribute("href", "#" + (document.getElementById(wanted) ? wanted : choice.value));
      });
    });
  }

  // On paper there is no scrolling.
  addEventListener("beforeprint", () => {
    plots.filter((plot) => !plot.dataset.view && plot.offsetParent).forEach((plot) => { seen.unobserve(plot); draw(plot, 0); });
  });

  scheme.addEventListener("change", () => {
    plots.filter((plot) => plot.dataset.view).forEach((plot) => draw(plot, Number(plot.dataset.view)));
  });
})();
