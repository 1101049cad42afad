/* The texts of a chart. A text that would run out of the frame is moved into it, and one that would cover another text
   or a ring goes up or down to the nearest free place: one without readings if it is near. */
class Labels {
  constructor(left, right, top, bottom) {
    Object.assign(this, { left, right, top, bottom, taken: [], dots: [], pen: document.createElement("canvas").getContext("2d"), font: getComputedStyle(document.body).fontFamily });
  }
  breadth(words, kind) {
    this.pen.font = `${/strong|badtext/.test(kind) ? 650 : 400} 12px ${this.font}`;
    return this.pen.measureText(words).width;
  }
  ring(x, y) { this.taken.push([x - 11, x + 11, y - 11, y + 11]); }
  dot(x, y) { this.dots.push([x - 5, x + 5, y - 5, y + 5]); }
  /* A text that stays where it is. */
  fixed(x, y, anchor, kind, words) {
    const breadth = this.breadth(words, kind), start = x - breadth * { start: 0, middle: 0.5, end: 1 }[anchor];
    this.taken.push([start, start + breadth, y - 11, y + 3]);
    return s("text", { class: kind, x: start, y }, words);
  }
  free(x, y, anchor, kind, words, tail) {
    const breadth = this.breadth(words, kind) + (tail ? 6 + this.breadth(tail, "q") : 0), start = Math.max(this.left, Math.min(x - breadth * { start: 0, middle: 0.5, end: 1 }[anchor], this.right - breadth));
    const box = (line) => [start, start + breadth, line - 11, line + 3];
    const lines = Array.from({ length: this.bottom - this.top }, (_, place) => this.top + place).sort((one, other) => Math.abs(one - y) - Math.abs(other - y));
    const clear = (boxes, reach) => lines.find((one) => Math.abs(one - y) <= reach && !boxes.some((other) => meet(box(one), other)));
    const line = clear([...this.taken, ...this.dots], 40) ?? clear(this.taken, Infinity) ?? y;
    this.taken.push(box(line));
    return s("text", { class: kind, x: start, y: line }, words, tail && s("tspan", { class: "q", dx: 6, "font-weight": 400 }, tail));
  }
}

const meet = (one, other) => one[0] < other[1] && other[0] < one[1] && one[2] < other[3] && other[2] < one[3];

