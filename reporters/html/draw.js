// The report's plots: every case's change, and one case's rounds and log ratios. Each function returns an SVG element.
const opduelDraw = (() => {
  "use strict";

  const ROW = 13; // pixels a case
  const APART = 44; // pixels left of the scale, for cases without a change
  const APART_AT = 16; // in these: the label of a tick at the scale's end does not reach there
  const VERDICTS = [
    { verdict: "regressed", symbol: "triangle", rotate: 0 },
    { verdict: "failed", symbol: "times", rotate: 0 },
    { verdict: "inconclusive", symbol: "diamond2", rotate: 0 },
    { verdict: "not_better", symbol: "triangle", rotate: 0, hollow: true },
    { verdict: "improved", symbol: "triangle", rotate: 180 },
    { verdict: "not_worse", symbol: "triangle", rotate: 180, hollow: true },
    { verdict: "unchanged", symbol: "circle", rotate: 0 },
  ];
  // Changes that an axis may name, the most welcome first.
  const TICKS = [
    0, 0.1, -0.1, 1, -0.5, 9, -0.9, 99, -0.99, 0.02, -0.02, 0.5, -0.2, 0.05, -0.05, 0.2, 0.01, -0.01, 4, -0.8, 49, 999, -0.999,
    0.005, -0.005, 0.002, -0.002, 0.001, -0.001,
  ];

  /** A log ratio as a change: "+5 %", or "x12" from eleven-fold on. */
  function changeText(logRatio) {
    const ratio = Math.exp(logRatio);
    if (ratio >= 11) return `x${Number(ratio.toPrecision(3))}`;
    const percent = Number((100 * (ratio - 1)).toPrecision(3));
    return `${percent > 0 ? "+" : percent < 0 ? "\u2212" : ""}${Math.abs(percent)} %`;
  }

  /** Log ratios to name on the axis: the most welcome changes for which there is room. */
  function ticksOf(scale, room) {
    const taken = [];
    for (const change of TICKS) {
      const at = Math.log1p(change);
      const [low, high] = scale.domain();
      if (at < low || at > high) continue;
      if (taken.every((other) => Math.abs(scale(other) - scale(at)) >= room)) taken.push(at);
    }
    return taken.sort((a, b) => a - b);
  }

  /** Log ratios of round changes, as many as there is room for. */
  function roundChanges(scale, room) {
    const [low, high] = scale.domain().map(Math.expm1);
    for (let count = 10; ; count -= 1) {
      const ticks = d3.ticks(low, high, count).map((change) => Math.log1p(change));
      const gaps = d3.pairs(ticks, (lower, upper) => scale(upper) - scale(lower));
      if (count === 1 || gaps.every((gap) => gap >= room)) return ticks;
    }
  }

  const finite = (value) => typeof value === "number" && Number.isFinite(value);
  const logOf = (ratio) => (finite(ratio) && ratio > 0 ? Math.log(ratio) : null);

  /** What the plot of all cases needs of them, each at its place from the top. */
  function placed(cases) {
    return cases.map((entry, place) => ({
      case: entry,
      place,
      at: logOf(entry.ratio),
      low: entry.ci && logOf(entry.ci[0]),
      high: entry.ci && logOf(entry.ci[1]),
      band: Math.log1p(entry.threshold || 0),
      verdict: entry.verdict,
      tip: `${entry.id}\n${entry.words} ${entry.change}`,
    }));
  }

  /** The scale of all cases: linear near 0, logarithmic outside the thresholds, as wide as the widest interval. */
  function effectScale(points, width) {
    const bands = points.map((point) => point.band).filter((band) => band > 0);
    const constant = d3.median(bands) || 0.01;
    const ends = points.flatMap((point) => [point.at, point.low, point.high]).filter(finite);
    const low = Math.min(-2 * constant, d3.min(ends) ?? 0);
    const high = Math.max(2 * constant, d3.max(ends) ?? 0);
    const type = { type: "symlog", constant, domain: [low * 1.05, high * 1.05], label: null };
    const scale = d3.scaleSymlog().constant(constant).domain(type.domain).range([0, width]);
    return { ...type, ticks: ticksOf(scale, 52), tickFormat: changeText };
  }

  /** Neighbours of one threshold share a band. */
  function bands(points) {
    const sharedBands = [];
    for (const { band, place } of points) {
      const last = sharedBands[sharedBands.length - 1];
      if (last && last.band === band) last.bottom = place + 0.5;
      else sharedBands.push({ band, top: place - 0.5, bottom: place + 0.5 });
    }
    return sharedBands;
  }

  /** Room for names, and beside the scale for cases without a change, if there are any. */
  function margins(width, points) {
    const apart = points.some((point) => point.at === null) ? APART : 0;
    const names = Math.round(Math.min(300, Math.max(110, width * 0.32)));
    return { apart, marginLeft: names, marginRight: 22 };
  }

  /**
   * What a screen reader is reported a plot. Its parts have no role, so they must not have names either, which Plot gives them
   * whenever it draws.
   */
  function name(svg, summary) {
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", summary);
    const strip = () => svg.querySelectorAll("[aria-label]").forEach((part) => part.removeAttribute("aria-label"));
    strip();
    new MutationObserver(strip).observe(svg, { childList: true, subtree: true });
  }

  /** All cases from top to bottom: name, change, interval, threshold. A case without a change stands left of the scale. */
  function effects(cases, width, plotClass) {
    const points = placed(cases);
    const { apart, marginLeft, marginRight } = margins(width, points);
    const x = { ...effectScale(points, width - marginLeft - apart - marginRight), insetLeft: apart };
    const marks = VERDICTS.flatMap(({ verdict, symbol, rotate, hollow }) => {
      const ofVerdict = points.filter((point) => point.verdict === verdict);
      const colour = `var(--${verdict})`;
      const look = { y: "place", symbol, rotate, r: 3.5, className: `effect-mark effect-${verdict}` };
      const outline = { stroke: colour, strokeWidth: 1.5, fill: "var(--surface)" };
      const paint = symbol === "times" ? { stroke: colour, strokeWidth: 2 } : hollow ? outline : { fill: colour };
      return [
        Plot.ruleY(ofVerdict.filter((point) => finite(point.low) && finite(point.high)), {
          y: "place", x1: "low", x2: "high", stroke: colour, strokeWidth: 1.5, className: "effect-interval",
        }),
        Plot.dot(ofVerdict.filter((point) => point.at !== null), { ...look, ...paint, x: "at" }),
        Plot.dot(ofVerdict.filter((point) => point.at === null), { ...look, ...paint, frameAnchor: "left", dx: APART_AT }),
      ];
    });
    const common = { width, marginLeft, marginRight, className: plotClass, x };
    const axis = Plot.plot({
      ...common,
      height: 26,
      marginTop: 22,
      marginBottom: 2,
      y: { axis: null },
      marks: [
        Plot.axisX(x.ticks, { anchor: "top", tickFormat: changeText, fontSize: 11 }),
        Plot.text(apart ? ["n/a"] : [], { frameAnchor: "top-left", textAnchor: "middle", dx: APART_AT, dy: -16, fontSize: 11, fill: "var(--muted)" }),
      ],
    });
    const svg = Plot.plot({
      ...common,
      height: points.length * ROW + 4,
      marginTop: 2,
      marginBottom: 2,
      x: { ...x, axis: null },
      y: { type: "linear", domain: [points.length - 0.5, -0.5], axis: null },
      marks: [
        Plot.rect(bands(points), {
          x1: (point) => -point.band, x2: "band", y1: "top", y2: "bottom", fill: "var(--band)",
        }),
        Plot.gridX(x.ticks, { stroke: "var(--line)", strokeOpacity: 1 }),
        Plot.ruleX([0], { stroke: "var(--muted)" }),
        apart ? Plot.ruleX([x.domain[0]], { stroke: "var(--line)", strokeDasharray: "2 3" }) : null,
        Plot.text(points, {
          y: "place", text: (point) => point.case.id, frameAnchor: "left", textAnchor: "end", dx: -8,
          fontSize: 10, lineWidth: (marginLeft - 20) / 10.5, textOverflow: "ellipsis-middle", fill: "currentColor",
        }),
        ...marks,
        Plot.tip(points, Plot.pointerY({
          x: (point) => point.at ?? x.domain[0], y: "place", title: "tip", fontSize: 12, maxRadius: ROW, className: "effect-tip",
        })),
      ],
    });
    const summary = `${points.length} cases, each with its change and interval; the table above has the same figures`;
    name(svg, summary);
    axis.setAttribute("aria-hidden", "true");
    return { axis, svg, caseAt: (height) => points[Math.floor((height - 2) / ROW)]?.case };
  }

  /** A case's samples by name. */
  function samplesOf(entry) {
    return entry.samples.map(([round, stage, decided, control, treatment, logRatio, forks], place) => ({
      place: place + 1, round, stage, decided: Boolean(decided), forks, logRatio,
      control: control / entry.divisor,
      treatment: treatment / entry.divisor,
      tip: `${stage}, process pair ${round}\n${logRatio === null ? `${control} -> ${treatment}` : changeText(logRatio)}`,
    }));
  }

  /** The places at which another stage of measuring begins. */
  function stages(samples) {
    return samples.filter((sample, place) => place === 0 || samples[place - 1].stage !== sample.stage);
  }

  /** Control and treatment of each process pair, in the order in which they were measured. */
  function rounds(entry, width, plotClass) {
    const samples = samplesOf(entry);
    const begins = stages(samples);
    const svg = Plot.plot({
      width, height: 230, marginLeft: 56, marginTop: 26, marginBottom: 34, className: plotClass,
      x: { domain: [0.5, samples.length + 0.5], label: "process pairs, as measured", tickFormat: "d",
           ticks: d3.ticks(1, samples.length, Math.floor(width / 50)).filter(Number.isInteger) },
      y: { label: entry.unit, grid: true, nice: true },
      marks: [
        Plot.ruleX(begins.slice(1), { x: (sample) => sample.place - 0.5, stroke: "var(--muted)", strokeDasharray: "3 3" }),
        Plot.text(begins.length > 1 ? begins : [], { x: (sample) => sample.place - 0.4, text: "stage", frameAnchor: "top", textAnchor: "start",
                            dy: -14, fill: "var(--muted)", fontSize: 11 }),
        Plot.ruleX(samples, { x: "place", y1: "control", y2: "treatment", stroke: "var(--line)", strokeWidth: 2 }),
        Plot.dot(samples, { x: "place", y: "control", stroke: "var(--control)", strokeWidth: 1.75, r: 3.5,
                            className: "round-control" }),
        Plot.dot(samples, { x: "place", y: "treatment", fill: "var(--treatment)", symbol: "square", r: 3.5,
                            className: "round-treatment" }),
        Plot.tip(samples, Plot.pointerX({ x: "place", y: "treatment", title: "tip", fontSize: 12 })),
      ],
    });
    name(svg, `Control and treatment of ${samples.length} process pairs; the numbers are below`);
    return svg;
  }

  /** How the log ratios of the process pairs lie, with estimate, interval and threshold. */
  function distribution(entry, width, plotClass) {
    const samples = samplesOf(entry).filter((sample) => finite(sample.logRatio));
    const band = Math.log1p(entry.threshold || 0);
    const [at, low, high] = [logOf(entry.ratio), entry.ci && logOf(entry.ci[0]), entry.ci && logOf(entry.ci[1])];
    const ends = d3.extent([...samples.map((sample) => sample.logRatio), at, -band, band, 0].filter(finite));
    const reach = (ends[1] - ends[0]) * 0.06 || 0.01;
    const domain = [ends[0] - reach, ends[1] + reach];
    const ticks = roundChanges(d3.scaleLinear(domain, [0, width - 32]), 58);
    const within = (value) => Math.max(domain[0], Math.min(domain[1], value));
    const inner = [{ at, low: within(low), high: within(high) }];
    const colour = `var(--${entry.verdict})`;
    const dots = { x: "logRatio", anchor: "bottom", padding: 1.5 };
    const svg = Plot.plot({
      width, height: 230, marginLeft: 16, marginRight: 16, marginTop: 26, marginBottom: 34, className: plotClass,
      x: { domain, label: "change of each process pair (logarithmic)", tickFormat: changeText, ticks },
      marks: [
        Plot.rect([0], { x1: -band, x2: band, fill: "var(--band)" }),
        Plot.ruleX([0], { stroke: "var(--muted)" }),
        Plot.dot(samples, Plot.dodgeY({ ...dots, r: samples.length > 60 ? 2.5 : 3.5, fill: (sample) => (sample.decided ? "var(--treatment)" : "var(--surface)"),
                                        stroke: "var(--treatment)", className: "ratio-mark" })),
        at === null ? null : Plot.ruleX([at], { stroke: colour, strokeWidth: 2, insetTop: 4 }),
        finite(low) && finite(high)
          ? Plot.rect(inner, { x1: "low", x2: "high", fill: colour, insetBottom: 165 })
          : null,
      ],
    });
    name(svg, `Changes of ${samples.length} process pairs, with estimate, interval and threshold`);
    return svg;
  }

  return { effects, rounds, distribution, changeText, name };
})();
