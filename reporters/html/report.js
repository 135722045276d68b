// The report's page: draws all cases, keeps to the table's order and filter, and opens a case (#case=...).
(() => {
  "use strict";

  const data = JSON.parse(document.getElementById("data").textContent);
  const table = document.getElementById("case-table");
  if (!table) return;

  let shown = data.cases.map((_, number) => number);
  let opened = null;

  /** An element with attributes and children; texts are never read as markup. */
  function element(name, attributes, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
    made.append(...children.filter((child) => child !== null));
    return made;
  }

  // The plot of all cases

  const figure = document.getElementById("effects");
  const plot = document.getElementById("effects-plot");
  let drawnFor = "";

  function drawEffects() {
    figure.hidden = false;
    const width = Math.floor(plot.clientWidth);
    const wanted = `${width} ${shown.join()}`;
    if (!width || wanted === drawnFor) return;
    drawnFor = wanted;
    const { axis, svg, caseAt } = opduelDraw.effects(shown.map((number) => data.cases[number]), width, data.plotClass);
    svg.addEventListener("click", (event) => {
      const one = caseAt(event.clientY - svg.getBoundingClientRect().top);
      if (one) location.hash = fragmentOf(one);
    });
    document.getElementById("effects-axis").replaceChildren(axis);
    plot.replaceChildren(svg);
    performance.mark("opduel-effects");
  }

  /** At once, or when the whole page has been read: Observable Plot is its last script. */
  function whenLoaded(work) {
    if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", work, { once: true });
    else work();
  }

  let waiting = 0;
  function drawSoon(delay) {
    clearTimeout(waiting);
    waiting = setTimeout(() => whenLoaded(drawEffects), delay);
  }

  table.addEventListener("table:changed", (event) => {
    shown = event.detail.rows.map((row) => Number(row.dataset.n));
    drawSoon(drawnFor ? 120 : 0);
  });
  table.addEventListener("mouseover", (event) => {
    const cell = event.target.closest("td[data-value]");
    if (cell && cell.classList.contains("number")) cell.title = cell.dataset.value;
  });
  new ResizeObserver(() => drawSoon(drawnFor ? 120 : 0)).observe(table.closest(".table-scroll"));

  // The case that is opened

  const dialog = document.getElementById("case");
  const body = document.getElementById("case-body");

  const fragmentOf = (one) => `case=${encodeURIComponent(one.id)}`;

  function caseOfAddress() {
    if (!location.hash.startsWith("#case=")) return null;
    let id;
    try {
      id = decodeURIComponent(location.hash.slice("#case=".length));
    } catch {
      return null;
    }
    const number = data.cases.findIndex((one) => one.id === id);
    return number < 0 ? null : number;
  }

  function follow() {
    const number = caseOfAddress();
    if (number === null) {
      if (dialog.open) dialog.close();
    } else {
      open(number);
    }
  }

  function open(number) {
    const one = data.cases[number];
    opened = number;
    for (const row of table.tBodies[0].rows) row.toggleAttribute("aria-current", false);
    rowOf(number).setAttribute("aria-current", "true");
    document.getElementById("case-heading").textContent = one.id;
    const place = shown.indexOf(number);
    document.getElementById("case-before").disabled = place <= 0;
    document.getElementById("case-after").disabled = place < 0 || place === shown.length - 1;
    body.replaceChildren(...told(one));
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
    afterNextFrame(() => { if (opened === number) drawCase(one); });
    if (!dialog.contains(document.activeElement) || document.activeElement.disabled) document.getElementById("case-close").focus();
  }

  /** When the browser has shown what is there: texts, tables and flame graphs don't wait for plots. */
  const afterNextFrame = (work) => requestAnimationFrame(() => setTimeout(() => whenLoaded(work)));

  const rowOf = (number) => table.tBodies[0].querySelector(`tr[data-n="${number}"]`);

  /** All that is known of a case, but for its plots. */
  function told(one) {
    const verdict = element("span", { class: `verdict ${one.verdict}` }, one.words);
    const parts = [element("p", {}, verdict, ` ${one.change}`, one.why ? element("span", { class: "note" }, one.why) : null)];
    for (const failure of one.failures) {
      parts.push(element("div", { class: "notice" }, element("p", {}, failure.what)));
      if (failure.words) parts.push(element("pre", { tabindex: "0", "aria-label": "output tail" }, failure.words));
    }
    if (one.samples.length) parts.push(casePlots());
    parts.push(element("h3", {}, "Figures"), facts(one));
    if (one.causes.length) parts.push(...causes(one.causes));
    if (one.breakdown) parts.push(...breakdown(one.breakdown));
    parts.push(...again(one));
    if (one.samples.length) parts.push(numbers(one));
    return parts;
  }

  function facts(one) {
    const list = element("dl", { class: "facts" });
    one.facts.forEach((fact, place) => {
      if (fact) list.append(element("dt", {}, data.labels[place]), element("dd", {}, fact));
    });
    return list;
  }

  function tableOf(caption, headings, rows) {
    const head = element("tr", {}, ...headings.map((text) => element("th", { scope: "col" }, text)));
    const lines = rows.map(([first, ...others]) =>
      element("tr", {}, element("th", { scope: "row" }, first), ...others.map((text) => element("td", { class: "number" }, text))));
    const made = element("table", {}, element("caption", {}, caption), element("thead", {}, head), element("tbody", {}, ...lines));
    return element("div", { class: "table-scroll", tabindex: "0", role: "region", "aria-label": caption }, made);
  }

  function causes(examinations) {
    const headings = ["part", "calls", "control", "treatment", "share of the difference", "95 % interval"];
    const primitives = ["primitive", "implementation of the control", "of the treatment", "control", "treatment"];
    const made = [element("h3", {}, "Why it changed")];
    for (const seen of examinations) {
      const words = seen.rows.length ? seen.note : `${seen.caption}: ${seen.note || "no part differs clearly"}`;
      if (seen.rows.length) made.push(tableOf(seen.caption, headings, seen.rows));
      if (seen.implementations.length) made.push(tableOf("Primitives before and after", primitives, seen.implementations));
      if (words) made.push(element("p", { class: "muted" }, words));
      if (seen.flame) made.push(opduelFlame.figure(seen.flame));
    }
    return made;
  }

  function breakdown(parts) {
    const headings = ["operator", "count", "control", "share", "treatment", "share", "difference"];
    const made = [element("h3", {}, "Where the time goes")];
    if (parts.rows.length) made.push(tableOf("Operators by the framework's own profiler, one call", headings, parts.rows));
    if (parts.note) made.push(element("p", { class: "muted" }, `not profiled: ${parts.note}`));
    return made;
  }

  /** How to measure the case again. */
  function again(one) {
    const made = [element("h3", {}, "Measure it again"), ...command("The same builds, on this machine:", `${data.here} ${one.again}`)];
    if (data.anywhere) made.push(...command("Its commits, rebuilt on any machine:", `${data.anywhere} ${one.again}`));
    const link = element("a", { href: "#how" }, "How it was measured");
    made.push(element("p", { class: "muted" }, "Host, environment and both builds with their packages: ", link));
    return made;
  }

  function command(words, line) {
    const made = [element("p", { class: "muted" }, words), element("pre", { tabindex: "0", "aria-label": words }, line)];
    if (navigator.clipboard) {
      const button = element("button", { type: "button", class: "action" }, "Copy");
      button.addEventListener("click", () => {
        const say = (text) => { button.textContent = text; };
        navigator.clipboard.writeText(line).then(() => say("Copied"), () => say("Not allowed here"));
      });
      made.push(button);
    }
    return made;
  }

  /** Every process pair's numbers: what the plots show, as a table. */
  function numbers(one) {
    const headings = ["pair", "stage", `control, ${one.unit}`, `treatment, ${one.unit}`, "change", "forks"];
    const rows = one.samples.map(([round, stage, decided, control, treatment, logRatio, forks]) => [
      String(round), decided ? `${stage} (decided)` : stage, number(control / one.divisor), number(treatment / one.divisor),
      logRatio === null ? "-" : opduelDraw.changeText(logRatio), String(forks),
    ]);
    const details = element("details", {}, element("summary", {}, "The numbers of every process pair"));
    details.append(tableOf("Process pairs; to six digits", headings, rows));
    return details;
  }

  const number = (value) => String(Number(value.toPrecision(6)));

  /** The places of a case's plots, as high as these will be. */
  function casePlots() {
    const legend = element("span", { class: "legend" }, element("span", { class: "control" }, "\u25CB control"),
      element("span", { class: "treatment" }, "\u25A0 treatment"));
    const captions = [
      element("figcaption", {}, "Every process pair: ", legend),
      element("figcaption", {}, "How their changes lie; filled: those that decided. Line and bar: estimate and interval"),
    ];
    const figures = captions.map((caption) => element("figure", {}, caption, element("div", { class: "case-plot" })));
    return element("div", { class: "case-plots" }, ...figures);
  }

  function drawCase(one) {
    const places = [...body.querySelectorAll(".case-plot")];
    const widths = places.map((place) => Math.max(260, Math.floor(place.clientWidth)));
    [opduelDraw.rounds, opduelDraw.distribution].slice(0, places.length).forEach((draw, number) => {
      places[number].replaceChildren(draw(one, widths[number], data.plotClass));
    });
  }

  function step(by) {
    const next = shown[shown.indexOf(opened) + by];
    if (next !== undefined) location.replace(`#${fragmentOf(data.cases[next])}`);
  }

  document.getElementById("case-before").addEventListener("click", () => step(-1));
  document.getElementById("case-after").addEventListener("click", () => step(1));
  document.getElementById("case-close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  dialog.addEventListener("close", () => {
    if (caseOfAddress() !== null) history.replaceState(null, "", "#");
    else if (document.querySelector(":target")) return; // a link out of the case leads there
    const row = opened === null ? null : rowOf(opened);
    if (row && !row.hidden) row.querySelector("a").focus();
  });
  window.addEventListener("hashchange", follow);
  follow();
})();
