import { ask, complain, el, node, number, redraw, say, state } from './page.js';
import { readBins, showBins, showProposal, takeProposal } from './bins.js';
import { chooseHouseholds, leaveHouseholds, showHouseholds } from './households.js';
import { imports } from './imported.js';
import { learn } from './learn.js';
import { rules } from './rules.js';
import { KEYS, readSpelling, showSpelling } from './spelling.js';

const held = state();
let { document: draft, report, revision } = held;
draft.fields ||= [];
const chosen = new Set();
let current = null;

const TYPES = ['string', 'integer', 'number', 'boolean', 'date', 'datetime'];
const field = (name) => draft.fields.find((f) => f.name === name);
const many = (columns) => `${columns} column${columns === 1 ? '' : 's'}`;
const verdict = (name) => report.columns.find((c) => c.name === name) || { error: 'not checked yet', says: '', levels: null };

// Saving: at most one request under way; what changed meanwhile goes with the next.
let under = Promise.resolve(), queued = false, timer = null;
function save() {
  clearTimeout(timer);
  timer = null;
  if (!queued) { queued = true; under = under.then(write); }
  return under;
}
async function write() {
  queued = false;
  try {
    ({ revision, report } = await ask('POST', `/api/p/${held.project}/schema`, { revision, document: draft }));
    say('');
    show();
  } catch (error) { complain(error); }
}
function changed(soon = true) {
  clearTimeout(timer);
  timer = setTimeout(async () => { await save(); learning.changed(); }, soon ? 120 : 0);
}
addEventListener('pagehide', () => { clearTimeout(timer); });

// The grid ----------------------------------------------------------------------------------------
function shown() {
  const words = el('search').value.toLowerCase().split(/\s+/).filter(Boolean);
  const unfinished = el('open-only').checked;
  return draft.fields.filter((f) => {
    const told = verdict(f.name);
    const text = `${f.name} ${f.type || 'untyped'} ${f.role} ${told.error} ${told.says}`.toLowerCase();
    return words.every((w) => text.includes(w)) && (!unfinished || told.error);
  });
}

function select(options, value, label) {
  return node('select', { 'aria-label': label, tabindex: '-1' }, ...options.map((o) => node('option', { value: o, selected: o === (value || '') }, o || 'choose …')));
}

const drawn = new Map();
function row(f) {
  const box = node('input', { type: 'checkbox', 'aria-label': `Select ${f.name}`, tabindex: '-1' });
  const kind = select(['', ...TYPES], f.type, `Type of ${f.name}`);
  const role = select(['private', 'public', 'weight'], f.role || 'private', `Role of ${f.name}`);
  const levels = node('td', { class: 'n' });
  const says = node('td');
  const made = node('tr', { tabindex: '-1', 'data-name': f.name }, node('td', {}, box), node('td', {}, f.name), node('td', {}, kind), node('td', {}, role), levels, says);
  box.addEventListener('change', () => { box.checked ? chosen.add(f.name) : chosen.delete(f.name); bulk(); });
  kind.addEventListener('change', () => { setType(field(f.name), kind.value); changed(); if (current === f.name) edit(f.name); });
  role.addEventListener('change', () => { field(f.name).role = role.value; changed(); });
  made.addEventListener('click', (event) => { if (!event.target.closest('select, input')) goTo(f.name); });
  return { made, box, kind, role, levels, says };
}

