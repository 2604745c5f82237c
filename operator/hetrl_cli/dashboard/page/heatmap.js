// Counts by bucket over time: the darker a cell, the more fell into it.

import { drawTimes, element, frameOf } from "./svg.js";

const COLUMNS = 80;

export function drawHeatmap(plot, panel, figures, shown) {
  const { buckets, cells } = merged(figures, shown.count);
  const frame = frameOf(plot, shown.count, 0, buckets.length);
  const svg = element("svg", { viewBox: `0 0 ${frame.width} ${frame.height}` });
  const most = Math.max(...cells.flat().map((each) => each ?? 0), 1e-9);
  const columns = cells[0]?.length ?? 0;
  const width = (frame.right - frame.left) / columns, height = (frame.bottom - frame.top) / buckets.length;
  cells.forEach((row, bucket) => {
    const y = frame.y(bucket + 1);
    svg.append(element("text", { x: frame.left - 7, y: y + height / 2 + 4, "text-anchor": "end" }, buckets[bucket]));
    row.forEach((count, column) => {
      if (!count) return;
      const strength = 0.08 + 0.92 * Math.sqrt(count / most);
      svg.append(element("rect", {
        x: frame.left + column * width + 0.5, y: y + 0.5,
        width: Math.max(0.5, width - 1), height: Math.max(0.5, height - 1), rx: 1.5,
        style: `fill: rgb(var(--heat-rgb) / ${strength.toFixed(2)})`,
      }));
    });
  });
  svg.append(element("line", { class: "axis", x1: frame.left, x2: frame.right, y1: frame.bottom, y2: frame.bottom }));
  drawTimes(svg, frame, shown);
  plot.replaceChildren(svg);
  return { svg, frame };
}

// Neighbouring moments are averaged, so that a cell is wide enough to be seen.
function merged({ buckets, cells }, count) {
  const each = Math.max(1, Math.ceil(count / COLUMNS));
  const mean = (values) => {
    const there = values.filter((value) => value !== null);
    return there.length ? there.reduce((sum, value) => sum + value, 0) / there.length : null;
  };
  return {
    buckets,
    cells: cells.map((row) =>
      Array.from({ length: Math.ceil(row.length / each) }, (_, n) => mean(row.slice(n * each, (n + 1) * each)))),
  };
}
