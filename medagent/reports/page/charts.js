/* Pictures made of data: dots with intervals, stacked shares, calibration, scatter. Figures stand beside every mark. */
const axisTicks = (low, high, wanted = 4) => {
  const span = high - low || 1, power = 10 ** Math.floor(Math.log10(span / wanted));
  const step = [1, 2, 2.5, 5, 10].map((n) => n * power).find((n) => span / n <= wanted) || span;
  const ticks = [];
  for (let at = Math.ceil(low / step - 1e-9) * step; at <= high + step * 1e-6; at += step) ticks.push(+at.toPrecision(12));
  return ticks;
};
const legend = (...parts) => h("p", { class: "legend" }, parts.filter(Boolean).map((part) => h("span", null, part)));
const frame = (title, note, ...content) => h("section", { class: "panel" }, h("h3", null, title), content, note ? h("p", { class: "legend" }, note) : null);

/* A line for each value, with its name at the left; on a narrow page the name is above the line. `ends` are the ends of
   the axis, `signs` says that the values are differences, a line's sixth entry is a text after its n. */
function dots(block, context) {
  const lines = block.lines, words = lines.map((line) => (block.group ? context.named(line[0]) : line[0]));
  const shown = (value) => (block.signs ? signed : shownFigure)(value, context.measure), after = lines.map((line) => `  n ${line[1]}${line[5] ? `, ${line[5]}` : ""}`);
  const width = Math.max(320, context.width), isNarrow = width < 460, names = 12 + Math.max(...words.map(textWidth));
  const left = isNarrow ? 6 : Math.min(names, width * 0.45), right = 20 + Math.max(...lines.map((line, place) => textWidth(shown(line[2]) + after[place]))), span = width - left - right, row = isNarrow ? 38 : 22, down = isNarrow ? 28 : 12;
  const room = isNarrow ? width : left - 8, clipped = (name) => (textWidth(name) > room ? `${name.slice(0, Math.floor((name.length * room) / textWidth(name)) - 1)}…` : name);
  const values = lines.flatMap((line) => line.slice(2, 5)).filter((value) => value !== null).concat(block.marks.map((mark) => mark[1]));
  const [low, high] = block.ends || [Math.min(0, ...values), Math.max(context.measure === "score" ? 0 : 1, ...values, 0.01)];
  const x = (value) => left + ((value - low) / (high - low)) * span, height = lines.length * row + 26;
  const ticks = axisTicks(low, high, Math.max(1, Math.min(4, Math.floor(span / 44))));
  const drawn = lines.map(([name, n, value, from, to], place) => {
    const y = place * row + down, said = `${words[place]}: ${shown(value)}, n ${n}`;
    const label = s("text", isNarrow ? { x: 0, y: y - 13 } : { x: left - 8, y: y + 4, "text-anchor": "end" }, clipped(words[place]), s("title", null, words[place]));
    return s("g", null, block.group
      ? s("a", { href: "#items", "aria-label": `${said}; show these items`, onclick: (event) => { event.preventDefault(); context.filter({ group: name }); } }, label) : label,
      s("line", { class: "axis", x1: left, x2: left + span, y1: y, y2: y }),
      from === null ? null : s("line", { class: "acc", x1: x(from), x2: x(to), y1: y, y2: y, "stroke-width": 2.5 }),
      value === null ? null : s("circle", { class: "fill", cx: x(value), cy: y, r: 5 }),
      s("text", { x: left + span + 12, y: y + 4 }, shown(value), s("tspan", { class: "q" }, after[place])));
  });
  const marks = block.marks.map(([name, value]) => [s("line", { class: "ink", x1: x(value), x2: x(value), y1: 2, y2: lines.length * row, "stroke-dasharray": "3 3" }), `┊ ${name} ${shown(value)}`]);
  return frame(block.title, null,
    s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: block.group ? "group" : "img", "aria-label": `${block.title}: ` + lines.map((line, place) => `${words[place]} ${shown(line[2])}`).join(", ") },
      ticks.map((tick) => s("text", { class: "q", x: x(tick), y: height - 4, "text-anchor": isNarrow && tick === low ? "start" : "middle" }, short(context.measure === "score" ? tick : 100 * tick) + (context.measure === "percent" && !block.signs ? "%" : ""))), marks.map((mark) => mark[0]), drawn),
    legend(`● ${block.figure}, ─ 95% interval`, ...marks.map((mark) => mark[1]), block.group ? "Choose a name to see its items." : null));
}