function show() {
  const body = el('grid').tBodies[0];
  const list = shown();
  const wanted = list.map((f) => {
    if (!drawn.has(f.name)) drawn.set(f.name, row(f));
    const r = drawn.get(f.name), told = verdict(f.name);
    r.box.checked = chosen.has(f.name);
    r.kind.value = f.type || '';
    r.role.value = f.role || 'private';
    r.levels.textContent = told.levels === null ? '–' : number(told.levels);
    r.says.textContent = told.error || told.says;
    r.says.classList.toggle('todo', Boolean(told.error));
    r.made.classList.toggle('current', f.name === current);
    return r.made;
  });
  if (wanted.length !== body.rows.length || wanted.some((r, i) => body.rows[i] !== r)) body.replaceChildren(...wanted);
  if (![...body.rows].some((r) => r.tabIndex === 0) && body.rows[0]) body.rows[0].tabIndex = 0;
  el('counted').textContent = list.length === draft.fields.length ? many(list.length) : `${list.length} of ${many(draft.fields.length)}`;
  el('share').value = report.share;
  const left = draft.fields.length - report.complete;
  const terms = [draft.neighbours ? '' : 'neighbours', draft.unit ? '' : 'unit'].filter(Boolean).join(' and ');
  el('progress').textContent = report.ready
    ? `Complete: ${many(draft.fields.length)}, ${report.cells} cells.`
    : `${report.complete} of ${many(draft.fields.length)} ${draft.fields.length === 1 ? 'is' : 'are'} complete${terms ? `; ${terms} not chosen yet` : ''}. ${left || terms ? '' : report.problem}`;
  el('next').hidden = el('onward').hidden = el('fits-box').hidden = !report.ready;
  learning.needed(left);
  originOf();
  const dropped = held.columns.filter((c) => !field(c) && c !== draft.unit?.column && c !== draft.unit?.per && c !== draft.key);
  const apart = [draft.unit?.column, draft.unit?.per, draft.key].filter((c) => c && !field(c));
  el('apart').textContent = apart.length ? `Read only to tell units apart, never released: ${apart.join(', ')}.` : '';
  redraw(el('dropped'), dropped, () => (dropped.length ? ['Never read, never released: ', ...dropped.flatMap((c, i) => [i ? ', ' : '', node('button', { type: 'button', class: 'quiet', 'data-take': c, title: `take ${c} in again` }, c)]), '.'] : []));
  terms_();
  verdictOf();
  bulk();
  ruling.show(draft, report);
}

// Where values come from: a draft begins with the header alone, and may be learned, imported or read from the rows.
const HEADER = el('origin').innerHTML;
function originOf() {
  const from = draft.provenance ?? 'declared';
  if (from === 'declared') { if (el('origin').innerHTML !== HEADER) el('origin').innerHTML = HEADER; return; }
  el('origin').textContent = from === 'data-derived' ? 'Values of this draft were read from the rows, and nothing protects them: every card says so.'
    : from.startsWith('learned') ? `Values of this draft were learned from the rows with noise (${from.replace(/^learned, /, '')}): every card says so.` : `Values of this draft are ${from}.`;
}

function bulk() {
  for (const name of chosen) if (!field(name)) chosen.delete(name);
  el('bulk').hidden = chosen.size === 0;
  // What was said of one selection is not said of the next.
  if (!chosen.size) for (const field of el('bulk').querySelectorAll('input, select')) field.value = '';
  el('bulk-count').textContent = `${chosen.size} selected:`;
  el('all').checked = chosen.size > 0 && shown().every((f) => chosen.has(f.name));
}

el('check').addEventListener('click', async () => {
  el('check-says').textContent = '';
  try {
    await save();
    await ask('POST', `/api/p/${held.project}/check`);
    location.assign(`/p/${held.project}/check`);
  } catch (error) { el('check-says').textContent = `${error.message}.`; }
});
el('search').addEventListener('input', show);
el('open-only').addEventListener('change', show);
el('all').addEventListener('change', () => { for (const f of shown()) el('all').checked ? chosen.add(f.name) : chosen.delete(f.name); show(); });
el('bulk-none').addEventListener('click', () => { chosen.clear(); show(); });
el('bulk-drop').addEventListener('click', () => { drop([...chosen]); });
el('bulk-apply').addEventListener('click', () => {
  const codes = el('bulk-codes').value.split(/[,;\n]/).map((c) => c.trim()).filter(Boolean);
  for (const name of chosen) {
    const f = field(name);
    if (el('bulk-type').value) setType(f, el('bulk-type').value);
    if (el('bulk-role').value) f.role = el('bulk-role').value;
    if (el('bulk-missing').value) put(f, 'missing', el('bulk-missing').value === 'true');
    if (el('bulk-low').value) { f.minimum = el('bulk-low').value; delete f.enum; }
    if (el('bulk-high').value) { f.maximum = el('bulk-high').value; delete f.enum; }
    if (el('bulk-width').value) f.bins = { width: el('bulk-width').value };
    if (codes.length) { f.enum = codes; for (const k of RANGE) delete f[k]; if (!codes.includes(f.other)) delete f.other; }
  }
  changed(false);
  if (current) edit(current);
});
el('dropped').addEventListener('click', (event) => {
  if (!event.target.dataset.take) return;
  take(event.target.dataset.take);
  changed(false);
});

