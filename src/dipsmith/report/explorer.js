'use strict';
(function () {
const D = JSON.parse(document.getElementById('data').textContent), $ = id => document.getElementById(id);
const LEVELS = ['measured', 'carried', 'not carried', 'public'], MOST_LINES = 300, MOST_DOTS = 40, MOST_PANELS = 12, SVG = 'http://www.w3.org/2000/svg';
const sizes = D.columns.map(c => c.labels.length), name = i => D.columns[i].name;
let language = 'Python', all = false, shown = null;

// --- what the noisy tables say -------------------------------------------------------------------
const expand = t => { if (!t.ready) { t.n = t.v.length; if (!Array.isArray(t.e)) t.e = Array(t.n).fill(t.e); t.noise = t.e.reduce((s, x) => s + x, 0); t.ready = true; } return t; };
const pairLevel = (i, j) => { const [a, b] = i < j ? [i, j] : [j, i], n = D.paired; return b >= n ? 2 : +D.pairs[a * n - a * (a + 1) / 2 + b - a - 1]; };
const levelOf = cols => cols.length === 1 ? D.columns[cols[0]].level : cols.length === 2 ? pairLevel(cols[0], cols[1]) : Math.max(...cols.flatMap((a, i) => cols.slice(i + 1).map(b => { const l = pairLevel(a, b); return l === 3 ? -1 : l; })));

// A table added up over the columns that were not picked; cells in the order of `cols`, the last varying fastest.
function sumOver(t, cols) {
  const size = cols.reduce((s, c) => s * sizes[c], 1), value = Array(size).fill(0), noise = Array(size).fill(0);
  const strides = t.c.map((c, k) => { const at = cols.indexOf(c); return at < 0 ? 0 : cols.slice(at + 1).reduce((s, x) => s * sizes[x], 1); });
  const code = t.c.map(() => 0);
  for (let i = 0; i < t.v.length; i++) {
    let place = 0; for (let k = 0; k < code.length; k++) place += code[k] * strides[k];
    value[place] += t.v[i]; if (t.e) noise[place] += t.e[i];
    for (let k = code.length - 1; k >= 0; k--) { if (++code[k] < sizes[t.c[k]]) break; code[k] = 0; }
  }
  return { value, noise };
}
const holding = (tables, cols) => tables.filter(t => cols.every(c => t.c.includes(c)));
const best = cols => holding(D.tables, cols).map(expand).sort((x, y) => x.noise - y.noise || x.c.length - y.c.length)[0];
const fromRows = cols => holding(D.row_tables, cols).find(t => t.c.length === cols.length);

// Half the width of the interval of a sum; whole numbers have whole noise.
const half = (v, t) => v <= 0 ? 0 : t.m === 1 ? Math.ceil(t.z * Math.sqrt(v) - 1e-9) : t.z * Math.sqrt(v);
const clip = p => Math.max(0, Math.min(1, p));
// A share a / (a + b) of two noisy sums (Fieller 1954): every p for which (1 − p) a − p b could be noise alone.
function fieller(a, va, b, vb, z) {
  const N = a + b, A = N * N - z * z * (va + vb), B = a * N - z * z * va, C = a * a - z * z * va, root = B * B - A * C;
  if (!(A > 0) || N <= 0 || root < 0) return null;
  return [clip((B - Math.sqrt(root)) / A), clip((B + Math.sqrt(root)) / A)];
}
// Estimate and interval of every cell of the picked columns, a filter applied: {at: codes, value, low, high}.
function cellsOf(t, cols, filter, how) {
  const { value, noise } = sumOver(t, cols), out = [];
  const codes = i => { const at = []; for (let k = cols.length - 1; k >= 0; k--) { at[k] = i % sizes[cols[k]]; i = (i - at[k]) / sizes[cols[k]]; } return at; };
  const group = at => how === 'each' && at.length > 1 ? at[1] : 0, sums = {};
  for (let i = 0; i < value.length; i++) {
    const at = codes(i); if (filter !== null && at[cols.length - 1] !== filter) continue;
    out.push({ at, value: value[i], noise: noise[i] });
    const s = sums[group(at)] = sums[group(at)] || [0, 0]; s[0] += value[i]; s[1] += noise[i];
  }
  // Labels of public rows add up to what is public where only one of two was drawn.
  const fixed = filter !== null ? [cols[cols.length - 1]] : []; if (how === 'each' && cols.length > 1) fixed.push(cols[1]);
  const known = t.x && !fixed.includes(t.c[t.c.length - 1]);
  // How many rows a public group has is public.
  const groups = how === 'each' && filter === null && cols.length > 1 && D.people && D.columns[cols[1]].level === 3 ? fromRows([cols[1]]).v : null;
  for (const cell of out) {
    const h = half(cell.noise, t), [N, V] = sums[group(cell.at)], whole = how === 'all' && filter === null && D.people ? D.people : groups ? groups[group(cell.at)] : known || !t.e ? N : null;
    cell.noisy = t.e ? cell.value - h <= 0 : false; cell.count = cell.value;
    if (how === 'counts') { cell.low = Math.max(0, cell.value - h); cell.high = Math.max(0, cell.value + h); continue; }
    if (whole !== null) { cell.low = clip((cell.value - h) / whole); cell.high = clip((cell.value + h) / whole); cell.value = whole > 0 ? clip(cell.value / whole) : NaN; continue; }
    const found = fieller(cell.value, cell.noise, N - cell.value, V - cell.noise, t.z);
    cell.value = N > 0 ? clip(cell.value / N) : NaN; cell.low = found ? found[0] : NaN; cell.high = found ? found[1] : NaN; cell.noisy = cell.noisy || !found;
  }
  return out;
}

// --- words -----------------------------------------------------------------------------------------
const number = (x, how) => !isFinite(x) ? '–' : (how === 'counts' ? Math.round(x).toLocaleString('en-US') : (100 * x).toFixed(Math.abs(x) < .0995 ? 2 : 1) + ' %').replace('-', '−');
const tick = (x, how) => how === 'counts' ? x.toLocaleString('en-US') : +(100 * x).toPrecision(3) + ' %';
const listed = cols => cols.map(name).join(' × ');
const make = (tag, text, marks) => { const e = document.createElement(tag); if (text !== undefined) e.textContent = text; for (const k in marks || {}) e.setAttribute(k, marks[k]); return e; };
const draw = (tag, marks, text) => { const e = document.createElementNS(SVG, tag); for (const k in marks) e.setAttribute(k, marks[k]); if (text !== undefined) e.textContent = text; return e; };
const short = (text, most) => text.length <= most ? text : text.slice(0, Math.max(1, most - 1)) + '…';

function picked() {
  const [a, b, c] = ['a', 'b', 'c'].map(id => $(id).value === '' ? null : +$(id).value);
  const cols = [a]; if (b !== null && b !== a) cols.push(b);
  const filter = c !== null && !cols.includes(c) ? +$('d').value || 0 : null; if (filter !== null) cols.push(c);
  return { cols, filter, by: b !== null && b !== a, how: $('how').value };
}
function answer(p) {
  const level = levelOf(p.cols), open = level === 3 || (p.cols.length > 2 && p.cols.every(c => D.columns[c].level === 3)), t = open ? null : best(p.cols);
  if (t) { const cells = cellsOf(t, p.cols, p.filter, p.how); return { kind: 'measured', t, cells, h: half(t.noise / p.cols.reduce((s, c) => s * sizes[c], 1), t) }; }
  const r = level === 2 ? null : fromRows(p.cols);
  if (r) { const cells = cellsOf({ c: r.c, v: r.v, m: 1, z: 0 }, p.cols, p.filter, p.how); return { kind: open ? 'public' : 'carried', t: r, cells, level }; }
  return { kind: level === 2 ? 'not carried' : 'absent', level };
}
function verdict(p, f) {
  const box = $('verdict'), what = listed(p.cols); box.textContent = ''; box.className = '';
  const say = (head, text, kind) => { box.append(make('strong', head), text); box.className = kind; };
  if (f.kind === 'measured') {
    const lost = f.cells.filter(c => c.noisy).length, n = f.cells.length;
    const of = `A noisy table of ${listed(f.t.c)} holds it; the interval of a count is ±${number(f.h, 'counts')} on average. `;
    if (lost > n / 2) say('Measured, but mostly too noisy to read', `${of}${lost} of ${n} numbers could be noise alone.`, 'noisy');
    else say('Measured', `${of}${lost ? `${lost} of ${n} numbers are too noisy to read.` : 'Every number can be told from 0.'}`, 'good');
  } else if (f.kind === 'public') say('Public', `${what}: released as it stands, without noise.${D.some < D.rows && p.cols.length > 1 ? ` Counted in the first ${D.some.toLocaleString('en-US')} rows.` : ''}`, 'good');
  else if (f.kind === 'carried') say(`${f.level === 0 ? 'Measured' : 'Carried'}, without an interval`, `${f.level === 0 ? `A noisy table of the release holds ${what}, but none on this page that counts all rows.` : `No noisy table on this page holds ${what}; the model implies it.`} Shown are the synthetic rows${D.some < D.rows && p.cols.length > 1 ? `, the first ${D.some.toLocaleString('en-US')}` : ''}.`, 'rows');
  else if (f.kind === 'not carried') say('Not carried', `No noisy table holds ${what} together: the synthetic rows relate them by way of other columns, if at all, and nothing is shown. Ask the steward for this table, or to plan an analysis of it.`, 'none');
  else say('Not on this page', `${what}: no table on this page holds it, which is kept small. Ask the release itself, as below.`, 'none');
}

// --- the picture -------------------------------------------------------------------------------------
function nice(max) { const raw = max / 4 || 1, e = Math.pow(10, Math.floor(Math.log10(raw))), step = [1, 2, 5, 10].find(k => k * e >= raw) * e, out = []; for (let x = 0; x <= max * 1.0001; x += step) out.push(x); return out; }
function dots(g, cells, a, box, scale, how, labelled) {
  const line = 20;
  cells.forEach((c, i) => {
    const y = box.y + line * i + line / 2, row = draw('g', c.noisy ? { class: 'faint' } : {});
    if (labelled) row.append(draw('text', { x: box.x - 8, y: y + 4, 'text-anchor': 'end' }, short(D.columns[a].labels[c.at[0]], Math.floor((box.x - 8) / 6.4))));
    if (c.high > c.low) row.append(draw('line', { class: 'whisker', x1: scale(c.low), x2: scale(Math.min(c.high, scale.max)), y1: y, y2: y }));
    if (isFinite(c.value)) row.append(draw('circle', { class: 'mark', cx: scale(Math.max(0, Math.min(c.value, scale.max))), cy: y, r: 4 }));
    row.append(draw('title', {}, `${D.columns[a].labels[c.at[0]]}: ${number(c.value, how)}`)); g.append(row);
  });
  return line * cells.length;
}
function profile(g, cells, a, box, max, height) {
  const n = cells.length, x = i => box.x + (box.w * (i + .5)) / n, y = v => box.y + height * (1 - Math.max(0, Math.min(v, max)) / max);
  const good = cells.map((c, i) => [c, i]).filter(([c]) => isFinite(c.value));
  if (good.some(([c]) => c.high > c.low)) g.append(draw('path', { class: 'noise', d: 'M' + good.map(([c, i]) => `${x(i)},${y(c.high)}`).join('L') + 'L' + good.reverse().map(([c, i]) => `${x(i)},${y(c.low)}`).join('L') + 'Z' }));
  good.sort((p, q) => p[1] - q[1]);
  g.append(draw('path', { class: 'line', d: 'M' + good.map(([c, i]) => `${x(i)},${y(c.value)}`).join('L') }));
  const ends = box.w < 300 ? [0, n - 1] : [0, n >> 1, n - 1], most = Math.floor(box.w / ends.length / 6.4);
  ends.forEach((i, k) => g.append(draw('text', { class: 'soft', x: x(i), y: box.y + height + 15, 'text-anchor': k === 0 ? 'start' : i === n - 1 ? 'end' : 'middle' }, short(D.columns[a].labels[cells[i].at[0]], most))));
}
function plot(p, f) {
  const host = $('plot'); host.textContent = ''; if (!f.cells) return;
  const a = p.cols[0], W = Math.max(280, host.clientWidth), ordered = D.columns[a].ordered, groups = new Map();
  for (const c of f.cells) { const k = p.by ? c.at[1] : 0; if (!groups.has(k)) groups.set(k, []); groups.get(k).push(c); }
  const total = list => list.reduce((s, c) => s + Math.max(0, c.count), 0), size = c => Math.max(0, c.count);
  let panels = [...groups].sort((x, y) => p.by && !D.columns[p.cols[1]].ordered ? total(y[1]) - total(x[1]) : x[0] - y[0]);
  const cut = Math.max(0, panels.length - MOST_PANELS); if (cut) { const top = new Set([...panels].sort((x, y) => total(y[1]) - total(x[1])).slice(0, MOST_PANELS).map(x => x[0])); panels = panels.filter(x => top.has(x[0])); }
  const lines = p.by ? 12 : MOST_DOTS, long = ordered && sizes[a] > (p.by ? 16 : MOST_DOTS);
  const rank = [...Array(sizes[a]).keys()].map(i => [i, f.cells.filter(c => c.at[0] === i).reduce((s, c) => s + size(c), 0)]);
  if (!ordered) rank.sort((x, y) => y[1] - x[1]);
  const order = long ? rank.map(r => r[0]) : rank.slice(0, ordered ? Math.max(lines, 16) : lines).map(r => r[0]), hidden = sizes[a] - order.length;
  panels = panels.map(([k, list]) => [k, order.map(i => list.find(c => c.at[0] === i)).filter(Boolean)]);
  const drawn = panels.flatMap(x => x[1]), top = Math.max(1e-9, ...drawn.map(c => isFinite(c.value) ? c.value : 0)), max = Math.max(top, Math.min(1.6 * top, ...[Math.max(...drawn.map(c => isFinite(c.high) ? c.high : 0))]));
  const labels = order.map(i => D.columns[a].labels[i].length), left = long ? 8 : Math.min(W * (W < 480 ? .4 : .3), 6.6 * Math.max(...labels) + 14);
  const across = p.by ? Math.max(1, Math.min(4, Math.floor((W - left) / (long ? 230 : 170)), panels.length)) : 1, gap = 22, w = (W - left - 12 - gap * (across - 1)) / across, height = long ? (p.by ? 110 : 220) : 20 * order.length, each = height + (p.by ? 26 : 4) + 30;
  const svg = draw('svg', { width: W, height: each * Math.ceil(panels.length / across), viewBox: `0 0 ${W} ${each * Math.ceil(panels.length / across)}`, role: 'img' });
  panels.forEach(([k, list], i) => {
    const g = draw('g', {}), box = { x: left + (i % across) * (w + gap), y: Math.floor(i / across) * each + (p.by ? 26 : 4), w };
    const scale = v => box.x + (w * v) / max; scale.max = max;
    if (p.by) g.append(draw('text', { x: box.x, y: box.y - 9, 'font-weight': 600 }, short(D.columns[p.cols[1]].labels[k], Math.floor(w / 7))));
    if (long) { nice(max).slice(1).forEach(v => { const y = box.y + height * (1 - v / max); g.append(draw('line', { class: 'rule', x1: box.x, x2: box.x + w, y1: y, y2: y }), draw('text', { class: 'soft', x: box.x, y: y - 3 }, tick(v, p.how))); }); g.append(draw('line', { class: 'rule', x1: box.x, x2: box.x + w, y1: box.y + height, y2: box.y + height })); profile(g, list, a, box, max, height); }
    else { const ticks = nice(max), step = Math.ceil((ticks.length * 46) / w); ticks.forEach((v, j) => { g.append(draw('line', { class: 'rule', x1: scale(v), x2: scale(v), y1: box.y, y2: box.y + height })); if (j % step === 0) g.append(draw('text', { class: 'soft', x: scale(v), y: box.y + height + 14, 'text-anchor': j ? 'middle' : 'start' }, tick(v, p.how))); }); dots(g, list, a, box, scale, p.how, i % across === 0); }
    svg.append(g);
  });
  const what = listed(p.cols.slice(0, p.by ? 2 : 1)) + (p.filter !== null ? `, only where ${name(p.cols[p.cols.length - 1])} is ${D.columns[p.cols[p.cols.length - 1]].labels[p.filter]}` : '');
  const unit = { counts: 'number of rows', all: 'share of the rows', each: p.by ? `share within each ${name(p.cols[1])}` : 'share of the rows' }[p.how];
  svg.setAttribute('aria-label', `${what}: ${unit}. The table below has every number.`);
  const whiskers = f.kind === 'measured' ? ` ${long ? 'Dashed' : 'Open marks'}: noisy estimates; bands: 95 % of the noise${long ? '' : '; grey: too noisy to read'}.` : ` ${long ? 'Dashed' : 'Open marks'}: the synthetic rows.`;
  const rest = (hidden ? ` ${hidden} smaller levels are in the table only.` : '') + (cut ? ` ${cut} smaller groups are in the table only.` : '') + (D.columns[a].joined > 1 ? ` Each step joins ${D.columns[a].joined} neighbouring levels.` : '');
  host.append(make('p', `How are ${what} distributed?`.replace('How are ' + name(a) + ' ', `How is ${name(a)} `)), svg, make('figcaption', `${unit[0].toUpperCase() + unit.slice(1)}; ${D.price}.${whiskers}${rest}`));
}

// --- the table -----------------------------------------------------------------------------------------
function records(p, f) {
  const cols = p.cols.slice(0, p.by ? 2 : 1), alone = p.cols.length === 1 && f.kind === 'measured' && p.how === 'counts' ? fromRows(p.cols) : null;
  const large = {}; f.cells.forEach(c => { large[c.at[1]] = (large[c.at[1]] || 0) + Math.max(0, c.count); });
  const groups = (x, y) => !p.by || x.at[1] === y.at[1] ? 0 : (D.columns[cols[1]].ordered ? 0 : large[y.at[1]] - large[x.at[1]]) || x.at[1] - y.at[1];
  const list = [...f.cells].sort((x, y) => groups(x, y) || (D.columns[cols[0]].ordered ? x.at[0] - y.at[0] : y.count - x.count));
  return { cols, alone, list };
}
function table(p, f) {
  const host = $('numbers'); host.textContent = ''; $('save').hidden = !f.cells; if (!f.cells) return;
  const { cols, alone, list } = records(p, f), t = make('table'), head = t.createTHead().insertRow(), body = t.createTBody(), interval = f.kind === 'measured';
  t.createCaption().textContent = `${list.length.toLocaleString('en-US')} numbers of ${listed(cols)}${D.columns[cols[0]].ordered ? '' : ', the largest first'}`;
  const names = [...cols.map(name), p.how === 'counts' ? 'rows' : 'share', ...(interval ? ['95 % interval', 'reading'] : []), ...(alone ? ['synthetic rows'] : [])];
  names.forEach((n, i) => head.append(make('th', n, { scope: 'col', class: i >= cols.length && n !== 'reading' ? 'n' : '' })));
  list.slice(0, all ? list.length : MOST_LINES).forEach(c => {
    const r = body.insertRow(); if (c.noisy) r.className = 'faint';
    cols.forEach((k, i) => r.append(make(i ? 'td' : 'th', D.columns[k].labels[c.at[i]], i ? {} : { scope: 'row' })));
    r.append(make('td', number(c.value, p.how), { class: 'n' }));
    if (interval) r.append(make('td', isFinite(c.low) ? `${number(c.low, p.how)} to ${number(c.high, p.how)}` : '–', { class: 'n' }), make('td', c.noisy ? 'too noisy to read' : 'readable'));
    if (alone) r.append(make('td', number(alone.v[c.at[0]] * (D.people || D.rows) / D.rows, 'counts'), { class: 'n' }));
  });
  const scroll = make('div', undefined, { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Numbers' }); scroll.append(t); host.append(scroll);
  if (list.length > MOST_LINES && !all) { const b = make('button', `Show all ${list.length.toLocaleString('en-US')} rows`, { type: 'button', class: 'act all' }); b.onclick = () => { all = true; table(p, f); }; host.append(b); }
}
const fileName = p => `${D.dataset}-${p.cols.map(name).join('-')}`.replace(/[^A-Za-z0-9_-]+/g, '_').slice(0, 80) + '.csv';
function csv(p, f) {
  const { cols, list } = records(p, f), q = s => /^[\s\S]*[",\n\r]/.test(s) ? `"${s.replace(/"/g, '""')}"` : s, safe = s => (/^[=+\-@\t\r]/.test(s) ? "'" : '') + s, x = v => isFinite(v) ? String(+v.toPrecision(9)) : '';
  return [[...cols.map(name), 'estimate', 'low', 'high', 'too_noisy'], ...list.map(c => [...cols.map((k, i) => safe(D.columns[k].labels[c.at[i]])), x(c.value), f.kind === 'measured' ? x(c.low) : '', f.kind === 'measured' ? x(c.high) : '', f.kind === 'measured' ? (c.noisy ? 1 : 0) : ''])].map(r => r.map(v => q(String(v))).join(',')).join('\n') + '\n';
}

// --- code ------------------------------------------------------------------------------------------------
function code(p, f) {
  const js = s => JSON.stringify(s), quoted = s => '`' + s.replace(/`/g, '') + '`', by = p.cols.map(c => 'by_' + name(c)), names = p.cols.map(name), m = f.t && f.t.m > 1 ? f.t.m : 0, z = f.t && f.t.z, where = p.filter === null ? null : D.columns[p.cols[p.cols.length - 1]].labels[p.filter];
  const folder = D.set.endsWith('/'), set = D.set.replace('/', ''), ending = set.split('.').pop(), last = by[by.length - 1];
  if (f.kind === 'measured') return {
    Python: `import pandas as pd\n\nnoisy = pd.read_parquet("measurements.parquet")\nnoisy = noisy[noisy["table"].isin(${js(f.t.t)})]  # ${listed(f.t.c)}\n` + (where === null ? '' : `noisy = noisy[noisy[${js(last)}] == ${js(where)}]\n`) +
      `told = noisy.groupby(${js(by)}, sort=False)[["value", "variance"]].sum()\n` + (m ? `told = told / [${m}, ${m ** 2}]  # ${m} answers, averaged\n` : '') + `told["half"] = ${z} * told["variance"] ** 0.5  # 95 % within value ± half\nprint(told)\n`,
    R: `noisy <- arrow::read_parquet("measurements.parquet")\nnoisy <- noisy[noisy$table %in% c(${f.t.t.join(', ')}), ]  # ${listed(f.t.c)}\n` + (where === null ? '' : `noisy <- noisy[noisy[[${js(last)}]] == ${js(where)}, ]\n`) +
      `told <- aggregate(cbind(value, variance) ~ ${by.map(quoted).join(' + ')}, noisy, sum)\n` + (m ? `told$value <- told$value / ${m}; told$variance <- told$variance / ${m ** 2}\n` : '') + `told$half <- ${z} * sqrt(told$variance)  # 95 % within value +- half\nprint(told)\n`,
    Stata: `* First: "Save this table as CSV" above. Stata reads no Parquet by itself.\nimport delimited "${fileName(p)}", varnames(1) stringcols(${p.by ? '1 2' : '1'}) encoding("UTF-8") clear\nlist, abbreviate(20)\n* one mark and one interval a line\ngenerate line = _n\ntwoway (rcap low high line) (scatter estimate line), legend(off)\n` };
  const read = { Python: ending === 'parquet' ? `pd.read_parquet("${set}")` : ending === 'csv' ? `pd.read_csv("${set}")` : ending === 'dta' ? `pd.read_stata("${set}")` : `pd.read_spss("${set}")`,
    R: ending === 'parquet' ? (folder ? `as.data.frame(arrow::open_dataset("${set}"))` : `arrow::read_parquet("${set}")`) : ending === 'csv' ? `read.csv("${set}", check.names = FALSE)` : `haven::read_${ending}("${set}")`,
    Stata: ending === 'dta' ? `use "${set}", clear` : ending === 'sav' ? `import spss using "${set}", clear` : (ending === 'parquet' ? '* In a shell first: dipsmith export FOLDER --out synthetic-1.csv\n' : '') + 'import delimited "synthetic-1.csv", varnames(1) encoding("UTF-8") clear' };
  const ask = f.kind === 'public' ? '' : `# what the release carries of it\nimport dipsmith as ds\nprint(ds.Release.load("FOLDER").supports(${names.map(js).join(', ')}))\n`;
  const stata = n => n.replace(/[^A-Za-z0-9_]/g, '').toLowerCase();
  const none = f.kind === 'not carried' || f.kind === 'absent';
  return { Python: (none ? '' : `import pandas as pd\n\nrows = ${read.Python}\nprint(rows[${js(names)}].value_counts())\n\n`) + ask,
    R: none ? `library(dipsmith)\ndips_supports("FOLDER", ${names.map(js).join(', ')})\n` : `rows <- ${read.R}\nprint(table(rows[, c(${names.map(js).join(', ')})]))\n`,
    Stata: none ? `* In a shell: dipsmith supports FOLDER ${names.map(n => `"${n}"`).join(' ')}\n` : `${read.Stata}\n${names.length === 1 ? 'tabulate' : names.length === 2 ? 'tabulate' : 'table'} ${names.map(stata).join(' ')}\n` };
}

// --- the page ----------------------------------------------------------------------------------------------
function options(id, first, mark) {
  const box = $(id), was = box.value; box.textContent = ''; if (first) box.append(make('option', first, { value: '' }));
  D.columns.forEach((c, i) => { const words = mark(i); if (words !== null) box.append(make('option', `${short(c.name, 40)} (${words})`, { value: i })); });
  if ([...box.options].some(o => o.value === was)) box.value = was;
}
function levels() {
  const c = $('c').value, box = $('d'), was = box.dataset.of === c ? box.value : '0'; box.textContent = ''; $('level').hidden = c === '';
  if (c !== '') { D.columns[+c].labels.forEach((l, i) => box.append(make('option', l, { value: i }))); box.dataset.of = c; box.value = was || '0'; }
}
function refresh() {
  const a = +$('a').value;
  const word = i => LEVELS[levelOf([a, i])];
  options('b', 'nothing: the column by itself', i => i === a ? null : word(i));
  const b = $('b').value === '' ? null : +$('b').value;
  options('c', 'everywhere', i => i === a || i === b ? null : b === null ? word(i) : best([a, b, i]) ? 'measured' : LEVELS[levelOf([a, b, i])] === 'not carried' ? 'not carried' : 'together unknown');
  levels();
  const p = picked(), f = shown = answer(p);
  verdict(p, f); plot(p, f); table(p, f);
  const told = code(p, f); $('code').textContent = told[language];
  document.querySelectorAll('[data-code]').forEach(x => x.setAttribute('aria-pressed', x.dataset.code === language));
  const state = new URLSearchParams(); p.cols.forEach((c, i) => state.set(p.filter !== null && i === p.cols.length - 1 ? 'c' : 'ab'[i], name(c))); if (p.filter !== null) state.set('d', p.filter); if (p.how !== 'counts') state.set('how', p.how);
  try { history.replaceState(null, '', '#' + state); } catch (e) { /* a frame that has no address of its own */ }
}
function restore() {
  const state = new URLSearchParams(location.hash.slice(1)), place = n => D.columns.findIndex(c => c.name === n), measured = D.columns.findIndex(c => c.level === 0);
  options('a', '', i => LEVELS[D.columns[i].level]); const a = place(state.get('a')); $('a').value = a >= 0 ? a : Math.max(0, measured);
  for (const id of ['b', 'c']) { options(id, 'nothing', () => ''); const i = place(state.get(id)); $(id).value = i >= 0 ? i : ''; }
  levels(); if (state.get('d') && $('c').value !== '' && +state.get('d') < sizes[+$('c').value]) $('d').value = state.get('d');
  if (['counts', 'all', 'each'].includes(state.get('how'))) $('how').value = state.get('how');
}
$('stamp').hidden = !D.testing;
$('lead').textContent = `What the noisy measurements behind the ${D.rows.toLocaleString('en-US')} synthetic rows of '${D.dataset}' say, with their intervals. Made by ${D.method}: ${D.guarantee}. Pick a column, and another to see the two together.`;
const left = []; if (D.left.columns.length) left.push(`Columns with too many levels for this page: ${D.left.columns.slice(0, 20).join(', ')}${D.left.columns.length > 20 ? ` and ${D.left.columns.length - 20} more` : ''}.`);
if (D.left.tables.length) left.push(`Left out to keep this page small (measurements.parquet has all): ${D.left.tables.join('; ')}${D.left.more ? ` and ${D.left.more} more tables` : ''}.`);
if (D.left.rows) left.push(`${D.left.rows} pairs of columns that only the rows tell are left out as well.`);
$('left').textContent = left.join(' '); $('foot').textContent = `dipsmith ${D.version}; this page uses only the release, and asks nothing of any network. card.html has the guarantee, report.html the whole description.`;
if (!D.columns.length) { $('pick').hidden = true; $('verdict').textContent = 'No column of this release is small enough for this page; see report.html.'; return; }
restore();
$('pick').addEventListener('change', () => { all = false; refresh(); });
$('pick').addEventListener('submit', e => e.preventDefault());
document.querySelectorAll('[data-code]').forEach(b => b.addEventListener('click', () => { language = b.dataset.code; refresh(); }));
$('save').addEventListener('click', () => { const p = picked(), link = make('a', '', { download: fileName(p), href: URL.createObjectURL(new Blob([csv(p, shown)], { type: 'text/csv' })) }); document.body.append(link); link.click(); link.remove(); });
$('copy').addEventListener('click', () => { const text = $('code').textContent, done = ok => { $('copied').textContent = ok ? 'Copied.' : 'Select the code and copy it by hand.'; };
  const byHand = () => { const range = document.createRange(), chosen = getSelection(); range.selectNodeContents($('code')); chosen.removeAllRanges(); chosen.addRange(range); done(document.execCommand('copy')); };
  if (navigator.clipboard && isSecureContext) navigator.clipboard.writeText(text).then(() => done(true), byHand); else byHand(); });
let width = innerWidth; addEventListener('resize', () => { if (innerWidth !== width) { width = innerWidth; plot(picked(), shown); } });
addEventListener('beforeprint', () => plot(picked(), shown));
addEventListener('hashchange', () => { restore(); refresh(); });
window.explore = { answer, picked, csv, code, fieller }; // for tests, and for whoever looks inside
refresh();
})();
