// The report's page: draws all cases, keeps to the table's order and filter, and opens a case (#case=...).
(() => {
  "use strict";

  const data = JSON.parse(document.getElementById("data").textContent);
  const table = document.getElementById("case-table");
  if (!table) return;

  let visible = data.cases.map((_, number) => number);
  let opened = null;

  /** An element with attributes and children; texts are never read as markup. */
  function element(name, attributes, ...children) {
    const created = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) created.setAttribute(key, value);
    created.append(...children.filter((child) => child !== null));
    return created;
  }

  // The plot of all cases

  const figure = document.getElementById("effects");
  const plot = document.getElementById("effects-plot");
  let drawnFor = "";

  function drawEffects() {
    figure.hidden = false;
    const width = Math.floor(plot.clientWidth);
    const layout = `${width} ${visible.join()}`;
    if (!width || layout === drawnFor) return;
    drawnFor = layout;
    const { axis, svg, caseAt } = opduelDraw.effects(visible.map((number) => data.cases[number]), width, data.plotClass);
    svg.addEventListener("click", (event) => {
      const entry = caseAt(event.clientY - svg.getBoundingClientRect().top);
      if (entry) location.hash = fragmentOf(entry);
    });
    document.getElementById("effects-axis").replaceChildren(axis);
    plot.replaceChildren(svg);
    performance.mark("opduel-effects");
  }

  /** At once, or when the page has been read completely: Observable Plot is its last script. */
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
    visible = event.detail.rows.map((row) => Number(row.dataset.n));
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

  const fragmentOf = (entry) => `case=${encodeURIComponent(entry.id)}`;

  function caseOfAddress() {
    if (!location.hash.startsWith("#case=")) return null;
    let id;
    try {
      id = decodeURIComponent(location.hash.slice("#case=".length));
    } catch {
      return null;
    }
    const number = data.cases.findIndex((entry) => entry.id === id);
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
    const entry = data.cases[number];
    opened = number;
    for (const row of table.tBodies[0].rows) row.toggleAttribute("aria-current", false);
    rowOf(number).setAttribute("aria-current", "true");
    document.getElementById("case-heading").textContent = entry.id;
    const place = visible.indexOf(number);
    document.getElementById("case-before").disabled = place <= 0;
    document.getElementById("case-after").disabled = place < 0 || place === visible.length - 1;
    body.replaceChildren(...caseElements(entry));
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
    afterNextFrame(() => { if (opened === number) drawCase(entry); });
    if (!dialog.contains(document.activeElement) || document.activeElement.disabled) document.getElementById("case-close").focus();
  }

  /** Run after the browser has drawn texts, tables and flame graphs, which don't wait for plots. */
  const afterNextFrame = (work) => requestAnimationFrame(() => setTimeout(() => whenLoaded(work)));

  const rowOf = (number) => table.tBodies[0].querySelector(`tr[data-n="${number}"]`);

  /** The content of a case, except for its plots. */
  function caseElements(entry) {
    const verdict = element("span", { class: `verdict ${entry.verdict}` }, entry.words);
    const parts = [element("p", {}, verdict, ` ${entry.change}`, entry.why ? element("span", { class: "note" }, entry.why) : null)];
    for (const failure of entry.failures) {
      parts.push(element("div", { class: "notice" }, element("p", {}, failure.what)));
      if (failure.words) parts.push(element("pre", { tabindex: "0", "aria-label": "output tail" }, failure.words));
    }
    if (entry.samples.length) parts.push(casePlots(entry));
    parts.push(element("h3", {}, "Figures"), facts(entry));
    if (entry.causes.length) parts.push(...causes(entry.causes));
    if (entry.breakdown) parts.push(...breakdown(entry.breakdown));
    parts.push(...again(entry));
    if (entry.samples.length) parts.push(numbers(entry));
    return parts;
  }

  function facts(entry) {
    const list = element("dl", { class: "facts" });
    entry.facts.forEach((fact, place) => {
      if (fact) list.append(element("dt", {}, data.labels[place]), element("dd", {}, fact));
    });
    return list;
  }

  function tableOf(caption, headings, rows) {
    const head = element("tr", {}, ...headings.map((text) => element("th", { scope: "col" }, text)));
    const lines = rows.map(([first, ...cells]) =>
      element("tr", {}, element("th", { scope: "row" }, first), ...cells.map((text) => element("td", { class: "number" }, text))));
    const table = element("table", {}, element("caption", {}, caption), element("thead", {}, head), element("tbody", {}, ...lines));
    return element("div", { class: "table-scroll", tabindex: "0", role: "region", "aria-label": caption }, table);
  }

  function causes(examinations) {
    const headings = ["part", "calls", "control", "treatment", "share of the difference", "95 % interval"];
    const primitives = ["primitive", "implementation of the control", "of the treatment", "control", "treatment"];
    const elements = [element("h3", {}, "Why it changed")];
    for (const examination of examinations) {
      const words = examination.rows.length ? examination.note : `${examination.caption}: ${examination.note || "no part differs clearly"}`;
      if (examination.rows.length) elements.push(tableOf(examination.caption, headings, examination.rows));
      if (examination.implementations.length) elements.push(tableOf("Primitives before and after", primitives, examination.implementations));
      if (words) elements.push(element("p", { class: "muted" }, words));
      if (examination.flame) elements.push(opduelFlame.figure(examination.flame));
    }
    return elements;
  }

  function breakdown(parts) {
    const headings = [parts.part, "count", "control", "share", "treatment", "share", "difference"];
    const elements = [element("h3", {}, "Where the time goes")];
    if (parts.rows.length) elements.push(tableOf("One call, by the framework's own profiler", headings, parts.rows));
    if (parts.note) elements.push(element("p", { class: "muted" }, `not profiled: ${parts.note}`));
    return elements;
  }

  /** How to measure the case again. */
  function again(entry) {
    const elements = [element("h3", {}, "Measure it again"), ...command("The same builds, on this machine:", `${data.here} ${entry.again}`)];
    if (data.anywhere) elements.push(...command("Its commits, built again:", `${data.anywhere} ${entry.again}`));
    const link = element("a", { href: "#how" }, "How it was measured");
    elements.push(element("p", { class: "muted" }, "Host, environment and both builds with their packages: ", link));
    return elements;
  }

  function command(words, line) {
    const elements = [element("p", { class: "muted" }, words), element("pre", { tabindex: "0", "aria-label": words }, line)];
    if (navigator.clipboard) {
      const button = element("button", { type: "button", class: "action" }, "Copy");
      button.addEventListener("click", () => {
        const say = (text) => { button.textContent = text; };
        navigator.clipboard.writeText(line).then(() => say("Copied"), () => say("Not allowed here"));
      });
      elements.push(button);
    }
    return elements;
  }

  /** The numbers of every process pair, which the plots show, as a table. */
  function numbers(entry) {
    const headings = ["pair", "stage", `control, ${entry.unit}`, `treatment, ${entry.unit}`, "change", "forks"];
    const rows = entry.samples.map(([round, stage, decided, control, treatment, logRatio, forks]) => [
      String(round), decided ? `${stage} (decided)` : stage, number(control / entry.divisor), number(treatment / entry.divisor),
      logRatio === null ? "-" : opduelDraw.changeText(logRatio), String(forks),
    ]);
    const details = element("details", {}, element("summary", {}, "The numbers of every process pair"));
    details.append(tableOf("Process pairs; to six digits", headings, rows));
    return details;
  }

  const number = (value) => String(Number(value.toPrecision(6)));

  /** The places of a case's plots, as high as these will be. */
  function casePlots(entry) {
    const legend = element("span", { class: "legend" }, element("span", { class: "control" }, "\u25CB control"),
      element("span", { class: "treatment" }, "\u25A0 treatment"));
    const captions = [
      element("figcaption", {}, "Every process pair: ", legend),
      element("figcaption", {}, "How their changes lie; filled: those that decided. Line and bar: estimate and interval"),
    ];
    if (entry.samples.every(([, , , , , logRatio]) => logRatio === null)) captions.pop();
    const figures = captions.map((caption) => element("figure", {}, caption, element("div", { class: "case-plot" })));
    return element("div", { class: "case-plots" }, ...figures);
  }

  function drawCase(entry) {
    const places = [...body.querySelectorAll(".case-plot")];
    const widths = places.map((place) => Math.max(260, Math.floor(place.clientWidth)));
    [opduelDraw.rounds, opduelDraw.distribution].slice(0, places.length).forEach((draw, number) => {
      places[number].replaceChildren(draw(entry, widths[number], data.plotClass));
    });
  }

  function step(by) {
    const next = visible[visible.indexOf(opened) + by];
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
