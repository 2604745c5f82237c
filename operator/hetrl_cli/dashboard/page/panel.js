// One panel: its head, its drawing, its legend, and the same as a table for who cannot see it.

import { drawChart } from "./chart.js";
import { clock, figure } from "./format.js";
import { drawHeatmap } from "./heatmap.js";
import { colour, element, html } from "./svg.js";

// Of more lines than these, those that are always 0 share one word in the legend.
const MANY = 4;

export class Panel {
  constructor(definition, cursor) {
    this.definition = definition;
    this.cursor = cursor;
    this.isStat = definition.form === "stat";
    this.body = html("div");
    this.body.style.display = "contents";
    this.about = html("p", { class: "about" }, definition.says);
    this.about.hidden = true;
    this.node = html("article", { class: this.isStat ? "panel stat" : "panel", "data-title": definition.title });
    this.node.style.setProperty("--width", definition.width);
    const head = html("div", { class: "head" }, html("h3", {}, definition.title));
    if (this.isStat) this.node.title = definition.says;
    else head.append(this.toggle("?", "What this is", this.about));
    this.node.append(head, this.about, this.body);
    this.values = html("div");
    this.values.hidden = true;
    if (["timeseries", "stacked", "heatmap"].includes(definition.form)) {
      head.append(this.toggle("table", "Figures as a table", this.values));
      this.node.append(this.values);
      this.plot = html("div", { class: "plot", tabindex: "0", role: "img" });
      this.watch();
    }
  }

  toggle(text, label, shown) {
    const button = html("button", { type: "button", "aria-expanded": "false", "aria-label": `${label}: ${this.definition.title}` }, text);
    button.onclick = () => {
      shown.hidden = !shown.hidden;
      button.setAttribute("aria-expanded", String(!shown.hidden));
    };
    return button;
  }

  show(figures, shown) {
    this.figures = figures;
    this.shown = shown;
    this.draw();
  }

  draw() {
    if (!this.figures) return;
    const { form } = this.definition;
    const isEmpty = form === "heatmap" ? !this.figures.buckets?.length : !this.figures.lines.length;
    this.drawing = null;
    if (isEmpty) this.body.replaceChildren(html("p", { class: "none" }, this.isStat ? "–" : "no data in this span"));
    else if (form === "stat") this.drawStat();
    else if (form === "bargauge") this.drawBars();
    else this.drawPlot();
  }

  drawStat() {
    const { unit, decimals } = this.definition;
    const { values } = this.figures.lines[0];
    const text = figure(newest(values), unit, decimals);
    const [, number, rest] = text.match(/^(\$?[-\d.e+]+)\s?(.*)$/) ?? [null, text, ""];
    const value = html("div", { class: "value" }, number, html("small", {}, rest));
    this.body.replaceChildren(value, spark(values));
  }

  drawBars() {
    const { unit, decimals } = this.definition;
    const lines = this.figures.lines
      .map((line) => ({ ...line, value: newest(line.values) }))
      .filter((line) => line.value !== null);
    lines.sort((one, other) => other.value - one.value);
    const most = Math.max(...lines.map((line) => line.value), 1e-9);
    const list = html("ul", { class: "bars" });
    lines.forEach((line) => {
      const bar = html("span");
      bar.style.cssText = `width: ${Math.max(0, 100 * line.value / most)}%; background: ${colour(0)}`;
      list.append(html("li", {},
        html("div", {}, html("span", {}, line.name), html("b", {}, figure(line.value, unit, decimals))),
        html("div", { class: "track", "aria-hidden": "true" }, bar)));
    });
    this.body.replaceChildren(list);
  }

  drawPlot() {
    const isHeat = this.definition.form === "heatmap";
    if (this.plot.parentNode !== this.body) this.body.replaceChildren(this.plot);
    this.drawing = isHeat
      ? drawHeatmap(this.plot, this.definition, this.figures, this.shown)
      : drawChart(this.plot, this.definition, this.figures.lines, this.shown);
    this.body.querySelector(".legend, .scale")?.remove();
    this.body.append(isHeat ? html("div", { class: "scale" }, "few", html("i"), "many") : this.legend());
    this.plot.setAttribute("aria-label", this.summary());
    this.values.replaceChildren(this.table());
    this.drawHair();
  }

  lines() {
    const { buckets, cells, lines } = this.figures;
    return buckets ? buckets.map((name, index) => ({ name, values: cells[index], isLimit: false })) : lines;
  }

