import { ask, bar, el, node, number, state, table, time } from './page.js';
import { bins, columns, pairs } from './columns.js';
import { show as tradeoff } from './tradeoff.js';

const held = state();
const choices = { ...held.choices, settings: { ...held.choices.settings } };
const mark = { epsilon: 'ε', approx: 'ε', rho: 'ρ' };
let last = null;
let whole = false;
const FILES = { grow: 'grow', 'grow-map': 'grow_map', 'grow-epsilon': 'grow_epsilon', onto: 'onto', 'onto-map': 'onto_map', factors: 'factors' };
const lines = (id) => el(id).value.split('\n').map((line) => line.trim()).filter(Boolean);

function fill() {
  el('currency').value = choices.currency;
  el('amount').value = choices.amount;
  el('delta').value = choices.delta;
  el('amount-slider').value = Math.log10(Number(choices.amount) || 1);
  el('sets').value = choices.sets;
  el('each').value = choices.each || 'split';
  el('rows').value = choices.rows ?? '';
  el('format').value = choices.format;
  el('rows-box').hidden = held.neighbours === 'label';
  el('analyses').value = (choices.analyses || []).join('\n');
  for (const [id, name] of Object.entries(FILES)) el(id).value = [choices.files?.[name] ?? ''].flat().join('\n');
  el('agreed').hidden = !held.agreed.length;
  el('agreed').textContent = `Agreed upon in the schema: ${held.agreed.join('; ')}.`;
  settings();
}

// n_B with a small B below the line.
const lowered = (words) => words.split(/_(\w)/).map((part, i) => (i % 2 ? node('sub', {}, part) : part));

function settings() {
  const known = held.settings[choices.method] || {};
  el('settings').replaceChildren(...Object.entries(known).map(([name, [least, most, step, words]]) => {
    const value = choices.settings[name], usual = held.defaults[choices.method]?.[name];
    const out = node('output', {}, value === undefined ? `by default${usual === null || usual === undefined ? '' : ` (${usual})`}` : String(value));
    const slider = node('input', { type: 'range', id: `s-${name}`, min: least, max: most, step, value: value ?? usual ?? Math.round((least + most) / 4) });
    const reset = node('button', { type: 'button', class: 'quiet', hidden: value === undefined }, 'default');
    slider.addEventListener('input', () => { choices.settings[name] = Number(slider.value); out.textContent = slider.value; reset.hidden = false; redraw(); });
    reset.addEventListener('click', () => { delete choices.settings[name]; settings(); redraw(); });
    return node('div', {}, node('label', { for: `s-${name}` }, ...lowered(words), ': ', out), slider, reset);
  }));
}

// At once, from what the page knows: amounts, shares of the stages, the budget's picture.
function sketch() {
  el('delta-box').hidden = choices.currency !== 'approx';
  el('each-box').hidden = choices.sets < 2;
  const grows = held.grows.includes(choices.method), labels = held.neighbours === 'label';
  el('grow-box').hidden = !grows;
  el('onto-box').hidden = !labels;
  el('files-box').hidden = !grows && !labels;
  el('no-files').hidden = grows || labels;
  told();
  el('grow-more').hidden = !el('grow').value;
  el('onto-more').hidden = !el('onto').value;
  el('factors-box').hidden = el('grow-more').hidden && el('onto-more').hidden;
  el('sets-out').textContent = choices.sets;
  meaning();
  const piece = document.querySelector('.budget .planned');
  const same = held.currency === (choices.currency === 'epsilon' ? 'epsilon' : 'rho');
  // What the grant's currency cannot express has no price: it is told as it was asked for, not as nothing.
  const known = Number(choices.amount) > 0;
  const price = same && choices.currency !== 'approx' && known ? Number(choices.amount) * 1e12 : last?.spending.units ?? null;
  const units = price || 0;
  const from = Number(piece.dataset.from);
  const width = held.granted_units ? 1000 * units / held.granted_units : 0;
  piece.classList.toggle('over', from + width > 1000.01);
  piece.setAttribute('width', Math.max(0, Math.min(width, 1000 - from)).toFixed(2));
  const left = (held.remaining_units - units) / 1e12;
  const sign = held.currency === 'rho' ? 'ρ' : 'ε';
  if (held.currency && !known) el('figures').replaceChildren(node('span', {}, `${sign} = ${held.remaining_units / 1e12} is left`), node('span', {}, `${held.granted_units / 1e12} granted`));
  else el('figures').replaceChildren(...(held.currency ? [node('span', {}, node('b', {}, price === null ? `${mark[choices.currency]} = ${choices.amount}` : `${sign} = ${Number((units / 1e12).toPrecision(6))}`), ' this run'), node('span', {}, price === null ? (last ? `cannot be paid from a grant in ${sign}` : '…') : left < 0 ? `${Number((-left).toPrecision(6))} more than is left` : `${Number(left.toPrecision(6))} would remain`), node('span', {}, `${held.granted_units / 1e12} granted`)] : [node('span', { class: 'soft' }, 'no grant yet')]));
  if (last) stages(Number(choices.amount) / (Number(last.amount) || 1));
}

