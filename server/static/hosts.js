// Hosts: the noise of all of them, a row each, and that of one over its runs; drawn from the tables of the pages, and
// following what these show. A run is chosen by a click or the arrow keys.
(() => {
  "use strict";

  const ROW = 26; // pixels a host
  const LABEL = 56; // pixels from the label of one tick to the next
  const HEIGHT = 280;
  const MARGINS = { marginLeft: 62, marginRight: 20, marginTop: 30, marginBottom: 46 };
  const { changeText, name } = opduelDraw;

  const number = (text) => (text === "" || text === undefined ? null : Number(text));
  const rounded = (log) => changeText(Math.log1p(Number(Math.expm1(log).toPrecision(3))));

  function element(tag, attributes, ...children) {
    const made = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  /** Call `draw` with the rows that the table shows: now, when these change, and when the window does. */
  function follow(table, draw) {
    let rows = [...table.tBodies[0].rows];
    let waiting = 0;
    const soon = () => {
      cancelAnimationFrame(waiting);
      waiting = requestAnimationFrame(() => draw(rows));
    };
    table.addEventListener("table:changed", (event) => {
      rows = event.detail.rows;
      soon();
    });
    window.addEventListener("resize", soon);
    soon();
  }

  /** Log ratios to name on an axis: round changes. */
  function ticksOf([low, high], count) {
    return d3.ticks(Math.expm1(Math.max(low, -5)), Math.expm1(Math.min(high, 5)), count).map(Math.log1p);
  }

  /** Those of some ticks whose labels don't touch, with 0: round changes lie closer together the larger they are. */
  function apart(ticks, scale) {
    const kept = [0];
    for (const tick of d3.sort(ticks, Math.abs)) {
      if (kept.every((other) => Math.abs(scale(other) - scale(tick)) >= LABEL)) kept.push(tick);
    }
    return d3.sort(kept);
  }

  /** Both ends of some log ratios and 0, with a little room. */
  function domainOf(values) {
    const [low, high] = d3.extent([...values, -0.1, 0.1]);
    const reach = (high - low) * 0.05;
    return [low - reach, high + reach];
  }

  function hostOf(row, place) {
    return {
      place,
      label: row.cells[0].querySelector("a").textContent,
      href: row.cells[0].querySelector("a").href,
      level: number(row.dataset.level),
      noise: row.dataset.noise.split(" ").filter(Boolean).map(Number),
      marked: "marked" in row.dataset,
    };
  }

  /** All hosts from top to bottom: the noise of their runs, and how noisy they are now. */
  function drawnHosts(rows, width, plotClass) {
    const hosts = rows.map(hostOf);
    const domain = domainOf(hosts.flatMap((one) => [...one.noise, one.level ?? 0]));
    const names = Math.round(Math.min(260, Math.max(96, width * 0.3)));
    const dots = hosts.flatMap((one) => one.noise.map((noise) => ({ noise, place: one.place })));
    const known = hosts.filter((one) => one.level !== null);
    const look = { x: "level", y: "place", r: 5.5 };
    const said = (one) => `${one.label}\n${rounded(one.level)} now`;
    const ticks = apart(ticksOf(domain, Math.max(2, (width - names) / 80)), d3.scaleLinear(domain, [names, width - 22]));
    const svg = Plot.plot({
      width, height: hosts.length * ROW + 34, marginLeft: names, marginRight: 22, marginTop: 30, marginBottom: 4, className: plotClass,
      x: { domain, label: null, axis: null },
      y: { type: "linear", domain: [hosts.length - 0.5, -0.5], axis: null },
      marks: [
        Plot.axisX(ticks, { anchor: "top", tickFormat: rounded, fontSize: 11 }),
        Plot.gridX(ticks, { stroke: "var(--line)", strokeOpacity: 1 }),
        Plot.ruleX([0], { stroke: "var(--muted)" }),
        Plot.text(hosts, { y: "place", text: "label", frameAnchor: "left", textAnchor: "end", dx: -8, fontSize: 11,
                           lineWidth: (names - 16) / 11.5, textOverflow: "ellipsis-middle", fill: "currentColor" }),
        Plot.dot(dots, { x: "noise", y: "place", r: 2.5, fill: "var(--control)", fillOpacity: 0.35, className: "host-run" }),
        Plot.dot(known.filter((one) => !one.marked), { ...look, fill: "var(--treatment)", className: "host-level" }),
        Plot.dot(known.filter((one) => one.marked), { ...look, symbol: "triangle", fill: "var(--regressed)", className: "host-level" }),
        Plot.tip(known, Plot.pointerY({ x: "level", y: "place", title: said, fontSize: 12, maxRadius: ROW })),
      ],
    });
    name(svg, `Noise of ${hosts.length} hosts; the table has the figures`);
    svg.addEventListener("click", (event) => {
      const found = hosts[Math.floor((event.offsetY - 30) / ROW)];
      if (found) location.assign(found.href);
    });
    return svg;
  }

  function startHosts(figure) {
    const frame = element("div", { class: "plot-scroll", tabindex: "0", role: "region", "aria-label": "Plot of all hosts" });
    figure.prepend(frame);
    follow(document.getElementById(figure.dataset.hosts), (rows) => {
      frame.replaceChildren(drawnHosts(rows, frame.clientWidth - 2, figure.dataset.plotClass));
    });
  }

  function runOf(row) {
    const { started, noise, disturbed, failed } = row.dataset;
    return { row, started: Number(started), noise: number(noise), disturbed: disturbed !== undefined, failed: failed !== undefined };
  }

  /** One host's runs that tell its noise, in their order, and the rise that was found, if any. */
  function drawnRuns({ runs, chosen, rose, rise }, width, plotClass) {
    const domain = domainOf(runs.map((one) => one.noise));
    const every = Math.max(1, Math.ceil(runs.length / Math.max(1, Math.floor(width / 90))));
    const day = d3.utcFormat("%Y-%m-%d");
    const first = rose === null ? -1 : runs.findIndex((one) => one.started >= rose);
    const band = first < 0 ? [] : [{ from: first - 0.5, to: runs.length - 0.5 }];
    const dot = { x: "index", y: "noise", r: 4 };
    const kept = (disturbed, failed) => runs.filter((one) => one.failed === failed && (failed || one.disturbed === disturbed));
    const svg = Plot.plot({
      width, height: HEIGHT, ...MARGINS, className: plotClass,
      x: { type: "linear", domain: [-0.5, runs.length - 0.5], label: null, ticks: d3.range(0, runs.length, every),
           tickFormat: (index) => (runs[index] ? day(new Date(1000 * runs[index].started)) : "") },
      y: { label: "noise, against usual", grid: true, domain, ticks: ticksOf(domain, 6), tickFormat: rounded },
      marks: [
        Plot.rect(band, { x1: "from", x2: "to", fill: "var(--regressed)", fillOpacity: 0.13, className: "host-rise" }),
        Plot.text(band, { x: (one) => (one.from + one.to) / 2, text: () => rounded(rise), frameAnchor: "top", dy: -14, fontSize: 12,
                          fontWeight: 600, fill: "var(--regressed)", className: "host-rise-text" }),
        Plot.ruleY([0], { stroke: "var(--muted)" }),
        Plot.dot(kept(false, false), { ...dot, fill: "var(--treatment)", className: "host-dot" }),
        Plot.dot(kept(true, false), { ...dot, stroke: "var(--treatment)", strokeWidth: 1.75, className: "host-dot" }),
        Plot.dot(kept(false, true), { ...dot, symbol: "times", stroke: "var(--failed)", strokeWidth: 2, className: "host-dot" }),
        Plot.dot(runs.filter((one) => one.index === chosen), { ...dot, r: 8, stroke: "var(--accent)", strokeWidth: 2, className: "host-chosen" }),
        Plot.tip(runs, Plot.pointerX({ x: "index", y: "noise", title: (one) => `${day(new Date(1000 * one.started))}\n${rounded(one.noise)}`, fontSize: 12 })),
      ],
    });
    name(svg, `Noise in ${runs.length} runs${band.length ? ", a rise marked" : ""}; the table has the figures`);
    return svg;
  }

  class Runs {
    constructor(figure) {
      this.figure = figure;
      this.rise = number(figure.dataset.rise);
      this.rose = number(figure.dataset.rose);
      this.runs = [];
      this.chosen = null;
      this.frame = element("div", { class: "history-frame", tabindex: "0", role: "group", "aria-label": "Plot of runs: arrow keys choose one" });
      this.status = element("p", { class: "history-status", role: "status" });
      figure.prepend(this.frame, this.status);
      this.frame.addEventListener("keydown", (event) => this.key(event));
      this.frame.addEventListener("click", (event) => this.choose(Math.round(this.indexAt(event.clientX))));
      follow(document.getElementById(figure.dataset.host), (rows) => this.show(rows));
    }

    show(rows) {
      const found = rows.map(runOf).filter((one) => one.noise !== null);
      found.sort((one, other) => one.started - other.started);
      const before = this.runs[this.chosen]?.row;
      this.runs = found.map((one, index) => ({ ...one, index }));
      const again = this.runs.findIndex((one) => one.row === before);
      this.chosen = again < 0 ? null : again;
      this.draw();
    }

    indexAt(clientX) {
      const { left, width } = this.frame.querySelector("svg").getBoundingClientRect();
      return d3.scaleLinear([-0.5, this.runs.length - 0.5], [MARGINS.marginLeft, width - MARGINS.marginRight]).invert(clientX - left);
    }

    key(event) {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
      this.choose(this.chosen === null ? (step > 0 ? 0 : this.runs.length - 1) : this.chosen + step);
      event.preventDefault();
    }

    /** Choose a run: tell of it, with a link. */
    choose(index) {
      if (!this.runs.length) return;
      this.chosen = Math.max(0, Math.min(this.runs.length - 1, index));
      const { row, noise, disturbed, failed } = this.runs[this.chosen];
      const link = row.cells[0].querySelector("a").cloneNode(true);
      const what = row.cells[0].querySelector(".small").textContent.trim();
      const notes = [failed && "an A/A check failed", disturbed && `disturbed: ${row.cells[7].textContent.trim()}`].filter(Boolean);
      this.status.replaceChildren(link, ` (${what}): `, element("strong", {}, rounded(noise)), ["", ...notes].join("; "));
      this.draw();
    }

    draw() {
      if (this.runs.length) this.frame.replaceChildren(drawnRuns(this, this.frame.clientWidth, this.figure.dataset.plotClass));
      else this.frame.replaceChildren();
    }
  }

  document.addEventListener("DOMContentLoaded", () => {
    document.querySelectorAll("figure[data-hosts]").forEach(startHosts);
    document.querySelectorAll("figure[data-host]").forEach((figure) => new Runs(figure));
  });
})();
