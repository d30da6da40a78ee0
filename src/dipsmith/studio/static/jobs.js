// Jobs as the Run and Compare pages list them: stage, share done, time left, and what can be done.
import { ask, complain, node, time } from './page.js';

const WORDS = { waiting: 'waiting', running: 'running', finished: 'done', failed: 'failed', cancelled: 'cancelled', stopped: 'stopped: its process is gone' };
export const going = (job) => job.status === 'waiting' || job.status === 'running';

export function draw(place, jobs, link, refresh) {
  place.replaceChildren(...jobs.map((job) => {
    const said = going(job) ? job.stage + (job.status === 'running' ? `, ${Math.round(100 * job.share)} %` : '') : WORDS[job.status];
    const left = !going(job) ? `after ${time(job.seconds)}` : job.left === null ? `for ${time(job.seconds)}` : `about ${time(job.left)} left`;
    const progress = node('progress', { max: 1, 'aria-label': `Progress of ${job.id.slice(0, 8)}` });
    progress.value = going(job) ? job.share : job.status === 'finished' ? 1 : 0;
    const buttons = node('span');
    const act = (words, address) => {
      const button = node('button', { type: 'button' }, words);
      button.addEventListener('click', async () => { button.disabled = true; try { await ask('POST', address); } catch (error) { complain(error); } refresh(); });
      buttons.append(button, ' ');
    };
    if (job.can_resume) act('Go on', `/api/jobs/${job.id}/resume`);
    if (job.can_cancel) act('Cancel, give the budget back', `/api/jobs/${job.id}/cancel`);
    if (job.status === 'finished') buttons.append(node('a', { class: 'go', href: link(job) }, 'See it'));
    let message = job.message;
    if (job.status === 'stopped') message = job.can_resume ? 'Its process was ended before any data was read: go on without a new charge, or give the budget back.' : 'Its process was ended. Data may have been read, so that what was spent stays spent; nothing half-written was left.';
    return node('div', { class: 'job', 'data-job': job.id, 'data-status': job.status }, node('span', {}, node('b', {}, job.says), ` — ${said} `, node('span', { class: 'soft' }, left)), progress, buttons, message ? node('p', { class: job.status === 'failed' ? 'message error' : 'message' }, message) : null);
  }));
  if (!jobs.length) place.replaceChildren(node('p', { class: 'soft' }, 'None yet.'));
}
