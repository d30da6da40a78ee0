// The distribution browser of the Compare page: a list, worst first, and the one that was picked with all its values.
import { ask, el, node, state } from './page.js';

const { project, job, browser } = state();
const MOST = 200;
const short = (value, places = 3) => (value === null ? '–' : value.toFixed(places).replace(/^0\./, '.'));
const items = {
  columns: [...browser.columns].sort((a, b) => a.public - b.public || (b.tvd[0] - b.floor) - (a.tvd[0] - a.floor)).map((c) => ({ names: [c.name], says: c.public ? 'public' : `TVD ${c.tvd.map((v) => short(v)).join(', ')}; chance ${short(c.floor)}` })),
  pairs: browser.pairs.map((p) => ({ names: p.of.map((i) => browser.columns[i].name), says: `V ${short(p.v[0], 2)} → ${p.v.slice(1).map((v) => short(v, 2)).join(', ')}` })),
};
const ORDER = { columns: 'Farthest beyond chance first; public columns last.', pairs: 'Those that lost most of their association first.' };
let latest = 0;

const query = () => new URLSearchParams({ column: el('column').value, within: el('within').value });

async function show() {
  const mine = (latest += 1), wanted = query();
  for (const button of el('pick').querySelectorAll('button')) button.setAttribute('aria-pressed', String(picked(JSON.parse(button.dataset.names))));
  el('numbers').href = `/p/${project}/compare/${job}/distribution.csv?${wanted}`;
  try {
    const found = await ask('GET', `/api/p/${project}/compare/${job}/distribution?${wanted}`);
    if (mine !== latest) return;
    const within = el('within').value;
    el('shown-title').replaceChildren(node('b', {}, within ? `${el('column').value} within ${within}` : el('column').value), node('span', {}, found.title));
    el('shown').innerHTML = found.html;
  } catch (error) {
    if (mine !== latest) return;
    el('shown-title').textContent = '';
    el('shown').replaceChildren(node('p', { class: 'error' }, `${error.message}.`));
  }
  document.documentElement.dataset.browsed = String(Number(document.documentElement.dataset.browsed || 0) + 1);
}

function picked(names) {
  const chosen = [el('column').value, el('within').value].filter(Boolean);
  return names.length === chosen.length && names.every((name) => chosen.includes(name));
}

function list() {
  const kind = document.querySelector('input[name=list]:checked').value, words = el('find').value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = items[kind].filter((item) => words.every((word) => item.names.join(' ').toLowerCase().includes(word)));
  el('order').textContent = `${ORDER[kind]}${found.length > MOST ? ` The first ${MOST} of ${found.length}: find others by name.` : ''}${found.length ? '' : ' None is called so.'}`;
  el('pick').replaceChildren(...found.slice(0, MOST).map((item) => {
    const button = node('button', { type: 'button', 'data-names': JSON.stringify(item.names), 'aria-pressed': String(picked(item.names)) }, node('b', {}, item.names.join(' × ')), node('span', {}, item.says));
    button.addEventListener('click', () => { el('column').value = item.names[item.names.length - 1]; el('within').value = item.names.length > 1 ? item.names[0] : ''; show(); });
    return node('li', {}, button);
  }));
}

for (const radio of document.querySelectorAll('input[name=list]')) radio.addEventListener('change', list);
el('find').addEventListener('input', list);
for (const id of ['column', 'within']) el(id).addEventListener('change', show);
el('column').value = items.columns[0].names[0];
list();
show();