// What would be refused in a closed step is said on it.
function closed(id, wrong, usual) {
  el(id).textContent = wrong ? `${wrong}.` : usual;
  el(id).classList.toggle('error', Boolean(wrong));
}

// Each step says, closed, what was chosen in it.
function told() {
  const sign = mark[choices.currency], files = [choices.files?.grow, choices.files?.onto].filter(Boolean);
  el('is-budget').textContent = `${sign} = ${choices.amount}${choices.currency === 'approx' ? `, δ = ${choices.delta}` : ''}`;
  el('is-method').textContent = held.words[choices.method] ?? choices.method;
  const many = [...held.agreed, ...(choices.analyses || [])].length;
  closed('is-files', last?.files, files.map((path) => path.split('/').pop()).join(', ') || 'none');
  closed('is-analyses', last?.analyses.problem && `not planned: ${last.analyses.problem}`, many ? `${many} planned` : 'nothing planned');
  el('is-out').textContent = `${choices.sets === 1 ? 'one set' : `${choices.sets} sets, ${choices.each === 'draw' ? 'drawn from one model' : 'each made on its own'}`}, ${choices.format}`;
}

// What the amount means, moving with the slider: the most that anyone can make of a bet of 50:50.
function odds(epsilon) {
  const won = 100 / (1 + Math.exp(-epsilon));
  if (won < 99.5) return `${Math.round(won)}:${100 - Math.round(won)}`;
  return won < 99.95 ? `${won.toFixed(1)}:${(100 - won).toFixed(1)}` : 'near certainty';
}

function meaning() {
  const rho = choices.currency === 'rho', epsilon = rho ? last?.meaning.epsilon : Number(choices.amount);
  if (!(epsilon > 0)) {
    el('odds').textContent = el('before').textContent = '';
    for (const row of document.querySelectorAll('.odds tr.near')) row.classList.remove('near');
    return;
  }
  const delta = Number(rho ? held.delta : choices.delta);
  const but = choices.currency === 'epsilon' ? '' : `, but for a chance of ${delta < 1e-15 ? delta : `1 in ${number(Math.round(1 / delta))}`}`;
  el('odds').replaceChildren(`Whoever would bet 50:50 ${held.bet} can reach at most `, node('b', {}, odds(epsilon)), `${but}, whatever else is known${rho ? ` (ε = ${number(epsilon)})` : ''}.`, bar(1 / (1 + Math.exp(-epsilon)), `${odds(epsilon)} of 100`));
  const exact = held.currency === 'epsilon' && choices.currency === 'epsilon';
  const together = exact ? epsilon + held.spent_units / 1e12 : last?.meaning.together;
  el('before').textContent = held.spent_units ? `${held.currency === 'rho' ? 'ρ' : 'ε'} = ${held.spent_units / 1e12} was spent on these rows before${together ? `; together with this run at most ${odds(together)}` : ''}.` : 'Nothing was spent on these rows before.';
  const near = [...document.querySelectorAll('.odds tr')].sort((a, b) => Math.abs(Math.log(a.dataset.epsilon / epsilon)) - Math.abs(Math.log(b.dataset.epsilon / epsilon)));
  near.forEach((row, i) => row.classList.toggle('near', i === 0));
}

function stages(scale) {
  const ours = last.analyses.share || 0, first = ours ? [['planned analyses', '–', number(last.analyses.cost * scale), bar(ours, `${Math.round(100 * ours)} %`), '–', '–']] : [];
  el('stages').replaceChildren(table([['stage', false], ['asked', true], [last.symbol, true], ['', false], ['noisy numbers', true], ['noise s.d.', true]], [...first, ...last.stages.map((s) => [
    s.stage, number(s.questions), number(s.cost * scale), bar(s.share * (1 - ours), `${Math.round(100 * s.share * (1 - ours))} %`), s.cells === null ? '–' : number(s.cells),
    s.sd === null ? '–' : [...new Set(s.sd.map((v) => number(v / scale)))].join(' to '),
  ])]));
}

