// What every page shares: asking the server, saying what went wrong, copying the command.
import { fetched, secret, send, sentence } from './secret.js';

export async function ask(method, address, body) {
  let answer;
  try {
    answer = await send(address, {
      method,
      headers: body === undefined ? {} : { 'Content-Type': 'application/json' },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new Error('The studio does not answer: is it still running? Jobs go on without it.');
  }
  const text = await answer.text();
  let found = {};
  try { found = JSON.parse(text); } catch { found = { error: sentence(text) }; }
  if (!answer.ok) throw Object.assign(new Error(found.error || `refused (${answer.status})`), { confirm: found.confirm });
  return found;
}

export function upload(address, file, progress) {
  return new Promise((resolve, reject) => {
    const sending = new XMLHttpRequest();
    sending.open('PUT', address);
    sending.setRequestHeader('X-Dipsmith-Token', secret());
    sending.upload.onprogress = (e) => progress(e.loaded / Math.max(e.total, 1));
    sending.onload = () => {
      let found = {};
      try { found = JSON.parse(sending.responseText); } catch { /* a refusal in words */ }
      if (sending.status === 200) resolve(found); else reject(new Error(found.error || `refused (${sending.status})`));
    };
    sending.onerror = () => reject(new Error('The upload was refused or interrupted.'));
    sending.send(file);
  });
}

export const el = (id) => document.getElementById(id);

// Where it happened: above what was used last, in the flow of the page, so that it covers nothing.
function bring(place) {
  const main = el('main');
  let before = main.contains(document.activeElement) ? document.activeElement.closest('form, section, details, #job-list') : null;
  while (before && before !== main && getComputedStyle(before.parentElement).display !== 'block') before = before.parentElement;
  if (before && before !== main) before.before(place); else main.prepend(place);
}

export function say(text, wrong = false) {
  const place = el('says');
  if (place.textContent !== text && text) bring(place);
  place.textContent = text;
  place.classList.toggle('error', wrong);
  if (text) place.scrollIntoView({ block: 'nearest' });
}

export const complain = (error) => say(error.message, true);

export const state = () => JSON.parse(el('state').textContent);

export function node(tag, attributes = {}, ...inside) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === 'class') made.className = value;
    else if (value === true) made.setAttribute(name, '');
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...inside.filter((part) => part !== null && part !== undefined));
  return made;
}

// Draw a list anew only if what it says has changed: a button that is drawn anew loses the focus.
const drawn = new WeakMap();
export function redraw(place, told, make) {
  const says = JSON.stringify(told);
  if (drawn.get(place) === says) return;
  drawn.set(place, says);
  place.replaceChildren(...make());
}

export function number(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return '–';
  if (Number.isInteger(value)) return value.toLocaleString('en-US');
  if (Math.abs(value) >= 1000) return Math.round(value).toLocaleString('en-US');
  return Number(value.toPrecision(3)).toString();
}

export function table(columns, rows, caption = '') {
  const head = node('tr', {}, ...columns.map(([name, right]) => node('th', { scope: 'col', class: right ? 'n' : '' }, name)));
  const body = rows.map((row) => node('tr', {}, ...row.map((cell, i) => node('td', { class: columns[i][1] ? 'n' : '' }, cell instanceof Node ? cell : String(cell)))));
  return node('table', {}, caption ? node('caption', {}, caption) : null, node('thead', {}, head), node('tbody', {}, ...body));
}

const SVG = 'http://www.w3.org/2000/svg';
export function bar(share, words) {
  const drawn = document.createElementNS(SVG, 'svg');
  drawn.setAttribute('class', 'share'); drawn.setAttribute('viewBox', '0 0 100 6'); drawn.setAttribute('preserveAspectRatio', 'none');
  drawn.setAttribute('role', 'img'); drawn.setAttribute('aria-label', words);
  for (const [kind, width] of [['whole', 100], ['part', 100 * Math.min(share, 1)]]) {
    const piece = document.createElementNS(SVG, 'rect');
    piece.setAttribute('class', kind); piece.setAttribute('width', width); piece.setAttribute('height', 6);
    drawn.append(piece);
  }
  return drawn;
}

export function time(seconds) {
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

export function sortable(root) {
  root.querySelectorAll('th button').forEach((button) => button.addEventListener('click', () => {
    const th = button.parentNode, body = th.closest('table').tBodies[0], at = th.cellIndex;
    const up = th.getAttribute('aria-sort') !== 'ascending';
    th.closest('tr').querySelectorAll('th').forEach((other) => other.removeAttribute('aria-sort'));
    th.setAttribute('aria-sort', up ? 'ascending' : 'descending');
    const key = (row) => { const exact = row.cells[at].getAttribute('data-v'); return exact === null ? row.cells[at].textContent : parseFloat(exact); };
    [...body.rows].sort((a, b) => {
      const [x, y] = [key(a), key(b)];
      const order = typeof x === 'number' && typeof y === 'number' ? x - y : String(x).localeCompare(String(y), undefined, { numeric: true });
      return up ? order : -order;
    }).forEach((row) => body.append(row));
  }));
}

document.addEventListener('click', async (event) => {
  const button = event.target.closest('[data-copy]');
  if (!button) return;
  const from = el(button.dataset.copy);
  try {
    await navigator.clipboard.writeText(from.textContent);
  } catch {
    getSelection().selectAllChildren(from);
    document.execCommand('copy');
  }
  const said = button.textContent;
  button.textContent = 'Copied';
  setTimeout(() => { button.textContent = said; }, 1500);
});

// Images inside figures, which a browser would ask for without the secret.
export function pictures(root) {
  root.querySelectorAll('image[data-src]').forEach(async (image) => {
    try {
      image.setAttribute('href', URL.createObjectURL(await (await fetched(image.dataset.src)).blob()));
    } catch (error) { complain(error); }
  });
}

document.addEventListener('click', async (event) => {
  const link = event.target.closest('a[download]');
  if (!link || link.href.startsWith('blob:')) return;
  event.preventDefault();
  try {
    const answer = await fetched(link.href);
    const named = /filename="([^"]+)"/.exec(answer.headers.get('Content-Disposition') ?? '');
    const file = URL.createObjectURL(await answer.blob());
    node('a', { href: file, download: named ? named[1] : 'download' }).click();
    setTimeout(() => URL.revokeObjectURL(file), 60_000);
  } catch (error) { complain(error); }
});
