// One case over builds: positions with intervals and the changes that were found, drawn from the tables of the page. A
// build is chosen by a click or the arrow keys, and leads to its commit and runs; the plot zooms by dragging, buttons, keys.
(() => {
  "use strict";

  const HEIGHT = 320;
  const MARGINS = { marginLeft: 62, marginRight: 20, marginTop: 30, marginBottom: 46 };
  const FEWEST = 4; // builds that can be zoomed into
  const A_CLICK = 5; // pixels: who drags farther zooms

  /** A log ratio as a change: "+5.0 %", or "x12" from eleven-fold on. */
  function changeText(logRatio, decimals = 1) {
    const ratio = Math.exp(logRatio);
    if (ratio >= 11) return `x${Number(ratio.toPrecision(3))}`;
    const percent = 100 * (ratio - 1);
    return `${percent > 0 ? "+" : percent < 0 ? "\u2212" : ""}${Math.abs(percent).toFixed(decimals)} %`;
  }

  /** Log ratios to name on the axis: round changes. */
  function ticksOf([low, high]) {
    const ticks = d3.ticks(Math.expm1(Math.max(low, -5)), Math.expm1(Math.min(high, 5)), 6);
    const decimals = Math.max(0, -Math.floor(Math.log10(100 * (ticks[1] - ticks[0]) || 1)));
    return { ticks: ticks.map(Math.log1p), tickFormat: (at) => changeText(at, Math.min(3, decimals)) };
  }

  const rowsOf = (id) => [...(document.getElementById(id)?.tBodies[0].rows ?? [])];

  /** The builds that are shown, in order; `index` counts them, `place` all of the history. */
  function positionsOf(id) {
    const found = rowsOf(id).map((row) => ({
      row,
      place: Number(row.dataset.place),
      at: Number(row.dataset.log),
      low: Number(row.dataset.low),
      high: Number(row.dataset.high),
      label: row.dataset.label,
      date: row.dataset.date,
      said: [row.dataset.label, row.dataset.date, row.dataset.subject.slice(0, 60), changeText(Number(row.dataset.log)), row.cells[3].textContent.trim()]
        .filter(Boolean)
        .join("\n"),
    }));
    found.sort((one, other) => one.place - other.place);
    return found.map((one, index) => ({ ...one, index }));
  }

  /** Each change as a band from the last build of the old level to the first of the new one; its ends may be hidden. */
  function changesOf(id, positions) {
    const bisector = d3.bisector((one) => one.place);
    const indexOf = (place) => bisector.left(positions, place);
    return rowsOf(id).map(({ dataset }) => {
      const [from, to] = [Number(dataset.from), Number(dataset.to)].map(indexOf);
      return {
        from: positions[from]?.place === Number(dataset.from) ? from : from - 0.5,
        to: positions[to]?.place === Number(dataset.to) ? to : to - 0.5,
        text: changeText(Number(dataset.log)),
        colour: "worse" in dataset ? "var(--regressed)" : "var(--improved)",
      };
    });
  }

  /** The plot of the builds from index `first` to `last`, and where each stands in it. */
  function drawn({ positions, changes, first, last, chosen }, width, plotClass) {
    const shown = positions.slice(first, last + 1);
    const every = Math.max(1, Math.ceil(shown.length / Math.max(1, Math.floor(width / 110))));
    const ends = d3.extent([...shown.flatMap((one) => [one.low, one.high]), 0]);
    const reach = (ends[1] - ends[0]) * 0.05 || 0.01;
    const domain = [ends[0] - reach, ends[1] + reach];
    const radius = Math.min(3.5, Math.max(1.5, (0.4 * width) / shown.length));
    const within = (index) => Math.max(first - 0.5, Math.min(last + 0.5, index));
    const bands = changes
      .filter(({ from, to }) => to > first - 0.5 && from < last + 0.5)
      .map((one) => ({ ...one, from: within(one.from), to: within(one.to) }));
    const svg = Plot.plot({
      width, height: HEIGHT, ...MARGINS, className: plotClass,
      x: { type: "linear", domain: [first - 0.5, last + 0.5], label: null, ticks: d3.range(first, last + 1, every),
           tickFormat: (index) => [positions[index]?.label.slice(0, 14), positions[index]?.date].filter(Boolean).join("\n") },
      y: { label: "against the oldest build", grid: true, domain, ...ticksOf(domain) },
      marks: [
        Plot.rect(bands, { x1: "from", x2: "to", fill: "colour", fillOpacity: 0.16, className: "history-change" }),
        Plot.text(bands, {
          x: (one) => (one.from + one.to) / 2, text: "text", frameAnchor: "top", dy: -14, fontSize: 12, fontWeight: 600, fill: "colour",
          className: "history-change-text",
        }),
        Plot.ruleY([0], { stroke: "var(--muted)" }),
        Plot.ruleX(shown, { x: "index", y1: "low", y2: "high", stroke: "var(--control)", strokeWidth: radius < 3 ? 0.75 : 1.5,
                            strokeOpacity: 0.7, className: "history-interval" }),
        Plot.dot(shown, { x: "index", y: "at", r: radius, fill: "var(--treatment)", className: "history-dot" }),
        Plot.dot(shown.filter((one) => one.index === chosen), { x: "index", y: "at", r: 7, stroke: "var(--accent)", strokeWidth: 2, className: "history-chosen" }),
        Plot.tip(shown, Plot.pointerX({ x: "index", y: "at", title: "said", fontSize: 12 })),
      ],
    });
    opduelDraw.name(svg, `${shown.length} builds against the oldest, ${changes.length} changes marked; the tables have the figures`);
    return svg;
  }

  function element(name, attributes, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  class History {
    constructor(figure) {
      this.figure = figure;
      this.positions = positionsOf(figure.dataset.history);
      this.changes = changesOf(figure.dataset.changes, this.positions);
      this.chosen = null;
      this.frame = element("div", { class: "history-frame", tabindex: "0", role: "group",
                                    "aria-label": "Plot of builds: arrow keys choose one, plus and minus zoom, 0 shows all" });
      this.status = element("p", { class: "history-status", role: "status" });
      figure.prepend(this.buttons(), this.frame, this.status);
      this.frame.addEventListener("keydown", (event) => this.key(event));
      this.frame.addEventListener("pointerdown", (event) => this.drag(event), { capture: true }); // the plot keeps some
      let waiting = 0;
      window.addEventListener("resize", () => {
        cancelAnimationFrame(waiting);
        waiting = requestAnimationFrame(() => this.draw());
      });
      this.show(0, this.positions.length - 1);
    }

    buttons() {
      const made = element("div", { class: "tools history-zoom" });
      const actions = [
        ["Zoom in", () => this.zoom(0.5)], ["Zoom out", () => this.zoom(2)],
        ["Earlier", () => this.pan(-1)], ["Later", () => this.pan(1)], ["All builds", () => this.show(0, this.positions.length - 1)],
      ];
      for (const [words, action] of actions) {
        const button = element("button", { type: "button", class: "action" }, words);
        button.addEventListener("click", action);
        made.append(button);
      }
      return made;
    }

    /** Show the builds from one index to another, as many as there are. */
    show(first, last) {
      const end = this.positions.length - 1;
      const few = Math.min(FEWEST - 1, end);
      let [from, to] = [Math.round(first), Math.round(last)].map((at) => Math.max(0, Math.min(end, at)));
      if (to - from < few) [from, to] = [Math.max(0, Math.min(from, end - few)), Math.max(0, Math.min(from, end - few)) + few];
      [this.first, this.last] = [from, to];
      this.draw();
    }

    zoom(factor) {
      const middle = this.chosen !== null && this.chosen >= this.first && this.chosen <= this.last ? this.chosen : (this.first + this.last) / 2;
      const half = ((this.last - this.first) * factor) / 2;
      this.show(middle - half, middle + half);
    }

    pan(direction) {
      const end = this.positions.length - 1;
      const wanted = direction * Math.max(1, Math.round((this.last - this.first) / 2));
      const by = Math.max(-this.first, Math.min(end - this.last, wanted));
      this.show(this.first + by, this.last + by);
    }

    key(event) {
      const steps = { ArrowLeft: -1, ArrowRight: 1 };
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key in steps) this.choose((this.chosen ?? (steps[event.key] > 0 ? this.first - 1 : this.last + 1)) + steps[event.key]);
      else if (event.key === "+" || event.key === "=") this.zoom(0.5);
      else if (event.key === "-") this.zoom(2);
      else if (event.key === "0") this.show(0, this.positions.length - 1);
      else return;
      event.preventDefault();
    }

    /** The index, not whole, at a place of the window. */
    indexAt(clientX) {
      const { left, width } = this.frame.querySelector("svg").getBoundingClientRect();
      const scale = d3.scaleLinear([this.first - 0.5, this.last + 0.5], [MARGINS.marginLeft, width - MARGINS.marginRight]);
      return scale.invert(clientX - left);
    }

    drag(event) {
      if (event.button !== 0) return;
      const began = event.clientX;
      const band = element("div", { class: "history-band", hidden: "" });
      this.frame.append(band);
      const left = this.frame.getBoundingClientRect().left;
      const move = (moved) => {
        const [from, to] = [began, moved.clientX].sort((one, other) => one - other);
        band.hidden = to - from < A_CLICK;
        band.style.left = `${from - left}px`;
        band.style.width = `${to - from}px`;
      };
      const end = (ended) => {
        window.removeEventListener("pointermove", move);
        window.removeEventListener("pointerup", end);
        window.removeEventListener("pointercancel", end);
        band.remove();
        if (ended.type === "pointercancel") return;
        const [from, to] = [began, ended.clientX].sort((one, other) => one - other).map((at) => this.indexAt(at));
        if (Math.abs(ended.clientX - began) < A_CLICK) this.choose(Math.round(from));
        else this.show(Math.ceil(from), Math.floor(to));
      };
      window.addEventListener("pointermove", move);
      window.addEventListener("pointerup", end);
      window.addEventListener("pointercancel", end);
    }

    /** Choose a build: tell of it, with links to its commit and its runs, and keep it in sight. */
    choose(index) {
      this.chosen = Math.max(0, Math.min(this.positions.length - 1, index));
      const [build, date, change, interval, runs] = this.positions[this.chosen].row.cells;
      const copied = (cell) => [...cell.cloneNode(true).childNodes];
      const when = date.textContent.trim();
      this.status.replaceChildren(
        ...copied(build), when === "-" ? "" : ` (${when})`, ": ", element("strong", {}, change.textContent.trim()), ` ${interval.textContent.trim()}`,
        "; measured in the runs of ", ...copied(runs),
      );
      const size = this.last - this.first;
      if (this.chosen < this.first) this.show(this.chosen, this.chosen + size);
      else if (this.chosen > this.last) this.show(this.chosen - size, this.chosen);
      else this.draw();
    }

    draw() {
      this.frame.replaceChildren(drawn(this, this.frame.clientWidth, this.figure.dataset.plotClass));
    }
  }

  document.addEventListener("DOMContentLoaded", () => {
    for (const figure of document.querySelectorAll("figure[data-history]")) {
      if (rowsOf(figure.dataset.history).length) new History(figure);
    }
  });
})();
