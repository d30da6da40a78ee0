import { ask, complain, el, node, upload } from './page.js';

// With a ledger the command shows how accounts stand; before there is one, it begins with the file that is chosen.
if (el('command').textContent.startsWith('dipsmith schema init')) {
  el('new').addEventListener('change', () => {
    const chosen = el('file').files.length ? el('data').options[0] : el('data').selectedOptions[0];
    el('command').textContent = chosen.dataset.command;
  });
}

el('new').addEventListener('submit', async (event) => {
  event.preventDefault();
  el('new-says').textContent = '';
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
    if (!data) throw new Error('choose a file from your disk, or one that is there already');
    const made = await ask('POST', '/api/projects', { data, name: el('name').value });
    location.assign(`/p/${made.project}/schema`);
  } catch (error) { el('sent').hidden = true; el('new-says').textContent = `${error.message}.`; }
});

el('practice').addEventListener('click', async () => {
  el('practice').disabled = true;
  el('practice').textContent = 'Inventing people …';
  try {
    location.assign(`/p/${(await ask('POST', '/api/practice')).project}/plan`);
  } catch (error) {
    el('practice-says').textContent = `${error.message}.`;
    el('practice').disabled = false;
    el('practice').textContent = 'Try it with invented data';
  }
});

document.querySelectorAll('[data-remove]').forEach((button) => button.addEventListener('click', async () => {
  if (button.dataset.asked !== 'yes') { button.dataset.asked = 'yes'; button.textContent = 'really forget it? ledger and releases stay'; return; }
  try { await ask('DELETE', `/api/projects/${button.dataset.remove}`); location.reload(); } catch (error) { complain(error); }
}));