function take(name) {
  draft.fields.push({ name, role: 'private' });
  draft.fields.sort((a, b) => held.columns.indexOf(a.name) - held.columns.indexOf(b.name));
}

function drop(names) {
  draft.fields = draft.fields.filter((f) => !names.includes(f.name));
  for (const name of names) drawn.delete(name);
  if (names.includes(current)) edit(null);
  chosen.clear();
  changed(false);
}

// Keyboard: one row is in the tab order, arrows move it.
function move(to) {
  const rows = [...el('grid').tBodies[0].rows];
  const next = rows[Math.max(0, Math.min(rows.length - 1, to))];
  if (!next) return;
  for (const r of rows) r.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}
el('grid').addEventListener('keydown', (event) => {
  const at = event.target.closest('tbody tr');
  if (!at || event.target !== at) return;
  const i = at.sectionRowIndex, name = at.dataset.name;
  const keys = {
    ArrowDown: () => move(i + 1), ArrowUp: () => move(i - 1), Home: () => move(0), End: () => move(1e9), PageDown: () => move(i + 12), PageUp: () => move(i - 12),
    ' ': () => { chosen.has(name) ? chosen.delete(name) : chosen.add(name); show(); },
    Enter: () => { goTo(name); el('f-type').focus({ preventScroll: true }); },
    Escape: () => { chosen.clear(); show(); },
  };
  if (event.key.toLowerCase() === 'a' && (event.ctrlKey || event.metaKey)) { for (const f of shown()) chosen.add(f.name); show(); event.preventDefault(); return; }
  if (keys[event.key]) { keys[event.key](); event.preventDefault(); }
});
addEventListener('keydown', (event) => {
  if (event.key === '/' && !event.target.closest('input, textarea, select')) { el('search').focus(); event.preventDefault(); }
  if (event.key === 'Escape' && event.target === el('search')) { el('search').value = ''; show(); move(0); }
  if (event.key === 'Escape' && event.target.closest('#field')) { const r = drawn.get(current); if (r) move(r.made.sectionRowIndex); }
});
el('search').addEventListener('keydown', (event) => { if (event.key === 'ArrowDown' || event.key === 'Enter') { move(0); event.preventDefault(); } });

// The editor of one column --------------------------------------------------------------------------
function put(f, key, value) {
  if (value === '' || value === false || value === null || value === undefined || (Array.isArray(value) && !value.length)) delete f[key]; else f[key] = value;
}

const RANGE = ['minimum', 'maximum', 'bins', 'open', 'precision', ...KEYS];
function setType(f, type) {
  put(f, 'type', type);
  if (type === 'string' || type === 'boolean') for (const key of RANGE) delete f[key];
  const words = type === 'integer' && Array.isArray(f.enum) && f.enum.some((c) => !/^-?\d+$/.test(c));
  if (words || !['string', 'integer'].includes(type)) for (const key of ['enum', 'collapse', 'other', 'ordered']) delete f[key];
}

const listed = (f) => (Array.isArray(f.enum) ? f.enum.map(String) : []);
function kindOf(f) {
  if (f.type === 'string') return 'codes';
  if (f.type === 'integer') return f.enum || f.wants === 'codes' ? 'codes' : 'bounds';
  return f.type && f.type !== 'boolean' ? 'bounds' : '';
}

function panels(kind) {
  for (const box of document.querySelectorAll('#field [data-for]')) {
    const wanted = box.dataset.for === 'kind' ? field(current)?.type === 'integer' : box.dataset.for === kind;
    box.hidden = !wanted;
  }
}

function others(f) {
  const codes = listed(f).slice(0, 2000);
  el('f-other').replaceChildren(node('option', { value: '' }, draft.neighbours === 'add-remove' ? 'nothing: the row is dropped' : 'choose …'), ...codes.map((c) => node('option', { selected: String(f.other) === c }, c)));
}

