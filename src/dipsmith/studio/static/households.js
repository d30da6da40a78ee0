// Households: which project has the members, the column that joins both tables, how many count, and their order.
import { el, node } from './page.js';

const options = (list, value, none) => [...(none === undefined ? [] : [node('option', { value: '' }, none)]), ...list.map(([id, words]) => node('option', { value: id, selected: id === value }, words))];
const fill = (id, made) => { if (document.activeElement !== el(id)) el(id).replaceChildren(...made); };

export function showHouseholds(held, draft) {
  const homes = ['household', 'person'].includes(draft.unit), people = held.others.find((p) => p.id === draft.members?.project);
  const shared = people ? held.columns.filter((c) => people.columns.includes(c)) : held.columns;
  for (const radio of document.querySelectorAll('input[name=unit][value=household]')) { radio.checked = homes; radio.disabled = !homes && !held.others.length; }
  el('home-none').hidden = held.others.length > 0;
  el('home-project').hidden = !held.others.length;
  el('home-more').hidden = !homes;
  if (homes) el('home-protects').value = draft.unit;
  fill('home-project', options(held.others.map((p) => [p.id, `${p.id} (${p.data.split('/').pop()})`]), draft.members?.project, 'choose …'));
  fill('home-key', options(shared.map((c) => [c, c]), draft.key, 'choose …'));
  fill('home-order', options((people?.columns ?? []).filter((c) => c !== draft.key).map((c) => [c, c]), draft.order, 'no column'));
  if (document.activeElement !== el('home-most')) el('home-most').value = draft.max_members ?? 8;
}

export function chooseHouseholds(held, draft) {
  const joined = (p) => p.columns.filter((c) => held.columns.includes(c));
  const people = held.others.find((p) => p.id === el('home-project').value) ?? held.others.find((p) => joined(p).length);
  const key = el('home-key').value || (people && joined(people)[0]);
  draft.unit = el('home-protects').value;
  draft.members = { ...draft.members, ...(people ? { project: people.id } : {}) };
  draft.max_members = Number(el('home-most').value) || el('home-most').value;
  if (key) draft.key = key;
  if (el('home-order').value) draft.order = el('home-order').value; else delete draft.order;
}

export function leaveHouseholds(draft) {
  for (const name of ['members', 'key', 'max_members', 'order']) delete draft[name];
}