/* The deciding test over time. A window that is short beside the record gets most of the width: the axis is broken. */
function strip(block, context) {
  const width = Math.max(320, Math.min(context.width, 860)), height = 250, left = 46, right = 14, top = 26, bottom = 40;
  const readings = block.readings, deciding = readings.filter((one) => one.decides);
  const times = readings.map((one) => one.time).concat(block.now), begin = Math.min(...times, block.start ?? block.now, ...(readings.length ? [] : [block.now - 365 * 864e5])), end = Math.max(...times);
  const broken = block.start !== null && block.start - begin > 4 * (end - block.start), gap = 18, space = width - left - right;
  const split = left + (broken ? space * 0.34 : 0), pad = 12;
  const x = (time) => !broken ? left + pad + ((time - begin) / (end - begin || 1)) * (space - 2 * pad)
    : time < block.start ? left + pad + ((time - begin) / (block.start - begin)) * (split - left - gap - pad)
    : split + ((time - block.start) / (end - block.start || 1)) * (left + space - split - pad);
  const isOff = block.answered !== null && !(block.mean !== null ? Math.abs(block.answered - block.mean) < 0.1 : deciding.some((one) => one.value === block.answered));
  const stored = readings.map((one) => one.value).concat(block.thresholds.map((one) => one[0]), block.mean ?? []);
  const least = Math.min(...stored), most = Math.max(...stored), reach = most - least || Math.abs(most) || 1;
  const beyond = isOff && stored.length ? (block.answered > most + reach ? "↑" : block.answered < least - reach ? "↓" : "") : "";
  const values = stored.concat(isOff && !beyond ? [block.answered] : []), low = Math.min(...values), high = Math.max(...values), room = (high - low || Math.abs(high) || 1) * 0.12;
  const floor = low >= 0 ? Math.max(0, low - room) : low - room, roof = high + room;
  const y = (value) => top + (1 - (value - floor) / (roof - floor)) * (height - top - bottom);
  const labels = new Labels(left, width - right, top + 8, height - bottom - 4);
  const parts = [], from = block.start === null ? left : Math.max(x(block.start), left), to = Math.max(x(block.now), from + 2);
  const dated = (time) => (end - begin < 3 * 864e5 ? moment(time) : moment(time).slice(0, 10));
  if (block.start !== null) {
    parts.push(s("rect", { class: "shade", x: from, y: top, width: to - from, height: height - top - bottom }), labels.fixed((from + to) / 2, top - 8, "middle", "q", block.window));
  } else parts.push(labels.fixed(left, top - 8, "start", "q", block.window));
  if (broken) parts.push(s("path", { class: "ink", fill: "none", d: `M${split - gap + 3} ${height - bottom + 5}l4 -10M${split - gap + 8} ${height - bottom + 5}l4 -10` }), labels.fixed((left + split - gap) / 2, top - 8, "middle", "q", "earlier"));
  for (const tick of values.length ? axisTicks(floor, roof, 5) : []) parts.push(s("line", { class: "axis", x1: left, x2: width - right, y1: y(tick), y2: y(tick) }), labels.fixed(left - 6, y(tick) + 4, "end", "q", short(tick)));
  parts.push(s("line", { class: "ink", x1: x(block.now), x2: x(block.now), y1: top, y2: height - bottom }), labels.fixed(Math.max(150, Math.min(x(block.now), width - right - 2)), height - bottom + 30, "end", "strong", `now ${moment(block.now)}`));
  parts.push(labels.fixed(left, height - bottom + 16, "start", "q", dated(begin)));
  if (broken) parts.push(labels.fixed(split, height - bottom + 16, "start", "q", moment(block.start)));
  for (const one of readings) labels.dot(x(one.time), y(one.value));
  for (const one of deciding) labels.ring(x(one.time), y(one.value));
  const words = [];
  const level = (value, text, kind, style) => {
    parts.push(s("line", { class: kind, x1: left, x2: width - right, y1: y(value), y2: y(value), "stroke-width": 1.6, "stroke-dasharray": kind === "bad" ? "7 4" : "2 4" }));
    const atRight = kind === "bad" && block.mean !== null;
    words.push(labels.free(atRight ? width - right - 6 : left + 6, y(value) - 5, atRight ? "end" : "start", style, text));
  };
  for (const [value, text] of block.thresholds) level(value, text, "ink", "q");
  if (block.mean !== null) level(block.mean, `mean ${short(block.mean)}`, "acc", "acctext strong");
  if (beyond) words.push(labels.free(x(block.now) - 8, beyond === "↑" ? top + 14 : height - bottom - 8, "end", "badtext", `answered ${short(block.answered)} ${beyond} off scale`));
  else if (isOff) level(block.answered, `answered ${short(block.answered)}`, "bad", "badtext");
  for (const one of readings) parts.push(s("circle", { cx: x(one.time), cy: y(one.value), r: 4, class: one.seen === false ? "acc hollow" : one.seen ? "fill" : "half", "stroke-width": 1.8 }, s("title", null, `${short(one.value)} ${block.unit} at ${one.label}${one.seen === null ? "" : one.seen ? ", seen" : ", never fetched"}`)));
  for (const one of deciding) parts.push(s("circle", { cx: x(one.time), cy: y(one.value), r: 9, fill: "none", class: "ink", "stroke-width": 2.2 }));
  parts.push(...words);
  if (deciding.length && block.mean === null) {
    const one = deciding[0], before = x(one.time) > width * 0.55, up = y(one.value) < top + 34;
    parts.push(labels.free(x(one.time) + (before ? -14 : 14), y(one.value) + (up ? 16 : -8), before ? "end" : "start", "strong", `${short(one.value)} ${block.unit}`, one.label.slice(0, 16).replace("T", " ")));
  }
  if (block.denied) parts.push(labels.free(left + 6, height - bottom - 8, "start", "badtext", "answered: there is none"));
  const inWindow = readings.some((one) => block.start === null || one.time >= block.start);
  if (!inWindow) parts.push(labels.free((from + to) / 2, (top + height - bottom) / 2, "middle", "strong", readings.length ? "no reading in this window" : "no reading at all"));
  const told = deciding.length ? deciding.map((one) => `${short(one.value)} ${block.unit} at ${one.label}`).join(", ") : "no reading";
  const known = readings.some((one) => one.seen !== null);
  return h("section", { class: "block" }, h("h3", null, `${block.title}, in ${block.unit}`),
    s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "strip", role: "img", "aria-label": `${block.title}: ${readings.length} readings; what decides: ${told}${isOff ? `; answered ${short(block.answered)}` : ""}` }, parts),
    legend(deciding.length ? "◯ decides" : null, known ? "● seen by the agent" : null, known && readings.some((one) => one.seen === false) ? "○ never fetched" : null,
      !known && readings.length ? "● stored; which ones the agent read was not kept" : null, broken ? "// the axis is broken: the window is drawn wider" : null, block.note || null));
}
