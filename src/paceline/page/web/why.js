// Why something is the bottleneck: the account of the workers' time as a waterfall, evidence, thresholds and remedies.
// In teaching mode the reader first guesses the cause.
"use strict";
(function (P) {
  P.guessing = false;
  P.causes = [];

  function waterfall(block) {
    let until = 0;
    const rows = block.account.filter((part) => part.share >= 0.005).map((part) => {
      const bar = P.h("div", { class: part.cause === block.cause ? "fall chosen" : "fall" });
      bar.style.left = `${100 * until}%`;
      bar.style.width = `${100 * part.share}%`;
      until += part.share;
      return P.h("div", { role: "row", class: "bar-row" },
        P.h("div", { role: "rowheader", class: "label" }, part.where ? `${part.cause}: ${part.where}` : part.cause),
        P.h("div", { role: "cell", class: "track" }, bar), P.h("div", { role: "cell", class: "value" }, P.percent(part.share)),
        P.h("div", { role: "cell", class: "note" }, part.meaning || ""));
    });
    if (!rows.length) return null;
    const head = P.h("div", { role: "row", class: "bar-row head" }, ["cause", `0 to 100 % of ${block.share_of}`, "share", "what it means"].map((title, number) =>
      P.h("div", { role: "columnheader", class: ["label", "track", "value", "note"][number] }, title)));
    return P.h("div", { role: "table", class: "bars noted waterfall", "aria-label": `What ${block.share_of} was spent on` }, head, rows);
  }

  // The bottlenecks one after the other, on an axis of training time.
  function episodes(block) {
    if (!block.episodes || block.episodes.length < 2) return null;
    const end = block.episodes[block.episodes.length - 1][1], causes = [...new Set(block.episodes.map((one) => one[2]))];
    const strip = P.h("div", { class: "episodes" }, block.episodes.map(([from, to, cause, where]) => {
      const part = P.h("span", { class: "episode", title: `${from.toFixed(1)}–${to.toFixed(1)} s: ${cause}${where ? `, ${where}` : ""}` }, P.h("span", {}, cause));
      part.style.width = `${100 * (to - from) / end}%`;
      part.style.borderTopColor = `var(--line-${causes.indexOf(cause) % 8})`;
      return part;
    }));
    return P.h("div", {}, P.h("h3", { class: "small" }, `Over time (0 to ${P.number(end)} s of training)`), strip);
  }

  const list = (title, items, tone) => (items && items.length ? P.h("div", { class: tone }, P.h("h3", { class: "small" }, title), P.h("ul", {}, items.map((item) => P.h("li", {}, item)))) : null);

  function account(block) {
    return P.h("div", { class: "why-body" }, waterfall(block), episodes(block), list("Evidence", block.evidence),
      block.second ? P.h("p", {}, P.h("b", {}, "Second cause, which limits the run once the first is removed: "), block.second) : null,
      block.remedies && block.remedies.length ? P.h("div", {}, P.h("h3", { class: "small" }, "What would change it"), P.remedies(block.remedies)) : null,
      (block.problems || []).map(([title, items]) => list(title, items, title === "Injected faults" ? null : "bad")),
      P.h("details", { class: "thresholds" }, P.h("summary", {}, "How this was decided"), P.h("ul", {}, block.thresholds.map((line) => P.h("li", {}, line)))),
      block.runs && block.runs.length ? P.h("p", { class: "soft" }, `Runs: ${block.runs.join(", ")}`) : null);
  }

  function question(block, reveal) {
    const answer = P.h("p", { role: "status" });
    const name = P.id("guess");
    const choices = [...new Set([...P.causes, ...block.account.map((part) => part.cause)])].filter((cause) => cause !== "not known");
    const form = P.h("form", { class: "guess" }, P.h("fieldset", {}, P.h("legend", {}, "What do you think limits this configuration?"),
      choices.map((cause) => P.h("label", {}, P.h("input", { type: "radio", name, value: cause, required: true }), cause))),
      P.h("button", { type: "submit" }, "Show the answer"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const guess = new FormData(form).get(name);
      const share = block.account.find((part) => part.cause === guess);
      answer.textContent = guess === block.cause ? `Yes: ${block.summary}` :
        `You chose ${guess}${share ? `, which accounts for ${P.percent(share.share)}` : ", which accounts for less than 1 %"}. Measured: ${block.summary}`;
      form.replaceWith(answer);
      reveal();
    });
    return form;
  }

  P.blocks.why = function (block) {
    const box = P.h("div", { class: "why" });
    const fill = () => {
      const heading = P.h("summary", {}, P.h("b", {}, block.title), P.guessing ? null : P.h("span", { class: "why-summary" }, block.summary));
      const fold = P.h("details", { open: block.open !== false }, heading);
      if (P.guessing) {
        const rest = P.h("div");
        fold.append(question(block, () => rest.append(account(block))), rest);
      } else fold.append(account(block));
      box.replaceChildren(fold);
    };
    box.fillAgain = fill;
    fill();
    return box;
  };

  // Switches teaching mode: bottlenecks are hidden until the reader has guessed.
  P.setGuessing = function (on) {
    P.guessing = on;
    document.body.classList.toggle("guessing", on);
    document.querySelectorAll(".why").forEach((box) => box.fillAgain());
  };
})(window.Paceline);
