// Lines over time, beside or on top of each other.

import { axis, colour, drawTimes, drawValues, element, frameOf } from "./svg.js";

export function drawChart(plot, panel, lines, shown) {
  const isStack = panel.form === "stacked";
  const drawn = isStack ? stacked(lines, shown.count) : lines.map((line) => ({ ...line, upper: line.values }));
  const values = drawn.flatMap((line) => line.upper).filter((value) => value !== null);
  // A bound that all lines lie on would else be the chart's upper edge.
  const room = drawn.some((line) => line.isLimit) ? 1.05 : 1;
  const scale = axis(Math.min(...values), panel.top ?? room * Math.max(...values), panel.unit);
  const frame = frameOf(plot, shown.count, scale.low, scale.high);
  const svg = element("svg", { viewBox: `0 0 ${frame.width} ${frame.height}` });
  const wholes = panel.unit === "percentunit" ? 0 : null;
  drawValues(svg, frame, scale.marks, panel.unit, scale.high <= 0.04 ? null : wholes);
  drawTimes(svg, frame, shown);
  drawn.forEach((line, index) => {
    if (line.lower) svg.append(element("path", { class: "area", fill: colour(index), d: area(line, frame) }));
    else svg.append(curve(line, index, frame));
  });
  plot.replaceChildren(svg);
  return { svg, frame };
}

function curve(line, index, frame) {
  const stroke = line.isLimit ? {} : { stroke: colour(index) };
  return element("path", {
    class: line.isLimit ? "curve limit" : "curve", d: path(line.upper, frame), ...stroke,
  });
}

// A gap stays a gap; a value between two gaps is a dot.
function path(values, frame) {
  let text = "", isOpen = false;
  values.forEach((value, index) => {
    if (value === null) { isOpen = false; return; }
    const place = `${frame.x(index).toFixed(1)} ${frame.y(value).toFixed(1)}`;
    const isAlone = !isOpen && (values[index + 1] ?? null) === null;
    text += isOpen ? `L${place}` : `M${place}${isAlone ? "h1.5" : ""}`;
    isOpen = true;
  });
  return text;
}

function stacked(lines, count) {
  const below = new Array(count).fill(0);
  return lines.map((line) => {
    if (line.isLimit) return { ...line, upper: line.values };
    const lower = [...below];
    const upper = line.values.map((value, index) => (below[index] += value ?? 0));
    return { ...line, lower, upper };
  });
}

function area(line, frame) {
  const along = (values) => values.map((value, index) => `${frame.x(index).toFixed(1)} ${frame.y(value).toFixed(1)}`);
  return `M${along(line.upper).join("L")}L${along(line.lower).reverse().join("L")}Z`;
}
