import { ask, complain, el, node, pictures, sortable, state } from './page.js';

const held = state();
const base = `/api/p/${held.project}/release/${held.request}`;

el('verify').addEventListener('click', async () => {
  el('verified').textContent = 'Checking …';
  try {
    const found = await ask('POST', `${base}/verify`, {});
    el('verified').textContent = found.says;
    el('verified').className = found.whole ? 'verdict' : 'verdict error';
  } catch (error) { complain(error); }
});

// The picture first, the rest of the report below.
async function report() {
  try {
    el('report-here').innerHTML = (await ask('GET', `${base}/report`)).html;
    const first = el('report-here').querySelector('figure');
    el('first-picture').replaceChildren(...(first ? [first] : [node('p', { class: 'soft' }, 'This report has no picture; its tables are below.')]));
    for (const part of [el('report-here'), el('first-picture')]) { sortable(part); pictures(part); }
    document.documentElement.dataset.reported = 'yes';
  } catch (error) { el('first-picture').replaceChildren(node('p', { class: 'error' }, `The report cannot be shown: ${error.message}.`)); }
}
sortable(el('card'));
pictures(el('card'));
report();