  legend() {
    const { unit, decimals } = this.definition;
    const { lines } = this.figures;
    const isQuiet = (line) => lines.length > MANY && line.values.every((value) => !value);
    const quiet = lines.filter(isQuiet).map((line) => line.name);
    const items = lines.map((line, index) => {
      if (isQuiet(line)) return null;
      const key = html("span", { class: line.isLimit ? "key dashed" : "key" });
      if (!line.isLimit) key.style.borderTopColor = colour(index);
      return html("li", {}, key, line.name, html("b", {}, figure(newest(line.values), unit, decimals)));
    });
    if (quiet.length) items.push(html("li", {}, `always 0: ${quiet.join(", ")}`));
    return html("ul", { class: "legend" }, ...items.filter(Boolean));
  }

  summary() {
    const { title, unit, decimals } = this.definition;
    const said = this.lines().map((line) => `${line.name} ${figure(newest(line.values), unit, decimals)}`);
    return `${title}: ${said.join(", ")}. Arrow keys move through time.`;
  }

  table() {
    const { unit, decimals } = this.definition;
    const head = ["", "now", "least", "mean", "most"].map((text) => html("th", { scope: "col" }, text));
    const rows = this.lines().map(({ name, values }) => {
      const there = values.filter((value) => value !== null);
      const mean = there.reduce((sum, value) => sum + value, 0) / there.length;
      const cells = there.length ? [newest(values), Math.min(...there), mean, Math.max(...there)] : [null, null, null, null];
      return html("tr", {}, html("th", { scope: "row" }, name),
        ...cells.map((value) => html("td", {}, figure(value, unit, decimals))));
    });
    return html("table", {}, html("thead", {}, html("tr", {}, ...head)), html("tbody", {}, ...rows));
  }

  // The same moment is marked in every panel; the one that is pointed at says its figures.
  watch() {
    const at = (x) => this.shown.begin + this.shown.step * x;
    this.plot.addEventListener("pointermove", (event) => {
      if (!this.drawing) return;
      const x = event.clientX - this.plot.getBoundingClientRect().left;
      const index = Math.min(this.shown.count - 1, Math.max(0, this.drawing.frame.index(x)));
      this.cursor.move(at(index), this, event.clientX, event.clientY);
    });
    this.plot.addEventListener("pointerleave", () => this.cursor.leave());
    this.plot.addEventListener("blur", () => this.cursor.leave());
    this.plot.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (event.key === "Escape") this.cursor.leave();
      if (!by || !this.drawing) return;
      event.preventDefault();
      const last = this.shown.count - 1;
      const from = this.cursor.at === null ? last - by : this.indexOf(this.cursor.at);
      const index = Math.min(last, Math.max(0, from + by));
      const box = this.plot.getBoundingClientRect();
      this.cursor.move(at(index), this, box.left + this.drawing.frame.x(index), box.top + 20);
    });
  }

  indexOf(at) {
    return Math.round((at - this.shown.begin) / this.shown.step);
  }

  drawHair() {
    if (!this.drawing) return;
    this.drawing.svg.querySelector(".hair")?.remove();
    if (this.cursor.at === null) return;
    const { frame, svg } = this.drawing;
    const x = frame.x(this.indexOf(this.cursor.at));
    if (x < frame.left - 1 || x > frame.right + 1) return;
    svg.append(element("line", { class: "hair", x1: x, x2: x, y1: frame.top, y2: frame.bottom }));
  }

  tip(at) {
    const { unit, decimals } = this.definition;
    const index = this.indexOf(at);
    const isHeat = this.definition.form === "heatmap";
    const rows = this.lines().map((line, number) => {
      const value = line.values[index] ?? null;
      if (value === null || (isHeat && value < 0.05)) return null;
      const key = html("span", { class: line.isLimit ? "key dashed" : "key" });
      if (!line.isLimit) key.style.borderTopColor = isHeat ? "rgb(var(--heat-rgb))" : colour(number);
      return html("div", {}, key, line.name, html("b", {}, figure(value, unit, decimals)));
    }).filter(Boolean);
    if (isHeat) rows.reverse();
    return [html("time", {}, clock(at, 600)), ...(rows.length ? rows : ["no data here"])];
  }
}

// What ended long before the span's end has no value now.
function newest(values) {
  const recent = values.slice(-Math.max(2, Math.ceil(values.length / 20)));
  return recent.findLast((value) => value !== null) ?? null;
}

function spark(values) {
  const there = values.filter((value) => value !== null);
  const low = Math.min(...there), high = Math.max(...there);
  const svg = element("svg", { viewBox: "0 0 100 26", preserveAspectRatio: "none", "aria-hidden": "true" });
  const y = (value) => (high > low ? 24 - 22 * (value - low) / (high - low) : 13).toFixed(1);
  let text = "";
  values.forEach((value, index) => {
    const x = (100 * index / Math.max(1, values.length - 1)).toFixed(2);
    if (value !== null) text += `${(values[index - 1] ?? null) === null ? "M" : "L"}${x} ${y(value)}`;
  });
  svg.append(element("path", { class: "curve", d: text, stroke: colour(0), "vector-effect": "non-scaling-stroke" }));
  return svg;
}
