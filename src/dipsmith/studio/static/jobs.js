// Jobs as the Run and Compare pages list them: stage, share done, and what can be done. How long it will take only of a
// comparison, which is confidential as a whole, and as this browser sees it: how long a run takes depends on the rows.
// A line that is there is changed in place, so that a button stays under the pointer and keeps the focus.
import { ask, complain, node } from './page.js';

const WORDS = { waiting: 'waiting', running: 'running', finished: 'done', failed: 'failed', cancelled: 'cancelled, everything was given back', stopped: 'stopped: its process is gone' };
export const going = (job) => job.status === 'waiting' || job.status === 'running';
const lines = new Map();

function line(job) {
  const parts = { name: node('b'), said: node('span'), progress: node('progress', { max: 1, 'aria-label': `Progress of run ${job.id.slice(0, 8)}` }), buttons: node('span'), message: node('p', { class: 'message' }), offered: '' };
  parts.root = node('div', { class: 'job', 'data-job': job.id }, node('span', {}, parts.name, ' — ', parts.said), parts.progress, parts.buttons, parts.message);
  return parts;
}

function buttons(parts, job, link, refresh) {
  const offered = [job.can_resume, job.can_cancel, job.status].join();
  if (offered === parts.offered) return;
  parts.offered = offered;
  const act = (words, address) => {
    const button = node('button', { type: 'button' }, words);
    button.addEventListener('click', async () => { button.disabled = true; try { await ask('POST', address); } catch (error) { complain(error); } refresh(); });
    return button;
  };
  const made = [];
  if (job.can_resume) made.push(act('Go on', `/api/jobs/${job.id}/resume`), ' ');
  if (job.can_cancel) made.push(act(job.free ? 'Stop' : 'Cancel, give the budget back', `/api/jobs/${job.id}/cancel`));
  if (job.status === 'finished' && link(job)) made.push(node('a', { class: 'go', href: link(job) }, 'See it'));
  if (job.status === 'failed' || job.status === 'cancelled' || (job.status === 'stopped' && !job.can_resume)) made.push(act('Dismiss', `/api/jobs/${job.id}/dismiss`));
  parts.buttons.replaceChildren(...made);
}

function left(job, parts) {
  const now = Date.now();
  parts.first ??= { at: now, share: job.share };
  const [took, done] = [(now - parts.first.at) / 1000, job.share - parts.first.share];
  if (job.kind !== 'compare' || took < 3 || done < 0.05) return '';
  const seconds = took * (1 - job.share) / done;
  return seconds < 8 ? ', a few seconds left' : seconds < 90 ? `, about ${5 * Math.ceil(seconds / 5)} seconds left` : `, about ${Math.ceil(seconds / 60)} minutes left`;
}

function said(job, parts) {
  if (job.status === 'running') return `${job.stage.replace(/\?$/, '')}, ${Math.round(100 * job.share)} %${left(job, parts)}`;
  return job.status === 'waiting' ? job.stage : WORDS[job.status];
}

function message(job) {
  if (job.status === 'running' && job.ledger === 'read') return 'Rows are read: what was spent stays spent. It goes on if this page is closed.';
  if (job.status !== 'stopped') return job.message;
  if (job.kind === 'rehearse') return 'Its process was ended; nothing was spent: try again.';
  if (job.kind === 'compare' || job.kind === 'check') return 'Its process was ended. The look stays in the log, nothing was spent, nothing half-written was left: ask again.';
  return job.can_resume
    ? 'Its process was ended before any data was read: go on without a new charge, or give the budget back.'
    : 'Its process was ended. Data may have been read, so that what was spent stays spent; nothing half-written was left.';
}

export function draw(place, jobs, link, refresh) {
  const wanted = jobs.map((job) => {
    if (!lines.has(job.id)) lines.set(job.id, line(job));
    const parts = lines.get(job.id);
    parts.name.textContent = job.says;
    parts.said.textContent = said(job, parts);
    parts.progress.value = going(job) ? job.share : job.status === 'finished' ? 1 : 0;
    parts.progress.hidden = !going(job);
    parts.message.textContent = message(job);
    parts.message.hidden = !message(job);
    parts.message.classList.toggle('error', job.status === 'failed');
    parts.root.dataset.status = job.status;
    buttons(parts, job, link, refresh);
    return parts.root;
  });
  if (!wanted.length) wanted.push(node('p', { class: 'soft' }, 'None yet.'));
  if (wanted.length !== place.children.length || wanted.some((w, i) => place.children[i] !== w)) place.replaceChildren(...wanted);
}
