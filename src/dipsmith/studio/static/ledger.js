import { ask, el, state } from './page.js';

const { project } = state();

el('grant-currency').addEventListener('change', () => { el('grant-delta-box').hidden = el('grant-currency').value !== 'approx'; });

const send = async (what, body) => {
  try {
    await ask('POST', `/api/${project ? `p/${project}/` : ''}${what}`, body);
    location.reload();
  } catch (error) { el('grant-says').textContent = `${error.message}.`; }
};

for (const button of document.querySelectorAll('[data-withdraw]')) button.addEventListener('click', () => send('withdraw', { name: button.dataset.withdraw }));

el('grant').addEventListener('submit', async (event) => {
  event.preventDefault();
  const body = { name: el('grant-name').value, currency: el('grant-currency').value, amount: el('grant-amount').value.trim(), by: el('grant-by').value, why: el('grant-why').value };
  if (body.currency === 'approx') body.delta = el('grant-delta').value;
  await send('grant', body);
});