const wide = (sd) => sd === null ? '–' : `± ${number(1.96 * sd)}`;
function forecasts(found) {
  const told = found.coefficients || [];
  el('analyses-says').textContent = found.problem ? `Not planned: ${found.problem}.` : '';
  el('forecast-box').hidden = !told.length && !found.notes?.length;
  if (el('forecast-box').hidden) return;
  const parts = [];
  for (const hopeless of found.hopeless) parts.push(node('p', { class: 'verdict error' }, `Hopeless: ${hopeless}.`));
  if (found.beyond) parts.push(node('p', { class: 'verdict error' }, 'So many rows do not give the widths that are wanted at any budget.'));
  if (found.enough) parts.push(node('p', { class: 'verdict' }, `The widths that are wanted need ${found.enough}.`));
  for (const note of found.notes) parts.push(node('p', { class: 'soft' }, `Note: ${note}.`));
  const most = 12;
  for (const title of [...new Set(told.map((c) => c.analysis))]) {
    const lines = told.filter((c) => c.analysis === title);
    parts.push(node('p', { class: 'soft' }, `${title}: 95 % intervals${lines.length > most ? `; ${lines.length - most} more coefficients` : ''}`), node('div', { class: 'scroll', tabindex: '0', role: 'group', 'aria-label': title }, table([['coefficient', false], ['by the rows themselves', true], ['by noise', true], ['width of the interval', true], ['wanted', true], ['', false]],
      lines.slice(0, most).map((c) => [c.name, wide(c.sampling), wide(c.noise), number(c.width), c.wanted === null ? '' : number(c.wanted), c.hopeless ? 'hopeless' : c.wanted !== null && c.width > c.wanted ? 'too wide' : '']))));
  }
  if (found.share) parts.unshift(node('p', {}, `They take ${Math.round(100 * found.share)} % of the budget; what is below is planned with the rest. Their results will stand on the card, and synthetic rows will carry them.`));
  el('forecasts').replaceChildren(...parts);
}

// Nothing of the plan before stays beside a choice that was refused.
function refuse(error, place = 'sentence') {
  last = null;
  el('outcome').hidden = el('above').hidden = el('onward').hidden = true;
  el('unplanned').hidden = false;
  el('unplanned').textContent = 'Nothing is planned: what stands in red has to be mended first.';
  for (const id of ['suggestion', 'hopeless', 'files-says', 'analyses-says', 'command', 'sentence', 'amount-says', 'rows-says']) el(id).textContent = '';
  el(place).textContent = `${error.message.replace(/^./, (c) => c.toUpperCase()).replace(/\.?$/, '.')}`;
  el(place).classList.add('error');
  explore(null);
  sketch();
}

// The explorer is for methods whose leaves have a size; its λ is that of the plan.
function explore(found) {
  const leaves = 'n_b' in (held.settings[choices.method] || {});
  el('explore').hidden = !leaves || !found;
  if (leaves && found) document.dispatchEvent(new CustomEvent('planned', { detail: { lam: found.widths[0]?.lam ?? null } }));
}

function tell(found) {
  el('outcome').hidden = false;
  // A run would refuse what stands in red beside formulas or files: the plan is that without them, and leads no further.
  const refused = Boolean(found.analyses.problem || found.files);
  el('unplanned').hidden = !refused;
  el('unplanned').textContent = 'What stands in red has to be mended before a run; below is what can be planned without it.';
  el('above').hidden = el('onward').hidden = refused || !found.spending.allowed;
  last = { ...found, amount: choices.amount };
  el('sentence').textContent = found.spending.sentence;
  el('sentence').classList.toggle('error', !found.spending.allowed);
  const hopeless = found.warnings.filter((w) => w.includes('hopeless')).length;
  el('hopeless').textContent = hopeless ? `Hopeless at this amount: ${hopeless === 1 ? 'one table that will be asked for drowns' : `${hopeless} of the tables that will be asked for drown`} in noise. The notes at the end say which, and what would help.` : '';
  el('suggestion').textContent = found.suggestion.method === choices.method ? `Suggested, and chosen: ${found.suggestion.reason}.` : `Suggested: ${found.suggestion.method} — ${found.suggestion.reason}.`;
  el('files-says').textContent = found.files ? `${found.files}.` : '';
  forecasts(found.analyses);
  el('amount-says').textContent = el('rows-says').textContent = '';
  columns(found, held.names);
  bins(found, held.project);
  pairs(found);
  const hidden = found.errors['1'].more + found.errors['2'].more;
  el('more').textContent = whole ? 'show fewer' : `show ${hidden} more`;
  el('more').hidden = !whole && !hidden;
  explore(found);
  el('tables').replaceChildren(table([['table', false], ['cells', true], [found.symbol, true], ['noise s.d.', true]], found.tables.map((t) => [t.what, number(t.cells), number(t.cost), number(t.sd)]), found.more_tables ? `The largest; ${found.more_tables} more` : ''));
  el('cost').textContent = `${number(found.cells)} noisy numbers in all; about ${number(found.resources.memory_bytes / 1e6)} MB of memory and ${time(found.resources.seconds)} of processor time, to within a factor of 1.5.`;
  el('warnings').replaceChildren(...found.warnings.map((w) => node('li', {}, `Note: ${w.replace(/\.?$/, '.')}`)));
  el('command').textContent = found.commands.plan;
  sketch();
}

