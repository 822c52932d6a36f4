// Single steps of all tasks: one row per task, one bar per phase. Drag, the wheel or the keyboard zoom and move it.
"use strict";
(function (P) {
  const ROW = 26, LEFT_MIN = 70, BOTTOM = 40, TOP = 6;

  function draw(canvas, block, view, range) {
    const width = canvas.parentElement.clientWidth, height = TOP + BOTTOM + ROW * block.rows.length, ratio = devicePixelRatio || 1;
    canvas.width = width * ratio; canvas.height = height * ratio;
    canvas.style.width = `${width}px`; canvas.style.height = `${height}px`;
    const ctx = canvas.getContext("2d");
    ctx.scale(ratio, ratio);
    ctx.font = "12px system-ui, sans-serif";
    const left = Math.min(width * 0.35, Math.max(LEFT_MIN, ...block.rows.map((row) => ctx.measureText(row).width + 12)));
    const place = (time) => left + (width - left - 8) * (time - range[0]) / (range[1] - range[0]);
    canvas.layout = { left, width };
    ctx.fillStyle = P.colour("soft"); ctx.strokeStyle = P.colour("line"); ctx.textAlign = "center";
    for (const tick of P.ticks(range[0], range[1], Math.max(2, Math.round((width - left) / 110)))) {
      ctx.beginPath(); ctx.moveTo(place(tick), TOP); ctx.lineTo(place(tick), height - BOTTOM); ctx.stroke();
      ctx.fillText(String(Number(tick.toPrecision(7))), place(tick), height - BOTTOM + 15);
    }
    ctx.fillText("training time (s)", left + (width - left) / 2, height - 6);
    ctx.textAlign = "right"; ctx.fillStyle = P.colour("ink");
    block.rows.forEach((row, number) => ctx.fillText(row, left - 8, TOP + ROW * number + ROW / 2 + 4, left - 12));
    ctx.save(); ctx.beginPath(); ctx.rect(left, 0, width - left - 8, height); ctx.clip();
    const colours = block.phases.map(P.phaseColour), spans = view.spans;
    for (let at = 0; at < spans.length; at += 5) {
      const start = view.start + spans[at + 2] / 1e6, end = start + spans[at + 3] / 1e6;
      if (end < range[0] || start > range[1]) continue;
      ctx.fillStyle = colours[spans[at + 1]];
      ctx.fillRect(place(start), TOP + ROW * spans[at] + 3, Math.max(0.6, place(end) - place(start)), ROW - 6);
    }
    for (const mark of block.marks || []) {
      ctx.fillStyle = ctx.strokeStyle = P.colour(mark.kind);
      if (mark.until > mark.at) { ctx.globalAlpha = 0.25; ctx.fillRect(place(mark.at), TOP, place(mark.until) - place(mark.at), height - BOTTOM - TOP); ctx.globalAlpha = 1; }
      ctx.lineWidth = 2; ctx.beginPath(); ctx.moveTo(place(mark.at), TOP); ctx.lineTo(place(mark.at), height - BOTTOM); ctx.stroke(); ctx.lineWidth = 1;
    }
    ctx.restore();
  }

  function spanAt(canvas, block, view, range, event) {
    const box = canvas.getBoundingClientRect(), { left, width } = canvas.layout;
    const time = range[0] + (event.clientX - box.left - left) / (width - left - 8) * (range[1] - range[0]);
    const row = Math.floor((event.clientY - box.top - TOP) / ROW), spans = view.spans;
    for (let at = 0; at < spans.length; at += 5) {
      const start = view.start + spans[at + 2] / 1e6;
      if (spans[at] === row && start <= time && time <= start + spans[at + 3] / 1e6) return { task: block.rows[row], phase: block.phases[spans[at + 1]], ms: spans[at + 3] / 1e3, step: spans[at + 4] };
    }
    return null;
  }

  P.blocks.timeline = (block) => P.figure(block, (view, body) => {
    const full = [view.start, view.end];
    let range = [...full], drag = null;
    const canvas = P.h("canvas", { tabindex: "0", role: "img", "aria-label": `${block.title}: ${view.name}. Keys: plus and minus zoom, the arrows move, 0 shows all.` });
    const plot = P.h("div", { class: "plot timeline" }, canvas);
    const used = new Set(block.views.flatMap((one) => one.spans.filter((_, at) => at % 5 === 1)));
    P.put(body, P.legend(block.phases.filter((_, number) => used.has(number))), plot, P.markList(block.marks));
    const redraw = () => draw(canvas, block, view, range);
    const move = (low, high) => {
      const size = Math.min(Math.max(high - low, 1e-5), full[1] - full[0]);
      const start = Math.min(Math.max(low, full[0]), full[1] - size);
      range = [start, start + size];
      canvas.dataset.range = range.join(" ");
      redraw();
    };
    const zoom = (factor, share = 0.5) => { const size = (range[1] - range[0]) * factor, middle = range[0] + (range[1] - range[0]) * share; move(middle - size * share, middle + size * (1 - share)); };
    canvas.addEventListener("keydown", (event) => {
      const size = range[1] - range[0];
      const action = { "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), "0": () => move(...full), ArrowLeft: () => move(range[0] - size / 4, range[1] - size / 4), ArrowRight: () => move(range[0] + size / 4, range[1] + size / 4) }[event.key];
      if (action) { event.preventDefault(); action(); }
    });
    const share = (event) => Math.min(1, Math.max(0, (event.clientX - canvas.getBoundingClientRect().left - canvas.layout.left) / (canvas.layout.width - canvas.layout.left - 8)));
    canvas.addEventListener("wheel", (event) => { if (event.ctrlKey || event.metaKey) { event.preventDefault(); zoom(event.deltaY > 0 ? 1.3 : 0.77, share(event)); } }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => { if (event.pointerType === "mouse") { drag = share(event); canvas.setPointerCapture(event.pointerId); } });
    canvas.addEventListener("pointerup", (event) => {
      const end = share(event);
      if (drag !== null && Math.abs(end - drag) > 0.01) { const [low, high] = [Math.min(drag, end), Math.max(drag, end)], size = range[1] - range[0]; move(range[0] + size * low, range[0] + size * high); }
      drag = null;
    });
    canvas.addEventListener("dblclick", () => move(...full));
    canvas.addEventListener("pointermove", (event) => {
      const span = canvas.layout && spanAt(canvas, block, view, range, event);
      if (span) P.tip.show(event.clientX, event.clientY, `${span.task}, step ${span.step.toLocaleString("en-US")}`, `${span.phase}: ${P.number(span.ms)} ms`); else P.tip.hide();
    });
    canvas.addEventListener("pointerleave", P.tip.hide);
    P.drawWhenSeen(plot, redraw);
  });
})(window.Paceline);
