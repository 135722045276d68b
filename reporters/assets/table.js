// Tables of class "sortable": sorted by their headers, filtered by words and verdicts. README.md says how to write them.
(() => {
  "use strict";

  const VERDICTS = ["regressed", "failed", "inconclusive", "not_better", "improved", "not_worse", "unchanged"];

  /** What a cell is sorted by: a number where its data-value is one, else a text; null for an empty data-value. */
  function keyOf(cell) {
    if (!cell) return null;
    const value = cell.dataset.value;
    if (value === undefined) return cell.textContent.trim().toLowerCase();
    if (value === "") return null;
    const number = Number(value);
    return Number.isNaN(number) ? value.toLowerCase() : number;
  }

  /** Numbers before texts, either in their order; an empty key comes last, whichever the direction. */
  function compare(first, second, sign) {
    if (first === null || second === null) return (first === null) - (second === null);
    if (typeof first !== typeof second) return typeof first === "number" ? -1 : 1;
    if (typeof first === "number") return sign * (first - second);
    return sign * first.localeCompare(second, undefined, { numeric: true });
  }

  class Table {
    constructor(table) {
      this.table = table;
      this.body = table.tBodies[0];
      this.headers = [...table.tHead.rows[0].cells];
      this.rows = [...this.body.rows];
      this.texts = null;
      this.headers.forEach((header, column) => {
        if (!header.classList.contains("unsorted")) this.addButton(header, column);
      });
      if (table.dataset.filter !== undefined) this.addTools();
    }

    addButton(header, column) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.append(...header.childNodes);
      header.append(button);
      button.addEventListener("click", () => {
        const now = header.getAttribute("aria-sort");
        const first = header.dataset.first === "descending" ? "descending" : "ascending";
        const turned = now === "ascending" ? "descending" : "ascending";
        this.sort(column, now ? turned : first);
      });
    }

    sort(column, direction) {
      const sign = direction === "descending" ? -1 : 1;
      const keys = new Map(this.rows.map((row) => [row, keyOf(row.cells[column])]));
      this.rows.sort((first, second) => compare(keys.get(first), keys.get(second), sign));
      for (const header of this.headers) header.removeAttribute("aria-sort");
      this.headers[column].setAttribute("aria-sort", direction);
      this.body.append(...this.rows);
      this.texts = null;
      this.changed();
    }

    addTools() {
      const tools = document.createElement("div");
      tools.className = "tools";
      tools.setAttribute("role", "search");
      tools.setAttribute("aria-label", this.table.dataset.filter);
      this.search = document.createElement("input");
      this.search.type = "search";
      this.search.autocomplete = "off";
      this.search.spellcheck = false;
      this.search.setAttribute("form", ""); // of none around the table, which Enter would send
      tools.append(labelled(this.table.dataset.filter, this.search));
      if (this.table.dataset.verdicts !== undefined) tools.append(this.verdictBoxes());
      this.count = document.createElement("span");
      this.count.setAttribute("role", "status");
      this.count.className = "muted";
      tools.append(this.count);
      (this.table.closest(".table-scroll") || this.table).before(tools);
      let waiting = 0;
      tools.addEventListener("input", () => {
        cancelAnimationFrame(waiting);
        waiting = requestAnimationFrame(() => this.filter());
      });
      this.filter();
    }

    verdictBoxes() {
      const group = document.createElement("fieldset");
      const legend = document.createElement("legend");
      legend.className = "visually-hidden";
      legend.textContent = "Verdicts shown";
      group.append(legend);
      this.boxes = new Map();
      for (const verdict of VERDICTS) {
        const rows = this.rows.filter((row) => row.dataset.verdict === verdict);
        if (!rows.length) continue;
        const words = new Set(rows.map((row) => row.querySelector(".verdict").textContent)); // "not slower", "not larger"
        const box = document.createElement("input");
        box.type = "checkbox";
        box.checked = true;
        box.value = verdict;
        this.boxes.set(verdict, box);
        const label = document.createElement("label");
        const word = document.createElement("span");
        word.className = `verdict ${verdict}`;
        word.textContent = `${[...words].join(", ")} ${rows.length}`;
        label.append(box, word);
        group.append(label);
      }
      return group;
    }

    /** The text of each row in which words are looked for, in the rows' present order. */
    searched() {
      if (this.texts) return this.texts;
      const columns = this.headers.flatMap((header, column) => (header.dataset.found === undefined ? [] : [column]));
      const textOf = (row) => (columns.length ? columns.map((column) => row.cells[column].textContent).join(" ") : row.textContent);
      this.texts = this.rows.map((row) => textOf(row).toLowerCase());
      return this.texts;
    }

    filter() {
      const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
      const texts = words.length ? this.searched() : null;
      this.rows.forEach((row, place) => {
        const box = this.boxes && this.boxes.get(row.dataset.verdict);
        const hidden = (box && !box.checked) || !words.every((word) => texts[place].includes(word));
        if (row.hidden !== Boolean(hidden)) row.hidden = Boolean(hidden);
      });
      this.changed();
    }

    changed() {
      const rows = this.rows.filter((row) => !row.hidden);
      if (this.count) {
        this.count.textContent = rows.length === this.rows.length ? `${rows.length} rows` : `${rows.length} of ${this.rows.length} rows`;
      }
      this.table.dispatchEvent(new CustomEvent("table:changed", { bubbles: true, detail: { rows } }));
    }
  }

  function labelled(text, input) {
    const label = document.createElement("label");
    const words = document.createElement("span");
    words.textContent = text;
    label.append(words, input);
    return label;
  }

  function start() {
    for (const table of document.querySelectorAll("table.sortable")) new Table(table);
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
