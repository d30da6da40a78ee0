import { ask, complain, el, pictures, sortable, state } from './page.js';
import { draw, going } from './jobs.js';

const held = state();
const began = new Set(held.jobs.filter(going).map((job) => job.id));
const quote = (text) => (/^[\w./=,-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`);
const file = (path) => quote(path.startsWith('-') ? `./${path}` : path);
let timer = null;

function show(found) {
  const open = found.jobs.filter((job) => going(job) || ['failed', 'stopped'].includes(job.status)).slice(0, 5);
  if (el('job-list')) { if (open.length) draw(el('job-list'), open, () => '', watch); else el('job-list').replaceChildren(); }
  const done = found.jobs.find((job) => began.has(job.id) && job.status === 'finished');
  if (done) { location.assign(`/p/${held.project}/compare/${done.id}`); return; }
  clearTimeout(timer);
  if (found.jobs.some(going)) timer = setTimeout(watch, 500);
}

async function watch() {
  try { show(await ask('GET', `/api/p/${held.project}/comparisons`)); } catch (error) { complain(error); clearTimeout(timer); timer = setTimeout(watch, 2000); }
}

function asked() {
  const checked = (name) => [...document.querySelectorAll(`input[name=${name}]:checked`)];
  return { request: held.request, releases: checked('release').map((c) => c.value), classifiers: checked('classifier').map((c) => c.value), analyses: el('analyses').value, by: el('by').value, reference: el('reference').value };
}

function command() {
  const body = asked();
  const where = [...document.querySelectorAll('input[name=release]:checked')].map((c) => file(c.dataset.where));
  const lines = body.analyses.split('\n').map((l) => l.trim()).filter(Boolean);
  const parts = ['dipsmith compare', file(held.data), ...where, ...lines.map((l) => `--analysis ${quote(l)}`)];
  if (body.by && lines.length) parts.push(`--by ${quote(body.by)}`);
  for (const level of body.reference.split(/[,\n]/).map((l) => l.trim()).filter(Boolean)) parts.push(`--reference ${quote(level)}`);
  for (const name of body.classifiers) parts.push(`--classifier ${name}`);
  el('command').textContent = [...parts, `--ledger ${file(held.ledger)}`, '--out comparison/'].join(' ');
}

if (el('ask')) {
  el('ask').addEventListener('input', command);
  el('ask').addEventListener('submit', async (event) => {
    event.preventDefault();
    el('ask-says').textContent = '';
    try {
      const found = await ask('POST', `/api/p/${held.project}/compare`, asked());
      began.add(found.job);
      held.request = found.next;
      watch();
    } catch (error) { el('ask-says').textContent = `${error.message}.`; }
  });
}
document.querySelectorAll('.report').forEach((report) => { sortable(report); pictures(report); });
if (held.browser) await import('./browser.js');
show(held);