function edit(name) {
  current = name;
  const f = name && field(name);
  el('field').hidden = !f;
  el('editor-empty').hidden = Boolean(f);
  el('editor-title').textContent = f ? f.name : 'Choose a column';
  if (f) {
    el('f-type').value = f.type || '';
    el('f-role').value = f.role || 'private';
    el('f-title').value = f.title || '';
    el('f-kind').value = kindOf(f) || 'bounds';
    const labels = f.collapse?.map || {};
    el('f-codes').value = typeof f.enum === 'string' ? f.enum : listed(f).map((c) => (labels[c] ? `${c}, ${labels[c]}` : c)).join('\n');
    el('f-prefix').value = f.collapse?.prefix || '';
    el('f-ordered').checked = String(f.ordered) === 'true';
    el('f-low').value = f.minimum ?? '';
    el('f-high').value = f.maximum ?? '';
    showBins(f);
    showSpelling(f);
    el('f-open').value = f.open || '';
    el('f-open-says').hidden = !f.open;
    el('f-missing').checked = String(f.missing) === 'true';
    el('f-fixed').checked = String(f.fixed) === 'true';
    el('f-fixed-box').hidden = typeof draft.unit !== 'object';
    others(f);
    panels(kindOf(f));
  }
  show();
}

// Beside the table, or in a narrow window far below it: there the page goes to it.
function goTo(name) {
  edit(name);
  drawn.get(name)?.made.scrollIntoView({ block: 'nearest' });
  const top = el('editor').getBoundingClientRect().top;
  if (top < 0 || top > innerHeight / 2) el('editor').scrollIntoView();
}

function verdictOf() {
  const told = current ? verdict(current) : null;
  el('f-says').textContent = told ? (told.error ? `Not yet complete: ${told.error}.` : `${told.says}: ${number(told.levels)} levels.`) : '';
  el('f-says').classList.toggle('error', Boolean(told?.error));
  showProposal(told);
}

async function readCodes(f) {
  const text = el('f-codes').value.trim();
  if (!text) { delete f.enum; delete f.collapse; delete f.other; return; }
  if (/^[\w./-]+\.csv$/.test(text)) { f.enum = text; return; }
  const found = await ask('POST', '/api/codes', { text });
  f.enum = found.enum;
  if (Object.keys(found.labels).length) f.collapse = { map: found.labels };
  else if (f.collapse?.map) delete f.collapse;
  if (f.other !== undefined && !found.enum.includes(String(f.other))) delete f.other;
}

el('field').addEventListener('submit', (event) => event.preventDefault());
let typing = null;
el('field').addEventListener('input', (event) => {
  const f = field(current);
  if (!f) return;
  const id = event.target.id;
  if (id === 'f-codes') {
    clearTimeout(typing);
    typing = setTimeout(async () => {
      try { await readCodes(f); others(f); say(''); changed(false); } catch (error) { el('f-says').textContent = error.message; el('f-says').classList.add('error'); }
    }, 150);
    return;
  }
  if (id === 'f-type') { setType(f, event.target.value); el('f-kind').value = kindOf(f) || 'bounds'; panels(kindOf(f)); }
  if (id === 'f-kind') {
    if (event.target.value === 'codes') { for (const k of RANGE) delete f[k]; } else { for (const k of ['enum', 'collapse', 'other', 'ordered']) delete f[k]; }
    panels(event.target.value);
  }
  put(f, 'role', el('f-role').value);
  put(f, 'title', el('f-title').value);
  put(f, 'missing', el('f-missing').checked);
  put(f, 'fixed', el('f-fixed').checked);
  if (kindOf(f) === 'codes' || (f.type === 'integer' && el('f-kind').value === 'codes')) {
    put(f, 'ordered', el('f-ordered').checked);
    put(f, 'other', el('f-other').value);
    if (id === 'f-prefix') { if (el('f-prefix').value) f.collapse = { prefix: el('f-prefix').value }; else delete f.collapse; }
  } else if (f.type && f.type !== 'boolean') {
    put(f, 'minimum', el('f-low').value.trim());
    put(f, 'maximum', el('f-high').value.trim());
    put(f, 'open', el('f-open').value);
    readSpelling(f, put, id);
    showSpelling(f);
    el('f-open-says').hidden = !f.open;
    readBins(f, put, id);
  }
  changed();
});
el('f-propose').addEventListener('click', () => { takeProposal(field(current), verdict(current)); changed(); el('f-cut-at').focus(); });
el('f-drop').addEventListener('click', () => drop([current]));
el('f-next').addEventListener('click', () => {
  const from = draft.fields.findIndex((f) => f.name === current);
  const next = [...draft.fields.slice(from + 1), ...draft.fields.slice(0, from)].find((f) => verdict(f.name).error);
  if (!next) { say('Every column is complete.'); return; }
  goTo(next.name);
  el('f-type').focus({ preventScroll: true });
});

