// All methods over the amount, on a stand-in: lines in grey, the chosen method in blue; every point can be chosen.
import { ask, el, node, number, state } from './page.js';
import { draw, going } from './jobs.js';

const { project } = state();
const SVG = 'http://www.w3.org/2000/svg';
const WIDE = 640, TALL = 260, LEFT = 50, RIGHT = 120, BELOW = 34;
let timer = null, last = null;

function shape(tag, attributes, ...inside) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...inside);
  return made;
}

const chosen = () => document.querySelector('input[name=method]:checked')?.value;
const choose = (point) => document.dispatchEvent(new CustomEvent('choose', { detail: point }));

function picture(result, methods, amounts) {
  const most = Math.max(...result.points.map((p) => p.tvd), 1e-9);
  const low = Math.log(amounts[0]), high = Math.log(amounts[amounts.length - 1]);
  const x = (amount) => LEFT + (WIDE - LEFT - RIGHT) * (high > low ? (Math.log(amount) - low) / (high - low) : 0.5);
  const y = (tvd) => 10 + (TALL - BELOW - 10) * (1 - tvd / most);
  const svg = shape('svg', { class: 'tradeoff', viewBox: `0 0 ${WIDE} ${TALL}`, 'aria-hidden': 'true' });
  const third = 100 * most / 3, power = 10 ** Math.floor(Math.log10(third)), step = [1, 2, 5, 10].find((m) => m * power >= third) * power / 100;
  for (let i = 0, at = 0; at <= most; at = ++i * step) svg.append(shape('line', { class: 'grid', x1: LEFT, x2: WIDE - RIGHT, y1: y(at), y2: y(at) }), shape('text', { x: LEFT - 6, y: y(at) + 4, 'text-anchor': 'end' }, number(100 * at)));
  for (const amount of amounts) svg.append(shape('text', { x: x(amount), y: TALL - 14, 'text-anchor': 'middle' }, String(amount)));
  svg.append(shape('text', { x: WIDE - RIGHT + 14, y: TALL - 14 }, `${result.symbol}, log scale`));
  const ends = [];
  for (const method of [...methods].sort((a) => (a === chosen() ? 1 : -1))) {
    const mine = result.points.filter((p) => p.method === method).sort((a, b) => a.amount - b.amount), kind = method === chosen() ? ' mine' : '';
    svg.append(shape('path', { class: `line${kind}`, d: mine.map((p, i) => `${i ? 'L' : 'M'}${x(p.amount).toFixed(1)} ${y(p.tvd).toFixed(1)}`).join('') }));
    for (const point of mine) {
      const dot = shape('circle', { class: `dot${kind}`, cx: x(point.amount), cy: y(point.tvd), r: 5 });
      dot.addEventListener('click', () => choose(point));
      svg.append(dot);
    }
    ends.push({ method, kind, at: y(mine[mine.length - 1].tvd) });
  }
  // Labels at the ends of their lines, moved apart.
  ends.sort((a, b) => a.at - b.at);
  ends.reduce((before, end) => { end.at = Math.max(end.at, before + 14); return end.at; }, 0);
  const over = Math.max(0, ...ends.map((end) => end.at - (TALL - BELOW + 4)));
  for (const end of ends) svg.append(shape('text', { class: `name${end.kind}`, x: WIDE - RIGHT + 10, y: end.at - over + 4 }, end.method));
  return svg;
}

export function show(result = last) {
  last = result;
  if (!result?.points.length) return;
  const amounts = [...new Set(result.points.map((p) => Number(p.amount)))].sort((a, b) => a - b);
  const methods = [...new Set(result.points.map((p) => p.method))];
  const at = (method, amount) => result.points.find((p) => p.method === method && Number(p.amount) === amount);
  const cell = (point) => {
    if (!point) return node('td', { class: 'n' }, '–');
    const button = node('button', { type: 'button', class: 'quiet', 'aria-label': `choose ${point.method} at ${result.symbol} = ${point.amount}: ${number(100 * point.tvd)} %` }, number(100 * point.tvd));
    button.addEventListener('click', () => choose(point));
    return node('td', { class: 'n' }, button);
  };
  const best = [...methods].sort((a, b) => (at(a, amounts[amounts.length - 1])?.tvd ?? 9) - (at(b, amounts[amounts.length - 1])?.tvd ?? 9));
  const body = best.map((method) => node('tr', {}, node('th', { scope: 'row' }, method), ...amounts.map((amount) => cell(at(method, amount)))));
  const refused = Object.entries(result.refused).map(([method, why]) => node('p', { class: 'soft' }, `${method} was not tried further: ${why}.`));
  el('trade-here').replaceChildren(
    node('figure', {}, node('p', {}, 'Share of rows that would have to move, %, mean of all columns and pairs'), node('div', { class: 'scroll', tabindex: '0', role: 'group', 'aria-label': 'Picture; the table below has its values' }, picture(result, methods, amounts)), node('figcaption', {}, `n = ${number(result.rows)} rows of a stand-in; lower is better. Your rows will do otherwise: read the order of methods, not the height.`)),
    node('div', { class: 'scroll', tabindex: '0', role: 'group', 'aria-label': 'Trials' }, node('table', {}, node('caption', {}, 'The same as numbers, %; press one to choose it'), node('thead', {}, node('tr', {}, node('th', { scope: 'col' }, 'method'), ...amounts.map((a) => node('th', { scope: 'col', class: 'n' }, `${result.symbol} = ${a}`)))), node('tbody', {}, ...body))),
    ...refused,
  );
}

async function watch() {
  clearTimeout(timer);
  try {
    const found = await ask('GET', `/api/p/${project}/tradeoff`);
    const open = found.jobs.filter((job) => job.status !== 'finished' && job.status !== 'cancelled').map((job) => ({ ...job, can_cancel: going(job), free: true }));
    if (open.length) draw(el('job-list'), open, () => '', watch); else el('job-list').replaceChildren();
    show(found.result);
    if (found.jobs.some(going)) timer = setTimeout(watch, 700);
  } catch (error) { el('trade-says').textContent = `${error.message}.`; }
}

el('try-all').addEventListener('click', async () => {
  el('trade-says').textContent = '';
  try {
    await ask('POST', `/api/p/${project}/tradeoff`, { stand_in: el('stand-in').value });
    watch();
  } catch (error) { el('trade-says').textContent = `${error.message}.`; }
});
watch();
