import { ask, complain, el, node, say, upload } from './page.js';

el('new').addEventListener('submit', async (event) => {
  event.preventDefault();
  try {
    let data = el('data').value;
    const file = el('file').files[0];
    if (file) {
      el('sent').hidden = false;
      data = (await upload(`/api/upload/${encodeURIComponent(file.name)}`, file, (share) => { el('sent').value = share; })).data;
      // It is there now: should the name be refused, it need not be sent again.
      el('file').value = '';
      el('data').prepend(node('option', { selected: true }, data));
    }
    if (!data) throw new Error('Choose a file of the folder, or one to upload.');
    const made = await ask('POST', '/api/projects', { data, name: el('name').value });
    location.assign(`/p/${made.project}/schema`);
  } catch (error) { el('sent').hidden = true; complain(error); }
});

el('grant-currency').addEventListener('change', () => { el('grant-delta-box').hidden = el('grant-currency').value !== 'approx'; });

el('grant').addEventListener('submit', async (event) => {
  event.preventDefault();
  const body = { name: el('grant-name').value, currency: el('grant-currency').value, amount: el('grant-amount').value, by: el('grant-by').value, why: el('grant-why').value };
  if (body.currency === 'approx') body.delta = el('grant-delta').value;
  try {
    await ask('POST', '/api/grant', body);
    location.reload();
  } catch (error) { complain(error); }
});

document.querySelectorAll('[data-remove]').forEach((button) => button.addEventListener('click', async () => {
  if (button.dataset.asked !== 'yes') { button.dataset.asked = 'yes'; button.textContent = 'really forget it? ledger and releases stay'; return; }
  try { await ask('DELETE', `/api/projects/${button.dataset.remove}`); location.reload(); } catch (error) { complain(error); }
}));

const first = document.querySelector('.account h3');
if (first && document.querySelectorAll('.account').length === 1) el('grant-name').value = first.textContent;
say('');
