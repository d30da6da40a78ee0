import { ask, complain, el, state } from './page.js';
import { draw, going } from './jobs.js';

const held = state();
const base = `/api/p/${held.project}/questions`;
const answer = (key) => `/p/${held.project}/questions/${key}`;
const began = new Set(held.jobs.filter(going).map((job) => job.id));
let timer = null;

function show(found) {
  const listed = found.jobs.filter((job) => going(job) || job.can_resume || job.status === 'failed').slice(0, 8);
  el('going').hidden = !listed.length;
  draw(el('job-list'), listed, (job) => answer(job.question), watch);
  el('bar').innerHTML = found.bar;
  el('left').textContent = found.left;
  const done = found.jobs.find((job) => began.has(job.id) && !going(job) && !job.can_resume);
  if (done) { if (done.status === 'finished') location.assign(answer(done.question)); else location.reload(); return; }
  clearTimeout(timer);
  if (found.jobs.some(going)) timer = setTimeout(watch, 400);
}

async function watch() {
  try { show(await ask('GET', base)); } catch (error) { complain(error); clearTimeout(timer); timer = setTimeout(watch, 2000); }
}

el('add').addEventListener('submit', async (event) => {
  event.preventDefault();
  try {
    const file = el('file').files[0];
    if (!file) throw new Error('Choose a question file first.');
    if (file.size > 1_000_000) throw new Error('The file has more than 1,000,000 bytes, which no question needs.');
    await ask('POST', base, { text: await file.text() });
    location.reload();
  } catch (error) { complain(error); }
});

for (const article of document.querySelectorAll('.question')) {
  const one = (selector) => article.querySelector(selector);
  const address = `${base}/${article.dataset.question}`;
  const wrong = (error) => { one('.said').textContent = error.message; one('.said').hidden = false; };
  one('.decline').addEventListener('submit', async (event) => {
    event.preventDefault();
    try { await ask('POST', `${address}/decline`, { why: one('.why').value }); location.reload(); } catch (error) { wrong(error); }
  });
  if (!one('.approve')) continue;
  one('.sure').addEventListener('change', () => { one('.main').disabled = !one('.sure').checked; });
  one('.approve').addEventListener('submit', async (event) => {
    event.preventDefault();
    one('.main').disabled = true;
    try {
      const found = await ask('POST', `${address}/approve`, { another_grant: one('.another').checked });
      if (found.answered) { location.assign(answer(found.answered)); return; }
      began.add(found.job);
      article.remove();
      watch();
    } catch (error) {
      wrong(error);
      one('.sure').checked = false;
      if (error.confirm === 'another_grant') one('.another-box').hidden = false;
    }
  });
}

// One after the other: each fits a model to the release.
async function prospects() {
  for (const article of document.querySelectorAll('.question')) {
    if (!article.querySelector('.approve')) continue;
    const place = article.querySelector('.prospect');
    try { place.textContent = (await ask('GET', `${base}/${article.dataset.question}/prospect`)).says; } catch (error) { place.textContent = error.message; }
  }
}

show(held);
prospects();
