import { ask, complain, el, state } from './page.js';
import { draw, going } from './jobs.js';

const held = state();
const TITLES = { waiting: 'It begins', running: 'It runs', finished: 'It is done', failed: 'It failed', cancelled: 'It was cancelled', stopped: 'It was stopped' };
// The run that the page tells of: its own, or one that was not done when the page was opened.
const open = held.jobs.find((job) => going(job) || job.status === 'stopped')?.id;
let timer = null;

function show(found) {
  draw(el('job-list'), found.jobs, (job) => `/p/${held.project}/release/${job.id}`, watch);
  const mine = found.jobs.find((job) => job.id === held.request);
  // Until then the bar shows what this run would take.
  if (mine || found.bar !== held.bar) el('bar').innerHTML = found.bar;
  const told = mine ?? found.jobs.find((job) => job.id === open);
  if (told) el('title').textContent = TITLES[told.status];
  if (mine) {
    el('sentence').textContent = `${found.left} is left of what was granted. For another run, reload this page.`;
    for (const id of ['go', 'unchecked']) if (el(id)) el(id).hidden = true;
  }
  clearTimeout(timer);
  if (found.jobs.some(going)) timer = setTimeout(watch, 400);
}

async function watch() {
  try { show(await ask('GET', `/api/p/${held.project}/jobs`)); } catch (error) { complain(error); clearTimeout(timer); timer = setTimeout(watch, 2000); }
}

el('sure').addEventListener('change', () => { el('start').disabled = !el('sure').checked; });
el('go').addEventListener('submit', async (event) => {
  event.preventDefault();
  el('start').disabled = true;
  el('run-says').textContent = '';
  try {
    await ask('POST', `/api/p/${held.project}/run`, { request: held.request, another_grant: el('another').checked });
  } catch (error) {
    el('run-says').textContent = `${error.message}.`;
    el('sure').checked = false;
    if (error.confirm === 'another_grant') el('another-box').hidden = false;
  }
  watch();
});
show(held);
