// The list of all runs: search, filters, sorting and selection. Only the rows in view are elements, so that thousands of
// runs are no slower than a few.
"use strict";
(function (P) {
  const ROW_HEIGHT = 34, MARGIN_ROWS = 12;
  // Key in a row, title, and how its value is shown; a number is aligned right.
  const COLUMNS = [
    { key: "run", title: "run" }, { key: "status", title: "status" }, { key: "started", title: "started", show: (value) => value.replace("T", " ").slice(0, 16) },
    { key: "workload", title: "workload" }, { key: "engine", title: "engine" }, { key: "strategy", title: "strategy" }, { key: "layout", title: "layout" },
    { key: "batch", title: "batch", number: true, show: (value) => (value ? String(value) : "-") },
    { key: "to_target_s", title: "time to target (s)", number: true, show: P.number }, { key: "examples_per_s", title: "examples/s", number: true, show: P.number },
    { key: "accuracy", title: "accuracy (%)", number: true, show: (value) => (value === null ? "-" : (100 * value).toFixed(2)) },
    { key: "bottleneck", title: "bottleneck" }, { key: "tags", title: "tags" },
  ];
  const FILTERS = ["status", "workload", "engine", "strategy"];
  const tagsOf = (run) => run.tags.split(" ").filter(Boolean);
  const collator = new Intl.Collator("en", { numeric: true });
  const sweepOf = (run) => run.replace(/-\d+$/, "");
  const state = { search: "", filters: {}, sort: { key: "started", descending: true }, chosen: new Set(), sweeps: false };

  function sweepsOf(runs) {
    const groups = new Map();
    for (const run of runs) { const name = sweepOf(run.run); if (!groups.has(name)) groups.set(name, []); groups.get(name).push(run); }
    const several = (items, key) => [...new Set(items.map((item) => item[key]).filter(Boolean))].slice(0, 4).join(", ");
    const best = (items, key, pick) => { const known = items.map((item) => item[key]).filter((value) => typeof value === "number"); return known.length ? pick(...known) : null; };
    return [...groups].map(([name, items]) => ({
      run: name, count: items.length, isSweep: true, status: [...new Set(items.map((item) => item.status))].map((one) => `${items.filter((item) => item.status === one).length} ${one}`).join(", "),
      started: items.map((item) => item.started).sort().pop(), workload: several(items, "workload"), engine: several(items, "engine"), strategy: several(items, "strategy"), layout: several(items, "layout"),
      batch: new Set(items.map((item) => item.batch)).size === 1 ? items[0].batch : 0, to_target_s: best(items, "to_target_s", Math.min), examples_per_s: best(items, "examples_per_s", Math.max), accuracy: best(items, "accuracy", Math.max),
      bottleneck: several(items.map((item) => ({ cause: item.bottleneck.split(":")[0].replace(/ \d.*/, "") })), "cause"), tags: several(items, "tags"), problem: "",
    }));
  }

  function sorted(runs) {
    const { key, descending } = state.sort, sign = descending ? -1 : 1;
    // Texts are compared once for each different text, not for each pair of runs.
    const texts = [...new Set(runs.map((run) => run[key]).filter((value) => typeof value === "string" && value))].sort(collator.compare);
    const ranks = new Map(texts.map((text, rank) => [text, rank]));
    const keyed = runs.map((run, order) => ({ run, order, value: typeof run[key] === "number" ? run[key] : ranks.get(run[key]) ?? null }));
    keyed.sort((one, other) => {
      if (one.value === null || other.value === null) return (one.value === null) - (other.value === null) || one.order - other.order;
      return sign * (one.value - other.value) || one.order - other.order;
    });
    return keyed.map((item) => item.run);
  }

  function selected(all) {
    const words = state.search.toLowerCase().split(/\s+/).filter(Boolean);
    const found = all.filter((run) => FILTERS.every((key) => !state.filters[key] || run[key] === state.filters[key])
      && (!state.filters.tags || tagsOf(run).includes(state.filters.tags))
      && words.every((word) => (run.text ??= COLUMNS.map((column) => run[column.key]).join(" ").toLowerCase()).includes(word)));
    return sorted(state.sweeps ? sweepsOf(found) : found);
  }

  P.runsPage = function (list, reload) {
    const all = list.rows.map((row) => Object.fromEntries(list.columns.map((name, at) => [name, row[at]])));
    // A column that is empty for all runs takes no space.
    const columns = COLUMNS.filter((column) => column.key !== "tags" || all.some((run) => run.tags));
    let shown = [];
    // The runs that are selected; those of a selected sweep one by one.
    const chosenRuns = () => { if (!state.chosen.size) return []; const ids = new Set(all.map((run) => run.run)); return all.map((run) => run.run).filter((run) => state.chosen.has(run) || (state.chosen.has(sweepOf(run)) && !ids.has(sweepOf(run)))); };
    const status = P.h("p", { class: "soft", role: "status" });
    const search = P.h("input", { type: "search", placeholder: "search", "aria-label": "Search runs", value: state.search });
    const tags = [...new Set(all.flatMap(tagsOf))].sort(collator.compare);
    if (!tags.includes(state.filters.tags)) delete state.filters.tags;
    const filters = (tags.length ? [...FILTERS, "tags"] : FILTERS).map((key) => {
      const values = key === "tags" ? tags : [...new Set(all.map((run) => run[key]))].filter(Boolean).sort(collator.compare);
      const select = P.h("select", { "aria-label": `Only this ${key.replace("tags", "tag")}` }, P.h("option", { value: "" }, `any ${key.replace("tags", "tag")}`), values.map((value) => P.h("option", { value }, value)));
      select.value = state.filters[key] || "";
      select.addEventListener("change", () => { state.filters[key] = select.value; update(); });
      return select;
    });
    const sweeps = P.h("button", { type: "button", "aria-pressed": String(state.sweeps), onclick: () => { state.sweeps = !state.sweeps; sweeps.setAttribute("aria-pressed", String(state.sweeps)); update(); } }, "Sweeps");
    const compare = P.h("button", { type: "button", class: "primary", onclick: () => { location.hash = `#/compare/${[...state.chosen].map(encodeURIComponent).join(",")}`; } });
    const clear = P.h("button", { type: "button", onclick: () => { state.chosen.clear(); update(); } }, "Clear selection");
    const remove = P.h("button", { type: "button", hidden: !list.may_change, onclick: () => change("/api/delete", { runs: chosenRuns() }, `Delete ${P.count(chosenRuns().length, "run")} with all files? This cannot be undone.`) }, "Delete");
    const rename = P.h("button", { type: "button", hidden: !list.may_change, onclick: () => { const [run] = chosenRuns(), name = prompt(`New name of ${run}`, run); if (name) change("/api/rename", { run, name }); } }, "Rename");
    const tag = P.h("button", { type: "button", hidden: !list.may_change, onclick: () => {
      const runs = chosenRuns(), known = [...new Set(all.filter((run) => runs.includes(run.run)).flatMap(tagsOf))].join(" ");
      const words = prompt(`Tags of ${P.count(runs.length, "run")}, with spaces between them`, known);
      if (words !== null) change("/api/tags", { runs, tags: words.split(/[\s,]+/).filter(Boolean) });
    } }, "Tags");
    async function change(path, body, question) {
      if (question && !confirm(question)) return;
      try { await P.fetch(path, { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } }); state.chosen.clear(); reload(); } catch (error) { status.textContent = error.message; }
    }
    const heads = columns.map((column) => P.h("th", { scope: "col", class: column.number ? "number" : null, "aria-sort": "none" }, P.h("button", { type: "button", onclick: () => {
      state.sort = { key: column.key, descending: state.sort.key === column.key ? !state.sort.descending : Boolean(column.number) };
      update();
    } }, column.title)));
    const body = P.h("tbody");
    const table = P.h("table", { class: "runs", "aria-label": "Runs" }, P.h("thead", {}, P.h("tr", {}, P.h("th", { scope: "col" }, P.h("span", { class: "only-read" }, "selected")), heads)), body);
    const frame = P.h("div", { class: "scroll runs-frame", tabindex: "0", role: "region", "aria-label": "Runs, newest first; scrolls" }, table);

    function row(run, index) {
      const choose = P.h("input", { type: "checkbox", "aria-label": `Select ${run.run}` });
      choose.checked = run.isSweep ? [...state.chosen].includes(run.run) : state.chosen.has(run.run);
      choose.addEventListener("change", () => { if (choose.checked) state.chosen.add(run.run); else state.chosen.delete(run.run); counts(); });
      const cells = columns.map((column) => {
        const value = run[column.key], text = column.show ? column.show(value) : value || "-";
        if (column.key === "run") return P.h("th", { scope: "row" }, P.h("a", { href: P.link(run.isSweep ? `#/sweep/${encodeURIComponent(run.run)}` : `#/run/${encodeURIComponent(run.run)}`) }, run.isSweep ? `${run.run} (${run.count})` : run.run));
        if (column.key === "status") return P.h("td", { title: run.problem || null }, P.h("span", { class: `status ${run.isSweep ? "" : value}` }, text));
        return P.h("td", { class: column.number ? "number" : null }, text);
      });
      return P.h("tr", { "aria-rowindex": index + 2 }, P.h("td", {}, choose), cells);
    }
    const spacer = (rows) => { const cell = P.h("td", { colspan: columns.length + 1 }); cell.style.height = `${rows * ROW_HEIGHT}px`; return P.h("tr", { class: "spacer", "aria-hidden": "true" }, cell); };
    let drawn = "";
    function draw(force) {
      const first = Math.max(0, Math.floor(frame.scrollTop / ROW_HEIGHT) - MARGIN_ROWS), last = Math.min(shown.length, first + Math.ceil(frame.clientHeight / ROW_HEIGHT) + 2 * MARGIN_ROWS);
      if (!force && drawn === `${first}-${last}`) return;
      drawn = `${first}-${last}`;
      const parts = shown.slice(first, last).map((run, at) => row(run, first + at));
      if (first) parts.unshift(spacer(first));
      if (last < shown.length) parts.push(spacer(shown.length - last));
      body.replaceChildren(...parts);
    }
    function counts() {
      compare.textContent = state.chosen.size ? `Compare ${chosenRuns().length} selected` : "Compare selected";
      compare.disabled = state.chosen.size < 1; clear.disabled = remove.disabled = tag.disabled = !state.chosen.size; rename.disabled = chosenRuns().length !== 1;
    }
    function update() {
      const begun = performance.now();
      shown = selected(all);
      heads.forEach((head, at) => head.setAttribute("aria-sort", columns[at].key === state.sort.key ? (state.sort.descending ? "descending" : "ascending") : "none"));
      table.setAttribute("aria-rowcount", String(shown.length + 1));
      const running = all.filter((run) => run.status === "running").length;
      status.textContent = `${P.count(shown.length, state.sweeps ? "sweep" : "run")} of ${P.count(all.length, "run")}${running ? `, ${running} running` : ""}`;
      counts();
      draw(true);
      table.dataset.updateMs = String(performance.now() - begun);
    }
    search.addEventListener("input", () => { state.search = search.value; frame.scrollTop = 0; update(); });
    frame.addEventListener("scroll", () => draw(false), { passive: true });
    // Runs begin and end: while one runs, the list is read again.
    const timer = all.some((run) => run.status === "running") ? setInterval(async () => {
      if (document.hidden) return;
      const next = await P.fetch("/api/runs").then((answer) => answer.json()).catch(() => null);
      if (!next) return;
      all.splice(0, all.length, ...next.rows.map((values) => Object.fromEntries(next.columns.map((name, at) => [name, values[at]]))));
      update();
    }, 4000) : null;
    requestAnimationFrame(() => draw(true));
    update();
    const empty = all.length ? null : P.h("p", {}, "There are no runs in this directory yet. Start one with ", P.h("code", {}, "paceline run logreg"), ".");
    return {
      content: [P.h("main", { id: "main", class: "list" }, P.h("h1", {}, "Runs"), P.h("div", { class: "filters" }, search, filters, sweeps, compare, clear, tag, rename, remove), status, empty, frame)],
      close: () => { if (timer) clearInterval(timer); },
    };
  };
})(window.Paceline);
