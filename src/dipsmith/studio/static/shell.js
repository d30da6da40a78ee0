// The shell: enters, fetches the page that the address names, and puts it in its place.
import { askOtherTabs, forget, keep, secret, send } from './secret.js';

const form = document.getElementById('enter');

async function enter(offer) {
  const answer = await fetch('/enter', { method: 'POST', cache: 'no-store', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ offer }) });
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error);
  keep(found.secret);
}

async function known() {
  const found = secret() ?? await askOtherTabs();
  if (found) keep(found);
}

function askForTheCode(why = '') {
  document.getElementById('refused').textContent = why;
  form.hidden = false;
  document.documentElement.dataset.page = 'entrance';
  document.getElementById('code').focus();
}

// Nothing can be pressed before the script that answers is there.
async function put(text) {
  const page = new DOMParser().parseFromString(text, 'text/html');
  document.title = page.title;
  for (const link of page.head.querySelectorAll('link[rel=stylesheet]')) {
    if (!document.head.querySelector(`link[href="${link.getAttribute('href')}"]`)) document.head.append(document.adoptNode(link));
  }
  document.body.className = page.body.className;
  document.body.inert = true;
  document.body.replaceChildren(...page.body.childNodes);
  await Promise.all([...page.head.querySelectorAll('script[src^="/static/"]')].map((script) => import(script.getAttribute('src'))));
  document.body.inert = false;
  document.querySelector('[autofocus]')?.focus();
}

async function show() {
  const answer = await send(location.pathname + location.search);
  if (answer.status === 401) { forget(); askForTheCode(); return; }
  await put(await answer.text());
  document.documentElement.dataset.page = 'shown';
  if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
}

form.addEventListener('submit', async (event) => {
  event.preventDefault();
  try {
    await enter(document.getElementById('code').value);
    if (location.pathname === '/enter') location.replace('/'); else await show();
  } catch (error) { askForTheCode(error.message); }
});

if (location.pathname === '/enter') {
  const token = location.hash.slice(1);
  history.replaceState(null, '', '/enter');
  try {
    if (token) await enter(token); else await known();
    if (secret()) location.replace('/'); else askForTheCode();
  } catch (error) { askForTheCode(error.message); }
} else {
  await known();
  if (secret()) await show(); else askForTheCode();
}
