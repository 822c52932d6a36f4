// Starts the page: a report from the data in the file, or the pages of `paceline ui`.
"use strict";
(function (P) {
  const data = JSON.parse(document.getElementById("page-data").textContent);
  const root = document.getElementById("page");
  P.causes = data.causes || [];
  const token = new URLSearchParams(location.search).get("token") || "";
  P.mayChange = false;

  P.fetch = async function (path, options = {}) {
    const answer = await fetch(path, { ...options, cache: "no-store", headers: { Authorization: `Bearer ${token}`, ...(options.headers || {}) } });
    if (!answer.ok) {
      const reason = await answer.json().then((body) => body.error, () => answer.statusText);
      throw new Error(reason || `the server answered with ${answer.status}`);
    }
    return answer;
  };
  P.link = (hash) => `${location.pathname}${location.search}${hash}`;
  P.reportUrl = (runs) => `/report.html?${runs.map((run) => `run=${encodeURIComponent(run)}`).join("&")}&token=${encodeURIComponent(token)}`;

  let leave = null;
  function show(...content) {
    if (leave) leave();
    leave = null;
    root.replaceChildren(...content);
    scrollTo(0, 0);
  }
  const bar = (...tools) => P.h("div", { class: "bar-top", role: "navigation", "aria-label": "Paceline" }, P.h("a", { href: P.link("#/"), class: "brand" }, "Paceline"), P.h("span", { class: "soft" }, data.runs_directory || ""), tools);
  const failed = (error) => show(bar(), P.h("main", { id: "main" }, P.h("h1", {}, "This cannot be shown"), P.h("p", { class: "bad", role: "alert" }, error.message)));

  async function report(runs, number) {
    const page = await (await P.fetch(`/api/report?${runs.map((run) => `run=${encodeURIComponent(run)}`).join("&")}`)).json();
    if (number !== turn) return;
    show(bar(), ...P.renderPage(page, [P.h("a", { class: "button", href: P.reportUrl(runs), download: `${page.title}-report.html` }, "Save as a file")]));
  }

  async function run(id, number) {
    const status = await (await P.fetch(`/api/status?run=${encodeURIComponent(id)}`)).json();
    if (number !== turn) return;
    if (!status.running) return report([id], number);
    const live = P.livePage(id, status, () => { if (number === turn) route(); });
    show(bar(), ...live.content);
    leave = live.close;
  }

  // The run that is being made now. Between the runs of a sweep, the report of the last one.
  async function latest(number) {
    let shown = "";
    const look = async () => {
      const list = await (await P.fetch("/api/runs")).json();
      if (number !== turn) return;
      const at = (row, name) => row[list.columns.indexOf(name)];
      const running = list.rows.find((row) => at(row, "status") === "running"), next = running || list.rows[0];
      const state = next ? `${at(next, "run")} ${at(next, "status")}` : "";
      if (state !== shown) {
        shown = state;
        if (running) {
          const live = P.livePage(at(running, "run"), {}, () => { if (number === turn) look(); });
          show(bar(), ...live.content);
          leave = live.close;
        } else if (next) await report([at(next, "run")], number);
      }
      if (!shown) show(bar(), P.h("main", { id: "main" }, P.h("h1", {}, "Waiting for the first run")));
      if (number === turn && !running) setTimeout(() => look().catch(failed), 1000);
    };
    await look();
  }

  let turn = 0;
  async function route() {
    const number = ++turn, [, place, names] = location.hash.match(/^#\/(run|compare|sweep|latest)(?:\/(.+))?$/) || [null, "", ""];
    const runs = (names || "").split(",").map(decodeURIComponent);
    try {
      if (place === "latest") await latest(number);
      else if (place === "run") await run(runs[0], number);
      else if (place) await report(runs, number);
      else {
        const list = await (await P.fetch("/api/runs")).json();
        if (number !== turn) return;
        P.mayChange = list.may_change;
        const page = P.runsPage(list, route);
        show(bar(), ...page.content);
        leave = page.close;
        document.title = "Runs · Paceline";
      }
      document.body.dataset.ready = "yes";
    } catch (error) { if (number === turn) failed(error); }
  }

  if (data.mode === "report") {
    root.append(...P.renderPage(data.page));
    document.body.dataset.ready = "yes";
  } else {
    addEventListener("hashchange", () => { if (!location.hash || location.hash.startsWith("#/")) route(); });
    route();
  }
})(window.Paceline);
