import { ask, complain, el, node, number, state } from './page.js';
import { draw, going } from './jobs.js';

const held = state();
let timer = null;

function show(found) {
  const open = found.jobs.filter((job) => job.status !== 'finished');
  if (open.length) draw(el('job-list'), open, () => '', watch); else el('job-list').replaceChildren();
  el('count').disabled = found.jobs.some(going);
  clearTimeout(timer);
  if (found.jobs.some(going)) timer = setTimeout(watch, 300);
  const told = found.result;
  el('found').hidden = !told;
  if (!told) return;
  el('count').textContent = told.stale ? 'The schema has changed: count again' : 'Count again';
  el('found-title').textContent = told.amiss.length ? `${told.of}: not all cells fit` : `${told.of}: every cell fits`;
  const before = told.stale ? ' This was counted under an earlier schema.' : '';
  el('found-says').textContent = told.amiss.length
    ? `Of ${number(told.rows)} rows. Unreadable: say how the column is written (its values, on the Schema page). Outside: widen the bounds or the list, or leave it if that is meant.${before}`
    : `All cells of ${number(told.rows)} rows can be read and lie in their columns' ranges and lists.${before}`;
  el('amiss').hidden = !told.amiss.length;
  el('amiss').tBodies[0].replaceChildren(...told.amiss.map((line) => node('tr', {}, node('td', {}, line.what), node('td', { class: 'n' }, number(line.cells)), node('td', { class: 'n' }, told.rows ? `${(100 * line.cells / told.rows).toFixed(1)} %` : '–'))));
}

async function watch() {
  try { show(await ask('GET', `/api/p/${held.project}/check`)); } catch (error) { complain(error); clearTimeout(timer); timer = setTimeout(watch, 2000); }
}

el('count').addEventListener('click', async () => {
  el('check-says').textContent = '';
  try { await ask('POST', `/api/p/${held.project}/check`); watch(); } catch (error) { el('check-says').textContent = `${error.message}.`; }
});
show(held);