// What is protected ---------------------------------------------------------------------------------
function terms_() {
  for (const radio of document.getElementsByName('neighbours')) radio.checked = radio.value === draft.neighbours;
  const unit = draft.unit;
  for (const radio of document.getElementsByName('unit')) radio.checked = (radio.value === 'row' && unit === 'row') || (radio.value === 'column' && typeof unit === 'object' && unit !== null);
  const outside = held.columns.filter((c) => c !== unit?.column);
  const options = (list, value, none) => [node('option', { value: '' }, none), ...list.map((c) => node('option', { value: c, selected: c === value }, c))];
  if (document.activeElement !== el('unit-column')) el('unit-column').replaceChildren(...options(held.columns, unit?.column, 'choose …'));
  if (document.activeElement !== el('unit-per')) el('unit-per').replaceChildren(...options(outside, unit?.per, 'all time'));
  if (document.activeElement !== el('unit-order')) el('unit-order').replaceChildren(...options(outside, unit?.order, 'no order'));
  if (document.activeElement !== el('unit-rows')) el('unit-rows').value = unit?.max_rows || 1;
  showHouseholds(held, draft);
}
document.querySelector('.terms').addEventListener('change', (event) => {
  const before = draft.unit?.column ?? draft.key, homes = event.target.value === 'household' || event.target.id.startsWith('home-');
  if (event.target.name !== 'neighbours' && !homes) leaveHouseholds(draft);
  if (event.target.name === 'neighbours') draft.neighbours = event.target.value;
  else if (homes) {
    chooseHouseholds(held, draft);
    draft.fields = draft.fields.filter((f) => f.name !== draft.key);
    drawn.delete(draft.key);
  } else if (event.target.name === 'unit' && event.target.value === 'row') draft.unit = 'row';
  else {
    const column = el('unit-column').value || held.columns.find((c) => /(^|_)id$/i.test(c)) || held.columns[0];
    draft.unit = { column, max_rows: el('unit-rows').value || '1', ...(el('unit-per').value ? { per: el('unit-per').value } : {}), ...(el('unit-order').value ? { order: el('unit-order').value } : {}), ...(draft.unit?.link ? { link: draft.unit.link } : {}) };
    draft.fields = draft.fields.filter((f) => f.name !== column);
    drawn.delete(column);
  }
  // A column that no longer tells units apart is one to describe again.
  if (before && before !== (draft.unit?.column ?? draft.key) && held.columns.includes(before) && !field(before)) take(before);
  if (current) edit(field(current) ? current : null);
  changed(false);
});

imports(held.project, { open: (found) => { ({ report } = found); reopen(found); }, save });

function reopen(found) {
  draft = found.document;
  draft.fields ||= [];
  drawn.clear(); chosen.clear();
  edit(null);
}

const learning = learn(held.project, {
  save: () => (timer ? save() : under),
  revision: () => revision,
  show,
  open: (found, words) => { ({ revision, report } = found); reopen(found); say(words); },
});
const ruling = rules(el('rule'), el('rule-list'), (list) => { draft.rules = list; changed(false); });
const named = decodeURIComponent(location.hash.slice(1));
if (field(named)) { goTo(named); el('f-cut').autofocus = true; } else edit(null);
learning.watch();
