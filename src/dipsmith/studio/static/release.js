import { ask, complain, el, pictures, sortable, state } from './page.js';

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

el('show-report').addEventListener('click', async () => {
  el('show-report').disabled = true;
  el('show-report').textContent = 'Making the report …';
  try {
    el('report-here').innerHTML = (await ask('GET', `${base}/report`)).html;
    sortable(el('report-here'));
    pictures(el('report-here'));
    el('show-report').remove();
  } catch (error) { complain(error); el('show-report').disabled = false; el('show-report').textContent = 'Show the report'; }
});
sortable(el('card'));
pictures(el('card'));
