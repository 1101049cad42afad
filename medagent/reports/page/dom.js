/* Elements from data. Every text becomes a text node: there is no way from data to markup in these scripts. */
function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}
const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const s = (tag, attributes, ...children) => fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
const byId = (id) => document.getElementById(id);

const GLYPH = { true: ["✓", "right", "ok"], false: ["✗", "wrong", "no"], null: ["–", "not graded", "na"] };
const bare = (value, measure) => (value === null || value === undefined ? "–" : measure === "score" ? value.toFixed(4) : (100 * value).toFixed(measure === "points" ? 2 : 1));
const shownFigure = (value, measure) => (measure === "percent" && typeof value === "number" ? `${bare(value, measure)}%` : bare(value, measure));
const percent = (share) => shownFigure(share, "percent");
const signed = (value, measure) => `${value > 0 ? "+" : value < 0 ? "−" : ""}${bare(Math.abs(value), measure)}`;
const thousands = (n) => Math.round(n).toLocaleString("en-US");
const dollars = (cost) => (cost === null || cost === undefined ? "–" : cost < 1 ? `$${cost.toFixed(4)}` : `$${cost.toFixed(2)}`);
const seconds = (time) => (time === null || time === undefined ? "–" : time < 10 ? `${time.toFixed(1)} s` : time < 90 ? `${time.toFixed(0)} s` : `${(time / 60).toFixed(1)} min`);
const moment = (ms) => new Date(ms).toISOString().slice(0, 16).replace("T", " ");
const short = (value) => (Number.isInteger(value) ? String(value) : String(+value.toFixed(4)));
const ruler = document.createElement("canvas").getContext("2d");
const textWidth = (text) => { ruler.font = `12px ${getComputedStyle(document.documentElement).fontFamily}`; return ruler.measureText(text).width; };
const natural = (a, b) => a.localeCompare(b, "en", { numeric: true });

/* A button that shows what is folded; `make` builds it when it is first opened, and at once for a printer. */
function folded(title, make, open = false) {
  const box = h("details", { open }, h("summary", null, title));
  const build = () => { if (box.dataset.made) return; box.dataset.made = "1"; box.append(...[make()].flat()); };
  box.addEventListener("toggle", () => { if (box.open) build(); });
  box.build = build;
  if (open) build();
  return box;
}

/* Texts that differ: what only this one has is marked, by the longest common subsequence of characters, or of words. */
const tokens = (text) => (text.length > 60 ? text.match(/\s+|\p{Script=Han}|[\p{L}\p{N}]+|./gsu) : [...text]) || [];
function marked(text, other, kind) {
  const a = tokens(text), b = tokens(other || ""), n = a.length, m = b.length;
  if (text === other || !other || n * m > 1e6) return [text];
  const table = Array.from({ length: n + 1 }, () => new Uint16Array(m + 1));
  for (let i = n - 1; i >= 0; i--)
    for (let j = m - 1; j >= 0; j--) table[i][j] = a[i] === b[j] ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
  if (2 * table[0][0] < 0.4 * (n + m)) return [h("mark", { class: kind }, text)];
  const parts = [];
  let same = "", only = "";
  const flush = () => {
    if (same) parts.push(same);
    if (only) parts.push(h("mark", { class: kind }, only));
    same = only = "";
  };
  for (let i = 0, j = 0; i < n;) {
    if (j < m && a[i] === b[j]) { if (only) flush(); same += a[i++]; j++; }
    else if (j < m && table[i][j + 1] >= table[i + 1][j]) j++;
    else { if (same) flush(); only += a[i++]; }
  }
  flush();
  return parts;
}
