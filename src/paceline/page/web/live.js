// The page of a run in progress. The server sends its state at most four times a second; after a reload the first message
// has the whole history.
"use strict";
(function (P) {
  const PANELS = [["CPU (cores)", ["cpu"], true], ["memory (MB)", ["memory"], false], ["network (MB/s)", ["rx", "tx"], true], ["loopback (MB/s)", ["loopback"], false], ["disk (MB/s)", ["disk_read", "disk_write"], false]];
  const DIRECTIONS = { rx: " in", tx: " out", disk_read: " read", disk_write: " written" };

  // Reads server-sent events with the token in a header, which EventSource cannot send.
  async function follow(url, signal, handle) {
    const answer = await P.fetch(url, { signal });
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      text += value;
      const events = text.split("\n\n");
      text = events.pop();
      for (const event of events) handle(event.match(/^event: (.*)$/m)[1], JSON.parse(event.match(/^data: (.*)$/m)[1]));
    }
  }

  // Keeps the history: a message replaces everything from its first interval on.
  function extend(kept, news) {
    if (!kept || kept.width_s !== news.width_s) return news;
    const cut = (column) => column.slice(0, news.first - kept.first);
    const merged = { first: kept.first, width_s: news.width_s, hosts: {} };
    for (const name of ["t", "updates", "loss"]) merged[name] = [...cut(kept[name]), ...news[name]];
    for (const [host, columns] of Object.entries(news.hosts)) merged.hosts[host] = Object.fromEntries(Object.entries(columns).map(([name, column]) => [name, [...cut(kept.hosts[host]?.[name] || []), ...column]]));
    return merged;
  }

  // A uPlot chart whose lines may change with each message.
  function chart(title, panel, marks, zero = true) {
    const box = P.h("div", { class: "plot live-plot", role: "img", "aria-label": title }), legend = P.h("ul", { class: "legend" });
    let plot = null, names = "", theme = "";
    return {
      box: P.h("div", { class: "live-chart", "data-chart": title }, P.h("h3", {}, title), legend, box),
      set(lines, limits = []) {
        const now = `${lines.map((line) => line.name).join("|")} ${box.clientWidth} ${limits.length}`, colours = P.colour("paper");
        if (!box.clientWidth || !lines.length || !lines[0].x.length) return;
        if (now !== names || colours !== theme) {
          if (plot) plot.destroy();
          [names, theme] = [now, colours];
          legend.replaceChildren(...(lines.length > 1 && lines.length <= 16 ? lines : []).map((one) => {
            const mark = P.h("span", { class: one.dashed ? "key dashed" : "key" });
            mark.style.borderTopColor = `var(--line-${(one.colour || 0) % 8})`;
            return P.h("li", {}, mark, one.name);
          }));
          plot = new uPlot(P.panelOptions({ title: panel, lines, zero, limits }, { width: box.clientWidth, xTitle: "training time (s)", marks, live: true }), P.columns(lines), box);
        } else plot.setData(P.columns(lines));
      },
    };
  }

  const tile = (label) => { const value = P.h("div", { class: "tile-value" }, "-"); return { box: P.h("div", { class: "tile" }, P.h("div", { class: "tile-label" }, label), value), set: (text) => { if (value.textContent !== text) value.textContent = text; } }; };

  function workersTable() {
    const rows = new Map(), legend = P.h("div");
    const body = P.h("div", { role: "table", class: "workers", "aria-label": "Workers" },
      P.h("div", { role: "row", class: "worker head" }, ["worker", "steps", "steps/s", "loss", "time by phase", "state"].map((name) => P.h("div", { role: "columnheader" }, name))));
    let phasesShown = "";
    return {
      box: P.h("section", {}, P.h("h2", {}, "Workers"), legend, body),
      set(workers) {
        const phases = [...new Set(workers.flatMap((worker) => Object.keys(worker.phases)))];
        if (phases.join() !== phasesShown) { phasesShown = phases.join(); legend.replaceChildren(P.legend(phases)); }
        for (const worker of workers) {
          let row = rows.get(worker.task);
          if (!row) {
            row = { cells: ["steps", "rate", "loss"].map((name) => P.h("div", { role: "cell", class: `number ${name}` })), bar: P.h("div", { role: "cell", class: "phases" }, P.h("div", { class: "stack" })), note: P.h("div", { role: "cell", class: "worker-note" }) };
            row.box = P.h("div", { role: "row", class: "worker", "data-task": worker.task }, P.h("div", { role: "rowheader" }, `${worker.task} on ${worker.host}`), row.cells, row.bar, row.note);
            rows.set(worker.task, row);
            body.append(row.box);
          }
          [worker.steps.toLocaleString("en-US"), P.number(worker.rate), P.number(worker.loss)].forEach((text, at) => { row.cells[at].textContent = text; });
          phasesOf(row.bar.firstChild, worker.phases);
          row.box.classList.toggle("alert", Boolean(worker.note));
          row.note.textContent = worker.note || P.topParts(Object.entries(worker.phases), 1, (_, share) => P.percent(share), 2);
        }
      },
    };
  }
  // Changes the widths of a stacked bar instead of making it again, so that it moves.
  function phasesOf(stack, phases) {
    for (const [phase, share] of Object.entries(phases)) {
      let part = [...stack.children].find((one) => one.dataset.phase === phase);
      if (!part) { part = P.h("span", { class: "part", "data-phase": phase }); part.style.background = `var(--phase-${phase}, var(--soft))`; stack.append(part); }
      part.style.width = `${100 * share}%`;
      part.title = `${phase}: ${P.percent(share)}`;
    }
    for (const part of stack.children) if (!(part.dataset.phase in phases)) part.style.width = "0";
  }

  function logs(id, signal) {
    const select = P.h("select", { "aria-label": "Log of task" }), text = P.h("pre", { class: "log", tabindex: "0", role: "region", "aria-label": "Log" });
    const fold = P.h("details", { class: "fold" }, P.h("summary", {}, "Logs"), select, text);
    async function load() {
      if (!fold.open || document.hidden) return;
      const url = `/api/log?run=${encodeURIComponent(id)}`;
      try {
        if (!select.options.length) { const { tasks } = await (await P.fetch(url, { signal })).json(); select.replaceChildren(...tasks.map((task) => P.h("option", {}, task))); }
        if (!select.value) { text.textContent = "no log yet"; return; }
        const end = text.scrollTop + text.clientHeight >= text.scrollHeight - 20;
        const log = await (await P.fetch(`${url}&task=${encodeURIComponent(select.value)}`, { signal })).json();
        text.textContent = (log.shortened ? "… (only the end is shown)\n" : "") + (log.text || "empty");
        if (end) text.scrollTop = text.scrollHeight;
      } catch (error) { if (!signal.aborted) text.textContent = error.message; }
    }
    fold.addEventListener("toggle", load);
    select.addEventListener("change", load);
    const timer = setInterval(load, 2000);
    signal.addEventListener("abort", () => clearInterval(timer));
    return fold;
  }

  P.livePage = function (id, _status, onEnd) {
    const leaving = new AbortController();
    let history = null, marks = [], about = null, connection = null, why = "";
    const title = P.h("h1", {}, id), subtitle = P.h("p", { class: "soft" }, ""), stage = P.h("span", { class: "status running", "data-stage": "" }, "connecting");
    const problem = P.h("p", { class: "bad", role: "alert", hidden: true });
    const bar = P.h("div", { class: "progress", role: "progressbar", "aria-label": "Progress", "aria-valuemin": 0, "aria-valuemax": 100 }, P.h("div", {})), left = P.h("p", { class: "soft left", role: "status" });
    const tiles = Object.fromEntries([["update", "update"], ["rate", "updates/s"], ["examples", "examples/s"], ["loss", "test loss"], ["accuracy", "accuracy"]].map(([key, label]) => [key, tile(label)]));
    const bottleneck = P.h("div", { class: "now-bottleneck" }), whyBox = P.h("div"), workers = workersTable(), markBox = P.h("div"), facts = P.h("div");
    const marksNow = () => marks;
    const throughput = chart("Throughput", "updates/s", marksNow), losses = chart("Loss", "loss", marksNow), accuracy = chart("Accuracy on the test set", "accuracy (%)", marksNow, false);
    const hostCharts = PANELS.map(([name]) => chart(name, name, marksNow));
    const hostNotes = P.h("p", { class: "bad", role: "status" });

    function line(name, x, y, colour, dashed) { return { name, x, y, colour, dashed }; }
    function drawCharts(state) {
      const { t, updates, loss, hosts } = history;
      throughput.set([line("updates/s", t, updates, 0)]);
      const evaluations = state.evaluations, lines = [line("training batches", t, loss, 1)];
      if (evaluations.length) lines.push({ ...line("test set", evaluations.map((one) => one[0]), evaluations.map((one) => one[2]), 0), points: true });
      losses.set(lines);
      const known = evaluations.filter((one) => one[3] !== null);
      accuracy.box.hidden = !known.length;
      if (known.length) accuracy.set([{ ...line("test set", known.map((one) => one[0]), known.map((one) => 100 * one[3]), 0), points: true }]);
      const limits = { 0: Object.values(about.cores).length ? [{ name: about.one_machine ? "cores of the machine" : "cores of a machine", value: Math.max(...Object.values(about.cores)) }] : [], 2: [...new Set(Object.values(about.links))].map((rate) => ({ name: `link ${P.number(rate)} MB/s`, value: rate })) };
      PANELS.forEach(([, names, always], number) => {
        const drawn = Object.entries(hosts).flatMap(([host, columns], at) => names.map((name, second) => line(`${host}${DIRECTIONS[name] || ""}`, t, columns[name], at, second > 0)));
        const used = drawn.some((one) => one.y.some((value) => value > 0.005));
        hostCharts[number].box.hidden = !used && !always;
        if (used || always) hostCharts[number].set(drawn, limits[number]);
      });
    }

    function show(state) {
      if (state.about) {
        about = state.about;
        subtitle.textContent = about.facts ? about.facts.slice(0, 6).map(([, value]) => value).join(" · ") : "";
        if (about.facts) facts.replaceChildren(P.blocks.facts({ title: "Conditions", rows: about.facts }));
      }
      stage.textContent = stage.dataset.stage = state.stage;
      marks = state.marks.map((mark) => ({ ...mark, until: mark.until ?? null }));
      const done = Math.max(0, ...Object.values(state.progress));
      bar.firstChild.style.width = `${100 * done}%`;
      bar.setAttribute("aria-valuenow", String(Math.round(100 * done)));
      const times = [`${P.percent(done)}`, `${state.elapsed_s.toFixed(1)} s`];
      if (state.left_s !== null) times.push(`${state.left_at_most ? "at most" : "about"} ${P.duration(state.left_s)} left`);
      left.textContent = state.waiting || times.join(" · ");
      tiles.update.set(state.update.toLocaleString("en-US") + (state.update_limit ? ` of ${state.update_limit.toLocaleString("en-US")}` : ""));
      tiles.rate.set(P.number(state.updates_per_s));
      tiles.examples.set(P.number(state.examples_per_s));
      const last = state.evaluations[state.evaluations.length - 1];
      if (last) { tiles.loss.set(last[2] === null ? "-" : last[2].toFixed(4)); tiles.accuracy.set(last[3] === null ? "-" : `${(100 * last[3]).toFixed(2)} %`); }
      workers.set(state.workers);
      hostNotes.textContent = state.hosts.filter((host) => host.note).map((host) => `${host.host}: ${host.note}`).join("; ");
      const list = P.markList(marks.map((mark) => ({ ...mark, text: mark.text + (mark.lasts ? " (lasts)" : "") })));
      if (list) markBox.replaceChildren(P.h("h2", {}, "Faults and incidents"), list);
      if (state.bottleneck) {
        bottleneck.replaceChildren(P.h("b", {}, "Bottleneck now: "), P.h("span", { class: "hide-when-guessing" }, `${state.bottleneck.summary}, since ${state.bottleneck.since_s.toFixed(0)} s`));
        const text = JSON.stringify(state.bottleneck.why.account) + state.bottleneck.summary;
        // The explanation is not replaced while the reader has it open and nothing has changed.
        if (text !== why) { why = text; const open = whyBox.querySelector("details")?.open; whyBox.replaceChildren(P.blocks.why({ ...state.bottleneck.why, open: Boolean(open) })); }
      }
      history = extend(history, state.history);
      if (about && about.facts && history.t.length) drawCharts(state);
    }

    async function connect() {
      connection = new AbortController();
      try {
        await follow(`/api/live?run=${encodeURIComponent(id)}`, connection.signal, (name, value) => {
          problem.hidden = name !== "problem";
          if (name === "state") { show(value); document.body.dataset.live = String(value.update); }
          else if (name === "problem") problem.textContent = value.error;
          else if (name === "ended") onEnd();
        });
      } catch (error) {
        if (connection.signal.aborted) return;
        problem.hidden = false;
        problem.textContent = `The connection was lost (${error.message}); trying again.`;
        setTimeout(() => { if (!leaving.signal.aborted && !document.hidden) { history = null; connect(); } }, 1500);
      }
    }
    // A page that nobody looks at costs nothing.
    const visibility = () => { connection.abort(); if (!document.hidden) { history = null; connect(); } };
    document.addEventListener("visibilitychange", visibility);
    connect();
    document.title = `${id} (live) · Paceline`;
    return {
      content: [
        P.h("header", {}, P.h("div", { class: "head" }, P.h("div", {}, title, subtitle), P.h("div", { class: "tools" }, stage)), problem),
        P.h("main", { id: "main", class: "live" }, bar, left, P.h("div", { class: "tiles" }, Object.values(tiles).map((one) => one.box)), bottleneck, workers.box,
          P.h("div", { class: "live-charts" }, throughput.box, losses.box, accuracy.box), P.h("h2", {}, "Hosts"), hostNotes, P.h("div", { class: "live-charts" }, hostCharts.map((one) => one.box)),
          markBox, P.h("h2", {}, "Why"), whyBox, logs(id, leaving.signal), facts),
      ],
      close: () => { leaving.abort(); connection.abort(); document.removeEventListener("visibilitychange", visibility); },
    };
  };
})(window.Paceline);
