// What all parts of the page use: elements, numbers, colours, and the frame of a figure.
// Text from runs reaches the document only as text nodes and attribute values, never as HTML.
"use strict";
window.Paceline = (function () {
  const P = { blocks: {}, redrawn: new Set() };
  const SVG = "http://www.w3.org/2000/svg";

  function fill(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else element.setAttribute(name, value === true ? "" : String(value));
    }
    element.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== ""));
    return element;
  }
  P.h = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
  P.s = (name, attributes, ...children) => fill(document.createElementNS(SVG, name), attributes, children);

  // Three significant digits with a comma between thousands, as in the terminal.
  P.number = function (value) {
    if (value === null || value === undefined || Number.isNaN(value)) return "-";
    const size = Math.abs(value);
    if (size >= 100) return Math.round(value).toLocaleString("en-US");
    if (size >= 10) return value.toFixed(1);
    return size >= 0.1 || value === 0 ? value.toFixed(2) : Number(value.toPrecision(3)).toString();
  };
  P.percent = (share, digits = 0) => (share === null || share === undefined ? "-" : `${(share * 100).toFixed(digits)} %`);
  P.duration = function (seconds) {
    const whole = Math.round(seconds);
    if (whole < 100) return `${whole} s`;
    const minutes = Math.floor(whole / 60), two = (value) => String(value).padStart(2, "0");
    return minutes < 60 ? `${minutes} min ${two(whole % 60)} s` : `${Math.floor(minutes / 60)} h ${two(minutes % 60)} min`;
  };
  P.count = (amount, noun) => `${amount.toLocaleString("en-US")} ${noun}${amount === 1 ? "" : "s"}`;

  P.colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  P.lineColour = (number) => P.colour(`line-${number % 8}`);
  P.phaseColour = (phase) => P.colour(`phase-${phase}`) || P.colour("soft");

  // Round numbers between two values, about `count` of them.
  P.ticks = function (low, high, count) {
    const raw = (high - low) / Math.max(1, count), power = 10 ** Math.floor(Math.log10(raw || 1));
    const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= raw) || power;
    const found = [];
    for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-9; value += step) found.push(Number(value.toPrecision(12)));
    return found;
  };

  let ids = 0;
  // Appends what is there: parts may be null.
  P.put = (element, ...parts) => element.append(...parts.filter((part) => part));
  P.id = (prefix) => `${prefix}-${++ids}`;

  // Calls `draw` once the element is near the visible part of the page, and again after a change of size or colours.
  const near = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) { near.unobserve(entry.target); entry.target.drawNow(); }
  }, { rootMargin: "300px" });
  const sized = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const width = Math.round(target.clientWidth);
      if (target.drawn && width && width !== target.drawnWidth) target.drawNow();
    }
  });
  P.drawWhenSeen = function (element, draw) {
    element.drawNow = () => { element.drawn = true; element.dataset.drawn = "yes"; element.drawnWidth = Math.round(element.clientWidth); draw(); };
    near.observe(element);
    sized.observe(element);
    return element;
  };
  P.redraw = function (element) { if (element.drawn) element.drawNow(); };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    document.querySelectorAll(".plot").forEach(P.redraw);
  });
  addEventListener("beforeprint", () => {
    document.querySelectorAll(".plot").forEach((plot) => { if (!plot.drawn && plot.offsetParent) plot.drawNow(); });
  });

  // A figure with a heading, a caption, buttons for its views, and a body that `show(view, body)` fills.
  P.figure = function (block, show) {
    const heading = P.h("h3", { id: P.id("figure") }, block.title);
    const body = P.h("div", { class: "figure-body" });
    const buttons = block.views.map((view, number) =>
      P.h("button", { type: "button", "aria-pressed": String(number === 0), onclick: () => choose(number) }, view.name));
    function choose(number) {
      buttons.forEach((button, other) => button.setAttribute("aria-pressed", String(other === number)));
      body.replaceChildren();
      show(block.views[number], body);
    }
    const figure = P.h("figure", { "data-key": block.key, "aria-labelledby": heading.id }, heading,
      block.views.length > 1 ? P.h("div", { class: "views", role: "group", "aria-label": `View of ${block.title}` }, buttons) : null,
      body, P.h("figcaption", {}, block.caption));
    choose(0);
    return figure;
  };

  // A command with a button that copies it.
  P.command = function (text) {
    const button = P.h("button", { type: "button", class: "copy", "aria-label": `Copy the command ${text}` }, "copy");
    button.addEventListener("click", () => P.copy(text).then(
      () => { button.textContent = "copied"; setTimeout(() => { button.textContent = "copy"; }, 1500); },
      () => { button.textContent = "select the text to copy it"; }));
    return P.h("div", { class: "command" }, P.h("code", { tabindex: "0" }, text), button);
  };
  P.copy = async function (text) {
    // A file has no clipboard in some browsers: the older way works there.
    if (navigator.clipboard && isSecureContext) return navigator.clipboard.writeText(text);
    const area = P.h("textarea", { class: "hidden-text" });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    if (!done) throw new Error("not copied");
  };

  P.tip = (function () {
    const box = P.h("div", { class: "tip", role: "status", hidden: true });
    return {
      show(x, y, ...lines) {
        if (!box.isConnected) document.body.append(box);
        box.replaceChildren(...lines.map((line) => P.h("div", {}, line)));
        box.hidden = false;
        const width = box.offsetWidth, height = box.offsetHeight;
        box.style.left = `${Math.max(4, Math.min(innerWidth - width - 8, x + 14))}px`;
        box.style.top = `${Math.max(4, y + height + 20 > innerHeight ? y - height - 10 : y + 14)}px`;
      },
      hide() { box.hidden = true; },
    };
  })();
  return P;
})();
