// Learn the columns that are not complete yet: what it costs at every key, how far it is, and the draft that comes back.
import { ask, el } from './page.js';
import { draw, going } from './jobs.js';

export function learn(project, page) {
  const address = `/api/p/${project}/learn`;
  const amounts = () => ({ epsilon: el('learn-epsilon').value.trim(), delta: el('learn-delta').value.trim() });
  const box = el('learn-box').querySelector('details');
  const some = (names) => (names.length > 6 ? `${names.slice(0, 6).join(', ')}, and ${names.length - 6} more` : names.join(', '));
  const newRequest = () => [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, '0')).join('');
  let jobs = [], allowed = false, timer = null, typing = null, request = newRequest(), asked = 0;

  function ready() { el('learn-start').disabled = !allowed || !el('learn-sure').checked || jobs.some(going); }

  async function price() {
    const mine = ++asked;
    el('learn-says').textContent = '';
    try {
      await page.save();
      const { spending, hides, advice } = await ask('POST', `${address}/price`, amounts());
      if (mine !== asked) return;
      allowed = spending.allowed;
      el('learn-sentence').textContent = spending.sentence;
      el('learn-hides').textContent = hides;
      el('learn-advice').textContent = advice;
      el('learn-sentence').classList.toggle('error', !allowed);
      el('learn-grant').hidden = allowed;
    } catch (error) {
      if (mine !== asked) return;
      allowed = false;
      el('learn-sentence').textContent = '';
      el('learn-hides').textContent = '';
      el('learn-advice').textContent = '';
      el('learn-grant').hidden = true;
      el('learn-says').textContent = `${error.message.replace(/^./, (c) => c.toUpperCase())}.`;
    }
    ready();
  }

  async function take(job) {
    const found = await ask('POST', `${address}/take`, { job: job.id, revision: page.revision() });
    jobs = jobs.filter((other) => other.id !== job.id);
    box.open = false;
    page.open(found, found.unsaid.length
      ? `Learned. Left to you, because too few rows share a value or no δ was given: ${some(found.unsaid)}.`
      : 'Learned: every column has its values. Look them over before you go on.');
  }

  async function show() {
    const done = jobs.find((job) => job.status === 'finished');
    draw(el('job-list'), jobs.filter((job) => job !== done), () => '', watch);
    clearTimeout(timer);
    if (jobs.some(going)) timer = setTimeout(watch, 300);
    if (done) try { await take(done); } catch (error) { el('learn-says').textContent = `${error.message}.`; box.open = true; }
    el('job-list').hidden = !jobs.length;
    ready();
    page.show();
  }

  async function watch() {
    try { ({ jobs } = await ask('GET', address)); show(); } catch { clearTimeout(timer); timer = setTimeout(watch, 2000); }
  }

  box.addEventListener('toggle', () => { if (box.open) price(); });
  el('learn').addEventListener('input', (event) => {
    if (event.target.type === 'checkbox') { ready(); return; }
    allowed = false;
    ready();
    clearTimeout(typing);
    typing = setTimeout(price, 150);
  });
  el('learn').addEventListener('submit', async (event) => {
    event.preventDefault();
    el('learn-start').disabled = true;
    el('learn-says').textContent = '';
    try {
      await page.save();
      await ask('POST', address, { ...amounts(), request, another_grant: el('learn-another').checked });
      request = newRequest();
    } catch (error) {
      el('learn-says').textContent = `${error.message}.`;
      if (error.confirm === 'another_grant') el('learn-another-box').hidden = false;
    }
    el('learn-sure').checked = false;
    watch();
  });
  // What is protected, or the columns to learn, have changed: so may the price have.
  return { watch, changed: () => { if (box.open && !jobs.some(going)) price(); }, needed: (left) => { el('learn-box').hidden = !left && !jobs.length; } };
}
