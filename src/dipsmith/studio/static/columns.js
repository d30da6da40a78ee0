// What the noise will do to each column: levels drawn as if all were equally common, which is all that is public, and the
// noise of each as a whisker. The scale is the column's own share, so that whiskers shrink as the amount grows.
import { ask, bar, complain, el, node, number, redraw, table } from './page.js';

const SVG = 'http://www.w3.org/2000/svg';
const BARS = 24, LOW = 20;
// Bars of errors have one scale, whatever is planned: they move with the amount.
const FULL = 0.25;
const Z = 1.96;
// A share has 100 points; noise beyond that has no size worth telling.
const points = (share) => (share < 1e-5 ? '< 0.001' : number(100 * share));
const within = (sd) => (Z * sd > 1 ? '> 100' : points(Z * sd));
const HOW = { measured: 'it is part of a table that will be measured', 'at most': 'the same, and other tables will tell more', 'if chosen': 'only if the method decides to measure it, otherwise it is what the model makes of others' };

function draw(tag, attributes) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function whiskers(column) {
  const count = Math.min(column.levels, BARS), step = 150 / count, reach = LOW * Z * column.share_sd * column.levels;
  const svg = draw('svg', { class: 'whiskers', viewBox: '0 0 150 48', role: 'img', 'aria-label': `each of ${column.levels} levels is uncertain by ${within(column.share_sd)} points` });
  for (let i = 0; i < count; i += 1) {
    const x = i * step, up = Math.max(1, 46 - LOW - reach), down = Math.min(46, 46 - LOW + reach);
    svg.append(draw('rect', { x: x + 0.1 * step, y: 46 - LOW, width: 0.8 * step, height: LOW }), draw('path', { d: `M${x + step / 2} ${up}V${down}${46 - LOW - reach > 1 ? `M${x + 0.3 * step} ${up}h${0.4 * step}` : ''}` }));
  }
  return svg;
}

const ORDERS = { worst: () => 0, name: (a, b) => a.marginal[0].localeCompare(b.marginal[0]), schema: null };

function rest(group) {
  const more = group.more ? `; ${group.more} more, down to ${number(100 * group.least)} points` : '';
  const unknown = group.unknown.length;
  return `${more}${unknown ? `; what becomes of ${group.unknown.slice(0, 5).join(', ')}${unknown > 5 ? ` and ${unknown - 5} more` : ''} cannot be foreseen` : ''}`;
}

export function columns(found, names) {
  const group = found.errors['1'], parts = [];
  const listed = [...group.worst], order = el('sort').value;
  if (order === 'name') listed.sort(ORDERS.name);
  if (order === 'schema') listed.sort((a, b) => names.indexOf(a.marginal[0]) - names.indexOf(b.marginal[0]));
  el('whiskers-say').textContent = listed.length ? 'Bars: all levels as if they were equally common, because nothing else is public. Whiskers: where a share may land by noise alone, 95 of 100 times; one that reaches below the bar to nothing makes rare levels unreadable.' : '';
  if (listed.length) {
    parts.push(table([['column', false], ['levels', true], ['', false], ['each share, points', true], ['± points', true], ['rows that move, %', true], ['', false]], listed.map((c) => {
      const equal = 1 / c.levels;
      return [c.marginal[0], number(c.levels), whiskers(c), number(100 * equal), within(c.share_sd), points(c.tvd), Z * c.share_sd > equal ? 'too noisy for rare levels' : c.how];
    }), `Single columns${rest(group)}`));
  }
  el('columns').replaceChildren(...parts);
}

export function pairs(found) {
  const parts = [];
  if (found.widths.length) {
    parts.push(table([['labels in', false], ['cells', true], ['λ = ε/Δ', true], ['rows, median', true], ['width of a share', true]],
      found.widths.map((w) => [w.what, number(w.leaves), number(w.lam), number(w.rows), number(w.width) + (w.shrunk ? `, together ${number(w.shrunk)}` : '')]), `Width of the ${Math.round(100 * found.level)} % interval of a label's share of ${found.p0}, each cell on its own`));
  }
  const group = found.errors['2'];
  if (group.worst.length) {
    parts.push(table([['pair', false], ['cells', true], ['± points', true], ['rows that move, %', true], ['', false], ['', false]],
      group.worst.map((e) => [e.marginal.join(' × '), number(e.cells), within(e.share_sd), points(e.tvd), bar(e.tvd / FULL, `${points(e.tvd)} points`), e.how]),
      `Pairs, the worst first; a full bar is ${100 * FULL} % or more${rest({ ...group, unknown: [] })}`));
  }
  // Small errors of single columns are no merit of a method that leaves the pairs out.
  if (group.apart) {
    const some = group.unknown.slice(0, 3).join(', ');
    parts.unshift(node('p', { class: 'verdict', id: 'apart' }, `${group.apart === group.all ? `None of the ${number(group.all)} pairs` : `${number(group.apart)} of ${number(group.all)} pairs`} will ${group.apart === group.all ? '' : 'not '}be measured (${some}${group.apart > 3 ? ', …' : ''}): how their columns hang together is lost at any budget, but for what other tables carry. The errors above are of single columns and say nothing of it.`));
  }
  const words = new Set([...found.errors['1'].worst, ...group.worst].map((e) => e.how));
  const told = Object.entries(HOW).filter(([how]) => words.has(how)).map(([how, says]) => `${how}: ${says}`);
  if (told.length) parts.push(node('p', { class: 'soft' }, `${told.join('; ')}.`));
  if (!parts.length && !found.errors['1'].worst.length) parts.push(node('p', { class: 'soft' }, found.rows === null ? 'State the number of rows, under “Who is protected”, to see what the noise will do to shares.' : 'Nothing can be foreseen for this method, or nothing is called so.'));
  el('errors').replaceChildren(...parts);
}

// Bins that would suit the rows and the noise better; a click puts them into the draft and opens the column there.
export function bins(found, project) {
  const into = ({ edges, width }) => (edges ? `cut at ${edges.slice(0, 5).join(', ')}, … ${edges.at(-1)}` : `steps of ${width}`);
  el('bins').hidden = !found.bins.length;
  const many = found.bins.length + found.more_bins;
  el('bins-say').textContent = `Other bins would suit ${many === 1 ? found.bins[0].column : `${many} columns`} better`;
  redraw(el('bin-table'), [found.bins, found.more_bins], () => [table([['column', false], ['bins now', true], ['better', true], ['', false], ['why', false], ['', false]], found.bins.map((b) => {
    const take = node('button', { type: 'button', class: 'quiet', 'aria-label': `Cut ${b.column} so` }, 'Cut it so');
    take.addEventListener('click', async () => {
      try {
        await ask('POST', `/api/p/${project}/schema/bins`, { column: b.column, bins: b.bins });
        location.assign(`/p/${project}/schema#${encodeURIComponent(b.column)}`);
      } catch (error) { complain(error); }
    });
    return [b.column, number(b.now), number(b.count), into(b.bins), b.reason, take];
  }), `A click cuts the column so and opens it on the Schema page, where it can be changed back${found.more_bins ? `; ${found.more_bins} more are not listed` : ''}`)]);
}
