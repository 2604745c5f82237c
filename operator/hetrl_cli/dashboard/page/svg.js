// The few things that are needed to draw: elements, axes that end on round numbers, a hair line.

import { clock, figure } from "./format.js";

export const MARGIN = { left: 52, right: 8, top: 8, bottom: 20 };

export function element(name, attributes = {}, text = null) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== null) node.textContent = text;
  return node;
}

export function html(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children.filter((each) => each !== null));
  return node;
}

export function colour(index) {
  return `var(--s${index % 8})`;
}

// A value axis from 0, or from below it where values are, with some four round marks.
export function axis(least, most, unit) {
  const low = Math.min(0, least);
  const high = most > low ? most : low + 1;
  const step = roundStep((high - low) / 4, unit);
  const begin = Math.floor(low / step) * step;
  const marks = [];
  for (let mark = begin; mark < high + step * 0.999; mark += step) marks.push(mark);
  return { low: begin, high: marks.at(-1), marks };
}

function roundStep(rough, unit) {
  if (unit === "bytes" && rough > 1) return 2 ** Math.ceil(Math.log2(rough));
  const base = unit === "s" && rough > 20 ? (rough > 1200 ? 3600 : 60) : 1;
  const power = base * 10 ** Math.floor(Math.log10(rough / base));
  return [1, 2, 2.5, 5, 10].map((each) => each * power).find((each) => each >= rough * 0.9999);
}

export function drawTimes(svg, frame, shown) {
  const span = shown.step * (shown.count - 1);
  const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800,
    86400, 172800, 604800, 1209600];
  const most = Math.max(2, Math.floor(frame.width / 90));
  const step = steps.find((each) => span / each <= most) ?? span;
  const zone = 60 * new Date(1000 * shown.begin).getTimezoneOffset();
  for (let at = Math.ceil((shown.begin - zone) / step) * step + zone; at <= shown.begin + span; at += step) {
    const x = frame.x((at - shown.begin) / shown.step);
    const anchor = x > frame.right - 20 ? "end" : "middle";
    svg.append(element("text", { x, y: frame.bottom + 15, "text-anchor": anchor }, clock(at, span)));
  }
}

export function drawValues(svg, frame, marks, unit, decimals) {
  for (const mark of marks) {
    const y = frame.y(mark);
    svg.append(element("line", { class: "grid", x1: frame.left, x2: frame.right, y1: y, y2: y }));
    const text = figure(Number(mark.toPrecision(6)), unit, decimals);
    svg.append(element("text", { x: frame.left - 7, y: y + 4, "text-anchor": "end" }, text));
  }
}

export function frameOf(plot, count, low, high) {
  const width = Math.max(120, plot.clientWidth), height = Math.max(90, plot.clientHeight);
  const left = MARGIN.left, right = width - MARGIN.right;
  const top = MARGIN.top, bottom = height - MARGIN.bottom;
  return {
    left, right, top, bottom, width, height,
    x: (index) => left + (right - left) * (count > 1 ? index / (count - 1) : 0.5),
    y: (value) => bottom - (bottom - top) * (value - low) / (high - low),
    index: (x) => Math.round((x - left) / (right - left) * (count - 1)),
  };
}
