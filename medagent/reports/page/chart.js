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
  const parts = [], from = block.start === null ? left : Math.max(x(block.start), left), to = Math.max(x(block.now), from + 2);
  const dated = (time) => (end - begin < 3 * 864e5 ? moment(time) : moment(time).slice(0, 10));
  if (block.start !== null) {
    parts.push(s("rect", { class: "shade", x: from, y: top, width: to - from, height: height - top - bottom }), s("text", { class: "q", x: (from + to) / 2, y: top - 8, "text-anchor": "middle" }, block.window));
  } else parts.push(s("text", { class: "q", x: left, y: top - 8 }, block.window));
  if (broken) parts.push(s("path", { class: "ink", fill: "none", d: `M${split - gap + 3} ${height - bottom + 5}l4 -10M${split - gap + 8} ${height - bottom + 5}l4 -10` }), s("text", { class: "q", x: (left + split - gap) / 2, y: top - 8, "text-anchor": "middle" }, "earlier"));
  for (const tick of values.length ? axisTicks(floor, roof, 5) : []) parts.push(s("line", { class: "axis", x1: left, x2: width - right, y1: y(tick), y2: y(tick) }), s("text", { class: "q", x: left - 6, y: y(tick) + 4, "text-anchor": "end" }, short(tick)));
  parts.push(s("line", { class: "ink", x1: x(block.now), x2: x(block.now), y1: top, y2: height - bottom }), s("text", { x: Math.max(150, Math.min(x(block.now), width - right - 2)), y: height - bottom + 30, "text-anchor": "end", class: "strong" }, `now ${moment(block.now)}`));
  parts.push(s("text", { class: "q", x: left, y: height - bottom + 16 }, dated(begin)));
  if (broken) parts.push(s("text", { class: "q", x: split, y: height - bottom + 16 }, moment(block.start)));
  const words = [];
  const level = (value, text, kind, style) => {
    parts.push(s("line", { class: kind, x1: left, x2: width - right, y1: y(value), y2: y(value), "stroke-width": 1.6, "stroke-dasharray": kind === "bad" ? "7 4" : "2 4" }));
    const atRight = kind === "bad" && block.mean !== null;
    words.push(s("text", { class: style, x: atRight ? width - right - 6 : left + 6, y: y(value) - 5, "text-anchor": atRight ? "end" : "start" }, text));
  };
  for (const [value, text] of block.thresholds) level(value, text, "ink", "q");
  if (block.mean !== null) level(block.mean, `mean ${short(block.mean)}`, "acc", "acctext strong");
  if (beyond) words.push(s("text", { class: "badtext", x: Math.max(x(block.now), left + 150) - 8, y: beyond === "↑" ? top + 14 : height - bottom - 8, "text-anchor": "end" }, `answered ${short(block.answered)} ${beyond} off scale`));
  else if (isOff) level(block.answered, `answered ${short(block.answered)}`, "bad", "badtext");
  for (const one of readings) parts.push(s("circle", { cx: x(one.time), cy: y(one.value), r: 4, class: one.seen === false ? "acc hollow" : one.seen ? "fill" : "half", "stroke-width": 1.8 }, s("title", null, `${short(one.value)} ${block.unit} at ${one.label}${one.seen === null ? "" : one.seen ? ", seen" : ", never fetched"}`)));
  for (const one of deciding) parts.push(s("circle", { cx: x(one.time), cy: y(one.value), r: 9, fill: "none", class: "ink", "stroke-width": 2.2 }));
  parts.push(...words);
  if (deciding.length && block.mean === null) {
    const one = deciding[0], before = x(one.time) > width * 0.55, up = y(one.value) < top + 34;
    parts.push(s("text", { x: x(one.time) + (before ? -14 : 14), y: y(one.value) + (up ? 16 : -8), "text-anchor": before ? "end" : "start", class: "strong" }, `${short(one.value)} ${block.unit}`, s("tspan", { class: "q", dx: 6, "font-weight": 400 }, one.label.slice(0, 16).replace("T", " "))));
  }
  if (block.denied) parts.push(s("text", { class: "badtext", x: left + 6, y: height - bottom - 8 }, "answered: there is none"));
  const inWindow = readings.some((one) => block.start === null || one.time >= block.start);
  if (!inWindow) parts.push(s("text", { class: "strong", x: (from + to) / 2, y: (top + height - bottom) / 2, "text-anchor": "middle" }, readings.length ? "no reading in this window" : "no reading at all"));
  const told = deciding.length ? deciding.map((one) => `${short(one.value)} ${block.unit} at ${one.label}`).join(", ") : "no reading";
  const known = readings.some((one) => one.seen !== null);
  return h("section", { class: "block" }, h("h3", null, `${block.title}, in ${block.unit}`),
    s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "strip", role: "img", "aria-label": `${block.title}: ${readings.length} readings; what decides: ${told}${isOff ? `; answered ${short(block.answered)}` : ""}` }, parts),
    legend(deciding.length ? "◯ decides" : null, known ? "● seen by the agent" : null, known && readings.some((one) => one.seen === false) ? "○ never fetched" : null,
      !known && readings.length ? "● stored; which ones the agent read was not kept" : null, broken ? "// the axis is broken: the window is drawn wider" : null, block.note || null));
}
