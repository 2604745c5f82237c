// Figures and moments in the words of people: 1.2 k, 340 ms, 61 %, 14:05:30.

const PREFIXES = [[1e12, " T"], [1e9, " G"], [1e6, " M"], [1e3, " k"]];
const BYTES = [[2 ** 40, " TiB"], [2 ** 30, " GiB"], [2 ** 20, " MiB"], [2 ** 10, " KiB"]];

export function figure(value, unit, decimals = null) {
  if (value === null || value === undefined) return "–";
  switch (unit) {
    case "percentunit": return `${round(100 * value, decimals)} %`;
    case "currencyUSD": return `$${round(value, decimals)}`;
    case "s": return seconds(value, decimals);
    case "bytes": return scaled(value, BYTES, decimals, " B");
    default: return scaled(value, PREFIXES, decimals, "");
  }
}

export function clock(at, span) {
  const date = new Date(1000 * at);
  const two = (number) => String(number).padStart(2, "0");
  const time = `${two(date.getHours())}:${two(date.getMinutes())}`;
  if (span > 2 * 86400) return `${date.getMonth() + 1}/${date.getDate()} ${time}`;
  return span < 1200 ? `${time}:${two(date.getSeconds())}` : time;
}

function seconds(value, decimals) {
  const size = Math.abs(value);
  if (size >= 5400) return `${round(value / 3600, decimals)} h`;
  if (size >= 120) return `${round(value / 60, decimals)} min`;
  if (size >= 1 || size === 0) return `${round(value, decimals)} s`;
  return size >= 1e-3 ? `${round(1e3 * value, decimals)} ms` : `${round(1e6 * value, decimals)} µs`;
}

function scaled(value, steps, decimals, plain) {
  const step = steps.find(([size]) => Math.abs(value) >= size);
  return step ? round(value / step[0], decimals) + step[1] : round(value, decimals) + plain;
}

function round(value, decimals) {
  if (decimals !== null) return value.toFixed(decimals);
  if (value !== 0 && Math.abs(value) < 1e-3) return value.toExponential(1);
  return String(Number(value.toPrecision(3)));
}
