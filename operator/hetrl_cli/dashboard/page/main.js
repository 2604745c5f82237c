// What is chosen, asking for it again and again, and handing it to the panels.
// The choice is in the address, so that it can be kept and sent on.

import { clock } from "./format.js";
import { Panel } from "./panel.js";
import { html } from "./svg.js";

const EVERY_MS = 3000;
const $ = (id) => document.getElementById(id);

const cursor = {
  at: null,
  move(at, panel, x, y) {
    this.at = at;
    panels.forEach((each) => each.drawHair());
    const tip = $("tip");
    tip.replaceChildren(...panel.tip(at));
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    tip.style.left = `${x + 16 + width > innerWidth ? x - width - 16 : x + 16}px`;
    tip.style.top = `${Math.min(Math.max(8, y + 12), innerHeight - height - 8)}px`;
  },
  leave() {
    this.at = null;
    $("tip").hidden = true;
    panels.forEach((each) => each.drawHair());
  },
};

let boards = [], board = null, panels = [], choices = [], choice = {}, span = "all";
let asked = 0, timer = 0, drawn = "";

async function get(path, params = {}) {
  const reply = await fetch(`${path}?${new URLSearchParams(params)}`);
  const found = await reply.json();
  if (!reply.ok) throw new Error(found.error);
  return found;
}

async function start() {
  const theme = localStorage.getItem("theme");
  if (theme) document.documentElement.dataset.theme = theme;
  $("theme").onclick = turn;
  $("span").onchange = () => { span = $("span").value; refresh(); };
  addEventListener("hashchange", () => { if (location.hash !== drawn) fromAddress().then(refresh, fail); });
  new ResizeObserver(() => panels.forEach((each) => each.draw())).observe($("board"));
  const found = await get("api/boards");
  boards = found.boards;
  document.title = `HetRL · ${found.source}`;
  $("boards").append(...boards.map((each) => {
    const button = html("button", { type: "button" }, each.title.replace("HetRL / ", ""));
    button.onclick = () => open(each.name, choice).then(refresh, fail);
    return button;
  }));
  await begin();
}

// A source that is not there yet may come.
async function begin() {
  try {
    await fromAddress();
  } catch (error) {
    fail(error);
    timer = setTimeout(begin, EVERY_MS);
    return;
  }
  await refresh();
}

function turn() {
  const root = document.documentElement;
  const isDark = getComputedStyle(root).colorScheme === "dark"
    || (!root.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  root.dataset.theme = isDark ? "light" : "dark";
  localStorage.setItem("theme", root.dataset.theme);
}

async function fromAddress() {
  const { board: name, span: wanted, ...rest } = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  span = wanted ?? "900";
  $("span").value = span;
  await open(boards.some((each) => each.name === name) ? name : boards[0].name, rest);
}

async function open(name, wanted) {
  board = boards.find((each) => each.name === name);
  choices = await get("api/choices", { board: name });
  choice = {};
  for (const each of board.variables) {
    const fitting = values(each.name);
    choice[each.name] = fitting.includes(wanted[each.name]) ? wanted[each.name] : each.isMultiple ? "" : fitting[0] ?? "";
  }
  [...$("boards").children].forEach((each, index) => each.setAttribute("aria-current", String(boards[index] === board)));
  drawChoices();
  panels = [];
  const rows = board.rows.map((row) => {
    const drawn = row.panels.map((each) => new Panel(each, cursor));
    panels.push(...drawn);
    return html("section", {}, html("h2", {}, row.title), html("div", { class: "row" }, ...drawn.map((each) => each.node)));
  });
  $("board").replaceChildren(html("p", { class: "says" }, board.says), ...rows);
}

// What a variable may be, given what is chosen of those before it.
function values(name) {
  const before = board.variables.slice(0, board.variables.findIndex((each) => each.name === name));
  const fit = choices.filter((each) => before.every((other) => !choice[other.name] || each[other.name] === choice[other.name]));
  return [...new Set(fit.map((each) => each[name]))];
}

function drawChoices() {
  $("choices").replaceChildren(...board.variables.map((variable) => {
    const options = values(variable.name).map((value) => html("option", { value }, value));
    if (variable.isMultiple) options.unshift(html("option", { value: "" }, "all"));
    const select = html("select", { name: variable.name }, ...options);
    select.value = choice[variable.name];
    select.onchange = () => {
      choice[variable.name] = select.value;
      for (const other of board.variables) {
        if (choice[other.name] && !values(other.name).includes(choice[other.name])) {
          choice[other.name] = other.isMultiple ? "" : values(other.name)[0] ?? "";
        }
      }
      drawChoices();
      refresh();
    };
    return html("label", {}, variable.label, select);
  }));
}

async function refresh() {
  clearTimeout(timer);
  drawn = `#${new URLSearchParams({ board: board.name, ...choice, span })}`;
  history.replaceState(null, "", drawn);
  const number = ++asked;
  let isLive = true;
  try {
    if (!choices.length) choices = await get("api/choices", { board: board.name }), drawChoices();
    const shown = await get("api/figures", { board: board.name, ...choice, seconds: span });
    // An answer to what was chosen before is of no use.
    if (number !== asked) return;
    panels.forEach((each) => each.show(shown.panels[each.definition.title], shown));
    isLive = shown.isLive;
    say(isLive ? "live" : "ended", `${isLive ? "live" : "ended"} · ${clock(shown.begin + shown.step * (shown.count - 1), 60)}`);
  } catch (error) {
    if (number !== asked) return;
    fail(error);
  }
  timer = setTimeout(refresh, isLive ? EVERY_MS : 5 * EVERY_MS);
}

function fail(error) {
  say("bad", error.message);
}

function say(kind, text) {
  $("news").className = kind;
  $("news").textContent = text;
}

start().catch(fail);
