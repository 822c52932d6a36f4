// The simple kinds of blocks, and the page that a list of sections becomes.
"use strict";
(function (P) {
  P.render = function (block) {
    const draw = P.blocks[block.kind];
    return draw ? draw(block) : P.h("p", { class: "bad" }, `This page cannot draw '${block.kind}'.`);
  };
  P.blocks.text = (block) => P.h("p", { class: block.tone || null }, block.text);
  P.blocks.items = (block) => P.h("div", { class: block.tone || null }, block.title ? P.h("h3", {}, block.title) : null, P.h("ul", {}, block.items.map((item) => P.h("li", {}, item))));
  P.blocks.goals = (block) => P.h("ul", { class: "goals" }, block.rows.map((row) => P.h("li", {},
    P.h("span", { class: "goal" }, row.goal), P.h("b", {}, row.winner), " ", P.h("span", { class: "goal-value" }, row.value),
    row.lead ? P.h("span", { class: row.significant ? "lead" : "lead unsure" }, row.lead) : null)));
  P.blocks.facts = (block) => P.h("div", { class: "facts" }, block.title ? P.h("h3", {}, block.title) : null,
    P.h("dl", {}, block.rows.map(([label, value]) => P.h("div", {}, P.h("dt", {}, label), P.h("dd", {}, value)))));
  P.remedies = (rows) => P.h("ul", { class: "remedies" }, rows.map((row) => P.h("li", {}, row.advice, row.command ? P.command(row.command) : null)));
  P.blocks.commands = (block) => P.h("div", {}, P.h("h3", {}, block.title), P.remedies(block.rows));
  P.blocks.fold = (block) => P.h("details", { class: "fold" }, P.h("summary", {}, block.title), block.blocks.map(P.render));
  P.blocks.choice = function (block) {
    if (block.options.length === 1) return P.h("div", {}, P.h("p", { class: "soft" }, block.options[0].label), block.options[0].blocks.map(P.render));
    const body = P.h("div", { class: "chosen" });
    // A part is made when it is selected for the first time: a page with many runs opens quickly.
    const made = new Map();
    const select = P.h("select", { onchange: () => show(Number(select.value)) }, block.options.map((option, number) => P.h("option", { value: number }, option.label)));
    function show(number) {
      if (!made.has(number)) made.set(number, P.h("div", {}, block.options[number].blocks.map(P.render)));
      body.replaceChildren(made.get(number));
    }
    show(0);
    return P.h("div", { class: "choice" }, P.h("label", { class: "choice-label" }, block.label, select), body);
  };

  // A section: the first one has its facts beside the rest on wide screens.
  function section(one, number) {
    const [facts, others] = [[], []];
    for (const block of one.blocks) (number === 0 && block.kind === "facts" ? facts : others).push(P.render(block));
    const content = facts.length ? P.h("div", { class: "beside" }, P.h("div", {}, others), P.h("aside", { "aria-label": "Conditions" }, facts)) : others;
    return P.h("section", { "aria-labelledby": one.key }, P.h("h2", { id: one.key, tabindex: "-1" }, one.title), content);
  }

  P.renderPage = function (page, tools = []) {
    const guess = P.h("button", { type: "button", "aria-pressed": "false", class: "teach", title: "Hides the bottlenecks until you have guessed them" }, "Guess first");
    guess.addEventListener("click", () => { const on = guess.getAttribute("aria-pressed") !== "true"; guess.setAttribute("aria-pressed", String(on)); P.setGuessing(on); });
    const links = page.sections.map((one) => P.h("a", { href: `#${one.key}`, onclick: (event) => { event.preventDefault(); const target = document.getElementById(one.key); target.scrollIntoView(); target.focus({ preventScroll: true }); } }, one.title));
    document.title = `${page.title} · Paceline`;
    return [
      P.h("header", { class: "top" }, P.h("div", { class: "head" }, P.h("div", {}, P.h("h1", {}, page.title), P.h("p", { class: "soft" }, page.subtitle)), P.h("div", { class: "tools" }, guess, tools)),
        page.problems.map((line) => P.h("p", { class: "bad" }, line)),
        P.h("nav", { "aria-label": "Contents" }, links)),
      P.h("main", { id: "main" }, page.sections.map(section)),
    ];
  };
})(window.Paceline);
