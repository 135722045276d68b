// One case over builds: positions with intervals and the changes that were found, drawn from the tables of the page.
(() => {
  "use strict";

  const HEIGHT = 300;

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

  function positionsOf(id) {
    const found = rowsOf(id).map(({ dataset, cells }) => ({
      node: dataset.node,
      place: Number(dataset.place),
      at: Number(dataset.log),
      low: Number(dataset.low),
      high: Number(dataset.high),
      label: dataset.label,
      said: [dataset.label, dataset.subject.slice(0, 60), changeText(Number(dataset.log)), cells[3].textContent.trim()]
        .filter(Boolean)
        .join("\n"),
    }));
    return found.sort((one, other) => one.place - other.place);
  }

  /** Each change as a band from the last place of the old level to the first of the new one. */
  function changesOf(id, places) {
    return rowsOf(id).map(({ dataset }) => ({
      from: places.get(dataset.before),
      to: places.get(dataset.after),
      log: Number(dataset.log),
      text: changeText(Number(dataset.log)),
      colour: Number(dataset.log) > 0 ? "var(--regressed)" : "var(--improved)",
    }));
  }

  function drawn(positions, changes, width, plotClass) {
    const last = positions.length - 1;
    const room = Math.max(1, Math.floor(width / 110));
    const every = Math.max(1, Math.ceil((last + 1) / room));
    const ticks = d3.range(0, last + 1, every);
    const ends = d3.extent([...positions.flatMap((one) => [one.low, one.high]), 0]);
    const reach = (ends[1] - ends[0]) * 0.05 || 0.01;
    const domain = [ends[0] - reach, ends[1] + reach];
    const radius = Math.min(3.5, Math.max(1.5, (0.4 * width) / (last + 1)));
    const svg = Plot.plot({
      width, height: HEIGHT, marginLeft: 62, marginRight: 20, marginTop: 30, marginBottom: 32, className: plotClass,
      x: { type: "linear", domain: [-0.5, last + 0.5], label: null, ticks, tickFormat: (place) => positions[place].label.slice(0, 14) },
      y: { label: "against the oldest build", grid: true, domain, ...ticksOf(domain) },
      marks: [
        Plot.rect(changes, { x1: "from", x2: "to", fill: "colour", fillOpacity: 0.16, className: "history-change" }),
        Plot.text(changes, {
          x: (one) => (one.from + one.to) / 2, text: "text", frameAnchor: "top", dy: -14, fontSize: 12, fontWeight: 600, fill: "colour",
          className: "history-change-text",
        }),
        Plot.ruleY([0], { stroke: "var(--muted)" }),
        Plot.ruleX(positions, { x: "place", y1: "low", y2: "high", stroke: "var(--control)", strokeWidth: radius < 3 ? 0.75 : 1.5,
                                strokeOpacity: 0.7, className: "history-interval" }),
        Plot.dot(positions, { x: "place", y: "at", r: radius, fill: "var(--treatment)", className: "history-dot" }),
        Plot.tip(positions, Plot.pointerX({ x: "place", y: "at", title: "said", fontSize: 12 })),
      ],
    });
    opduelDraw.name(svg, `${positions.length} builds against the oldest, ${changes.length} changes marked; the tables have the figures`);
    return svg;
  }

  function start(figure) {
    const frame = document.createElement("div");
    figure.prepend(frame);
    const positions = positionsOf(figure.dataset.history);
    const places = new Map(positions.map((one) => [one.node, one.place]));
    const changes = changesOf(figure.dataset.changes, places);
    const draw = () => frame.replaceChildren(drawn(positions, changes, frame.clientWidth, figure.dataset.plotClass));
    let waiting = 0;
    window.addEventListener("resize", () => {
      cancelAnimationFrame(waiting);
      waiting = requestAnimationFrame(draw);
    });
    draw();
  }

  document.addEventListener("DOMContentLoaded", () => document.querySelectorAll("figure[data-history]").forEach(start));
})();
