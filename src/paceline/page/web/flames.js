// A flame graph: the functions in which each rank was found, by phase, and a table of them.
"use strict";
(function (P) {
  const ROW = 20, LEAST = 0.002, TOP_ROWS = 12;

  // The flat list of nodes as a tree.
  function tree(block, view) {
    const path = [];
    for (let at = 0; at < view.nodes.length; at += 3) {
      const node = { depth: view.nodes[at], name: block.names[view.nodes[at + 1]], samples: view.nodes[at + 2], children: [], parent: null };
      path.length = node.depth;
      if (node.depth) { node.parent = path[node.depth - 1]; node.parent.children.push(node); }
      path.push(node);
    }
    return path[0];
  }

  const own = (node) => /:\d+\)$/.test(node.name);
  const title = (node) => node.name || "all phases";
  const selfSamples = (node) => node.samples - node.children.reduce((sum, child) => sum + child.samples, 0);

  // By function: samples in itself, and with what it called. A function that calls itself counts once.
  function table(root) {
    const found = new Map();
    function visit(node, open) {
      const inner = new Set(open);
      if (node.depth > 1) {
        const row = found.get(node.name) || { self: 0, total: 0 };
        row.self += selfSamples(node);
        if (!open.has(node.name)) row.total += node.samples;
        found.set(node.name, row);
        inner.add(node.name);
      }
      node.children.forEach((child) => visit(child, inner));
    }
    visit(root, new Set());
    const share = (samples) => [P.percent(samples / root.samples, 1), samples / root.samples];
    const rows = [...found].sort((one, other) => other[1].self - one[1].self || other[1].total - one[1].total).slice(0, TOP_ROWS)
      .map(([name, row]) => [name, share(row.self), share(row.total)]);
    return P.blocks.table({ key: "flame-functions", title: `Functions with most samples: ${title(root)}`, note: "", columns: ["function", "in itself", "with what it called"], rows });
  }

  function draw(chart, root, zoomed, choose) {
    const deepest = (node) => Math.max(node.depth, ...node.children.map(deepest));
    const above = [];
    for (let node = zoomed; node && node.depth >= root.depth; node = node.parent) above.unshift(node);
    chart.style.height = `${ROW * (deepest(zoomed) - root.depth + 1)}px`;
    const bars = [];
    function add(node, left, width) {
      const share = node.samples / root.samples;
      const bar = P.h("div", { role: "treeitem", tabindex: "-1", class: own(node) ? "flame own" : "flame", "aria-level": node.depth - root.depth + 1, "aria-selected": String(node === zoomed), "aria-label": `${title(node)}: ${P.percent(share, 1)}, ${P.count(node.samples, "sample")}` }, P.h("span", { "aria-hidden": "true" }, title(node)));
      bar.style.left = `${100 * left}%`; bar.style.width = `${100 * width}%`; bar.style.top = `${ROW * (node.depth - root.depth)}px`;
      bar.node = node; node.bar = bar;
      bars.push(bar);
    }
    above.slice(0, -1).forEach((node) => add(node, 0, 1));
    (function below(node, left, width) {
      add(node, left, width);
      let start = left;
      for (const child of node.children) {
        const size = width * child.samples / node.samples;
        child.bar = null;
        if (size >= LEAST) below(child, start, size);
        start += size;
      }
    })(zoomed, 0, 1);
    chart.replaceChildren(...bars);
    zoomed.bar.tabIndex = 0;
  }

  // The bar that an arrow key leads to.
  function neighbour(node, key) {
    if (key === "ArrowUp") return node.parent;
    if (key === "ArrowDown") return node.children[0];
    const beside = node.parent ? node.parent.children : [], step = { ArrowLeft: -1, ArrowRight: 1 }[key];
    return step ? beside[beside.indexOf(node) + step] : undefined;
  }

  function rank(block, view, body) {
    const whole = tree(block, view);
    const parts = [whole, ...whole.children];
    const select = P.h("select", { onchange: () => show(parts[Number(select.value)]) }, parts.map((part, number) => P.h("option", { value: number }, `${title(part)} (${P.percent(part.samples / whole.samples)})`)));
    const chart = P.h("div", { class: "flames", role: "tree", "aria-label": `${block.title}: ${view.name}` });
    const functions = P.h("div");
    let root = whole;
    function zoom(node, focus) { draw(chart, root, node, zoom); if (focus) node.bar.focus(); }
    function show(part) { root = part; zoom(part); functions.replaceChildren(table(part)); }
    const at = (event) => (event.target.closest(".flame") || {}).node;
    chart.addEventListener("click", (event) => { const node = at(event); if (node) zoom(node, true); });
    chart.addEventListener("keydown", (event) => {
      const node = at(event);
      if (!node) return;
      const next = neighbour(node, event.key);
      if (event.key === "Enter" || event.key === " ") zoom(node, true);
      else if (event.key === "Escape") zoom(root, true);
      else if (next && next.bar && next.bar.isConnected) next.bar.focus();
      else if (!event.key.startsWith("Arrow")) return;
      event.preventDefault();
    });
    chart.addEventListener("focusin", (event) => { chart.querySelectorAll("[tabindex='0']").forEach((bar) => { bar.tabIndex = -1; }); event.target.tabIndex = 0; });
    chart.addEventListener("pointermove", (event) => {
      const node = at(event);
      if (node) P.tip.show(event.clientX, event.clientY, title(node), `${P.percent(node.samples / root.samples, 1)} of ${title(root)}, ${P.count(node.samples, "sample")}`); else P.tip.hide();
    });
    chart.addEventListener("pointerleave", P.tip.hide);
    body.append(P.h("label", { class: "choice-label" }, "Phase", select), chart, functions);
    show(whole);
  }

  P.blocks.flames = (block) => P.figure(block, (view, body) => rank(block, view, body));
})(window.Paceline);