let busy = false, again = false;
async function redraw() {
  sketch();
  if (busy) { again = true; return; }
  busy = true;
  try {
    const asked = JSON.stringify(choices), found = await ask('POST', `/api/p/${held.project}/plan`, { choices, seek: el('seek').value, all: whole });
    // Changed meanwhile: the answer to what is chosen now follows.
    if (again || asked === JSON.stringify(choices)) tell(found);
    document.documentElement.dataset.drawn = String(Number(document.documentElement.dataset.drawn || 0) + 1);
  } catch (error) { refuse(error); } finally {
    busy = false;
    if (again) { again = false; redraw(); }
  }
}

el('choices').addEventListener('submit', (event) => event.preventDefault());
el('choices').addEventListener('input', (event) => {
  const id = event.target.id;
  if (id === 'amount-slider') {
    choices.amount = String(Number((10 ** Number(el('amount-slider').value)).toPrecision(2)));
    el('amount').value = choices.amount;
  } else if (id === 'amount') {
    choices.amount = el('amount').value.trim();
    if (Number(choices.amount) > 0) el('amount-slider').value = Math.log10(Number(choices.amount)); else { refuse(new Error(`'${choices.amount}' is no amount: it must be a number above 0, such as 0.5`), 'amount-says'); return; }
  } else if (event.target.name === 'method') {
    choices.method = event.target.value;
    choices.settings = {};
    settings();
    tradeoff();
  } else if (id.startsWith('s-')) return;
  choices.currency = el('currency').value;
  choices.delta = el('delta').value.trim() || '1e-9';
  choices.sets = Number(el('sets').value);
  choices.each = choices.sets > 1 ? el('each').value : null;
  const rows = el('rows').value.replace(/[ ,_]/g, '');
  if (rows && !/^\d+$/.test(rows)) { refuse(new Error(`'${el('rows').value}' is no number of rows: give a whole number, or nothing where it is not public`), 'rows-says'); return; }
  choices.rows = rows ? Number(rows) : null;
  choices.format = el('format').value;
  choices.analyses = lines('analyses');
  const grows = held.grows.includes(choices.method), used = (id) => !(id.startsWith('grow') && (!grows || !el('grow').value)) && !(id.startsWith('onto') && !el('onto').value) && !(id === 'factors' && el('factors-box').hidden);
  choices.files = Object.fromEntries(Object.entries(FILES).map(([id, name]) => [name, name.endsWith('map') ? (used(id) ? lines(id) : []) : (used(id) ? el(id).value.trim() : '')]));
  redraw();
});

document.addEventListener('use-n-b', (event) => {
  choices.settings.n_b = event.detail;
  settings();
  redraw();
});
document.addEventListener('choose', ({ detail }) => {
  choices.method = detail.method;
  choices.amount = detail.amount;
  choices.settings = {};
  document.querySelector(`input[name=method][value="${CSS.escape(detail.method)}"]`).checked = true;
  fill();
  tradeoff();
  redraw();
});
let typed = null;
el('seek').addEventListener('input', () => { clearTimeout(typed); typed = setTimeout(redraw, 200); });
el('sort').addEventListener('change', () => { if (last) columns(last, held.names); });
el('more').addEventListener('click', () => { whole = !whole; redraw(); });
for (const button of document.querySelectorAll('[data-next]')) {
  button.addEventListener('click', () => {
    const next = el(`step-${button.dataset.next}`);
    next.open = true;
    next.querySelector('summary').focus();
  });
}
document.documentElement.dataset.method = choices.method;
if (mark[choices.currency]) { fill(); redraw(); }