function shares(block) {
  const used = block.parts.map((_, part) => block.lines.some((line) => line[1][part]));
  return frame(block.title, null, h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": block.title }, h("table", null,
    h("thead", null, h("tr", null, h("th", { scope: "col" }, "group"), h("th", { scope: "col", style: "width:34%" }, "share"), block.parts.map((part, place) => used[place] ? h("th", { class: "num", scope: "col" }, h("span", { class: `swatch p${place}` }), part) : null))),
    h("tbody", null, block.lines.map(([name, counts]) => {
      const whole = counts.reduce((a, b) => a + b, 0);
      return h("tr", null, h("td", null, name), h("td", null, h("div", { class: "stack", "aria-hidden": "true" }, counts.map((n, place) => n ? h("i", { class: `p${place}`, style: `width:${(100 * n) / whole}%` }) : null))),
        counts.map((n, place) => used[place] ? h("td", { class: "num" }, String(n), " ", h("span", { class: "quiet" }, whole ? percent(n / whole) : "")) : null));
    })))));
}

function square(block, context, points, axes, extra) {
  const size = Math.min(420, Math.max(300, context.width)), left = 44, bottom = 40, top = 10, span = size - left - 14, rise = size - bottom - top;
  const { x: [x0, x1], y: [y0, y1] } = axes, x = (value) => left + ((value - x0) / (x1 - x0 || 1)) * span, y = (value) => top + rise - ((value - y0) / (y1 - y0 || 1)) * rise;
  const tickText = (value) => short(value);
  return s("svg", { viewBox: `0 0 ${size} ${size}`, width: size, height: size, role: "group", "aria-label": block.title },
    axisTicks(x0, x1).map((tick) => [s("line", { class: "axis", x1: x(tick), x2: x(tick), y1: top, y2: top + rise }), s("text", { class: "q", x: x(tick), y: size - bottom + 16, "text-anchor": "middle" }, tickText(tick))]),
    axisTicks(y0, y1).map((tick) => [s("line", { class: "axis", x1: left, x2: left + span, y1: y(tick), y2: y(tick) }), s("text", { class: "q", x: left - 6, y: y(tick) + 4, "text-anchor": "end" }, tickText(tick))]),
    s("text", { class: "q", x: left + span / 2, y: size - 6, "text-anchor": "middle" }, block.x), s("text", { class: "q", x: 12, y: top + rise / 2, "text-anchor": "middle", transform: `rotate(-90 12 ${top + rise / 2})` }, block.y),
    extra ? extra(x, y) : null, points(x, y));
}

function reliability(block, context) {
  const most = Math.max(...block.bins.map((bin) => bin[2]), 1);
  const labelled = { ...block, x: "stated confidence", y: "share of right ones" };
  return frame(block.title, block.note, square(labelled, context, (x, y) => block.bins.map(([low, high, n, confidence, accuracy]) => s("g", null,
    s("line", { class: "bad", x1: x(confidence), x2: x(confidence), y1: y(confidence), y2: y(accuracy), "stroke-width": 1.5 }),
    s("circle", { class: "fill", cx: x(confidence), cy: y(accuracy), r: 4 + 8 * Math.sqrt(n / most) }, s("title", null, `${Math.round(low * 100)} to ${Math.round(high * 100)} %: n ${n}, mean confidence ${percent(confidence)}, right ${percent(accuracy)}`)),
    s("text", { x: x(confidence), y: y(accuracy) + (accuracy > confidence ? -16 : 26), class: "q", "text-anchor": "middle" }, `n ${n}`))), { x: [0, 1], y: [0, 1] },
    (x, y) => s("line", { class: "ink", x1: x(0), y1: y(0), x2: x(1), y2: y(1), "stroke-dasharray": "4 4" })),
    legend("● a tenth of the confidence scale, its size the number of items", "┈ what perfect calibration would be"));
}

function scatter(block, context) {
  const xs = block.points.map((point) => point[1]), ys = block.points.map((point) => point[2]);
  const padded = (values, floor) => { const low = Math.min(floor, ...values), high = Math.max(...values), room = (high - low || 1) * 0.06; return [low < floor ? low - room : low, high + room]; };
  return frame(block.title, block.note, square(block, context, (x, y) => block.points.map(([item, at, up]) =>
    s("a", { href: `#${encodeURIComponent(item)}`, "aria-label": `${item}: ${block.x} ${short(at)}, ${block.y} ${short(up)}` },
      s("circle", { cx: x(at), cy: y(up), r: 5, class: "acc hollow", "stroke-width": 2 }, s("title", null, `${item}: ${short(at)}, ${short(up)}`)))), { x: padded(xs, 0), y: padded(ys, 0) }));
}
