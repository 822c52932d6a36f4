// Draws each chart when it is scrolled into view, so that a page with many charts opens quickly.
"use strict";
(function () {
  const touch = matchMedia("(pointer: coarse)").matches;
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  const narrow = () => innerWidth < 600;
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // The layout of a view with the colours of the page, in light or dark mode.
  function themed(layout, height) {
    const ink = colour("--ink"), line = colour("--line");
    const full = {
      height: height, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", hovermode: "x",
      margin: { l: 56, r: 12, t: 20, b: 44 }, font: { size: narrow() ? 10 : 12, color: ink, family: "system-ui, sans-serif" },
      legend: { orientation: "h", y: 1, yanchor: "bottom", x: 0, traceorder: "normal", uirevision: "constant" },
      hoverlabel: { bgcolor: colour("--panel"), bordercolor: line, font: { color: ink } },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("--soft"), activecolor: colour("--accent") },
      dragmode: touch ? false : "zoom",
    };
    for (const [key, value] of Object.entries(layout)) {
      full[key] = /^[xy]axis/.test(key)
        ? { gridcolor: line, linecolor: line, zerolinecolor: line, automargin: true, ...value }
        : value;
    }
    return full;
  }

  // On a narrow screen a legend with long names has one line per name: make the chart higher by as much.
  function legendHeight(traces) {
    const names = traces.filter((trace) => trace.name && trace.showlegend !== false);
    return narrow() && names.length > 4 && names.some((trace) => trace.name.length > 16) ? 18 * names.length : 0;
  }

  function chartData(plot) {
    const data = document.getElementById(plot.id + "-data");
    plot.chart = plot.chart || JSON.parse(data.textContent);
    return plot.chart;
  }

  function draw(plot, number) {
    const chart = chartData(plot), view = chart.views[number];
    plot.dataset.view = number;
    const options = { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d"] };
    // A copy, because plotly modifies the objects that it draws.
    const copy = JSON.parse(JSON.stringify(view));
    return Plotly.react(plot, copy.traces, themed(copy.layout, chart.height + legendHeight(copy.traces)), options);
  }

  const visible = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) {
        visible.unobserve(entry.target);
        draw(entry.target, 0);
      }
    }
  }, { rootMargin: "300px" });
  const plots = [...document.querySelectorAll(".plot")];
  plots.forEach((plot) => visible.observe(plot));

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-view]");
    if (!button) return;
    const others = button.parentElement.querySelectorAll("button");
    others.forEach((other) => other.setAttribute("aria-pressed", String(other === button)));
    const plot = button.closest("figure").querySelector(".plot");
    visible.unobserve(plot);
    draw(plot, Number(button.dataset.view));
  });

  const choice = document.getElementById("run-choice");
  if (choice) {
    choice.addEventListener("change", () => {
      document.querySelectorAll(".run").forEach((run) => { run.hidden = run.id !== choice.value; });
      // Let the contents link to the charts of the selected run; links to charts that it does not have lead to its top.
      document.querySelectorAll('nav a[href^="#run-"]').forEach((link) => {
        link.dataset.key = link.dataset.key || link.getAttribute("href").replace(/^#run-\d+/, "");
        const target = choice.value + link.dataset.key;
        link.setAttribute("href", "#" + (document.getElementById(target) ? target : choice.value));
      });
    });
  }

  // Before printing, draw the charts that were not scrolled into view yet.
  addEventListener("beforeprint", () => {
    plots.filter((plot) => !plot.dataset.view && plot.offsetParent).forEach((plot) => { visible.unobserve(plot); draw(plot, 0); });
  });

  // Redraw when the system switches between light and dark mode.
  scheme.addEventListener("change", () => {
    plots.filter((plot) => plot.dataset.view).forEach((plot) => draw(plot, Number(plot.dataset.view)));
  });
})();
