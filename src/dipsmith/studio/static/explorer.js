// The leaf-interval explorer: sliders and two lines to drag; every number comes from the server's exact law.
import { ask, complain, el, state } from './page.js';

const knobs = state().settings;

const size = () => Math.max(10, Math.round(25 * (5000 / 25) ** (Number(el('x-n').value) / 100)));
const round = (n) => (n < 100 ? n : n < 1000 ? 10 * Math.round(n / 10) : 50 * Math.round(n / 50));
let n = 1000;

function query() {
  const q = new URLSearchParams({ p0: el('x-p0').value, lam: el('x-lam').value, n: String(n), width: el('x-width').value, kind: el('x-kind').value, law: el('x-law').value, level: el('x-level').value });
  return q;
}

const KINDS = {
  sym: 'sym: the same distance on both sides of p₀, in whole records, until it holds the level.',
  interp: 'interp: the same, with the distance between two records interpolated, so that it holds the level exactly.',
  equal: 'equal: as many synthetic shares below the interval as above it.',
};

function label() {
  el('x-kind-says').textContent = KINDS[el('x-kind').value];
  el('x-p0-out').textContent = el('x-p0').value;
  el('x-lam-out').textContent = el('x-lam').value;
  el('x-n-out').textContent = n.toLocaleString('en-US');
  el('x-width-out').textContent = el('x-width').value;
  el('x-level-out').textContent = `${Math.round(100 * Number(el('x-level').value))} %`;
  const q = query();
  el('x-csv').href = `/interval.csv?${q}`;
  el('x-svg').href = `/interval.svg?${q}`;
  const law = q.get('law') === 'discrete' ? ' --law discrete' : '', kind = q.get('kind') === 'sym' ? '' : ` --kind ${q.get('kind')}`, level = q.get('level') === '0.9' ? '' : ` --level ${q.get('level')}`;
  el('x-command').textContent = `dipsmith interval --p0 ${q.get('p0')} --lam ${q.get('lam')} --n ${n}${kind}${law}${level}`;
}

function show(found) {
  const i = found.interval;
  el('x-figure').innerHTML = found.svg;
  for (const line of el('x-figure').querySelectorAll('.wanted')) {
    const hit = line.cloneNode();
    hit.setAttribute('class', 'hit');
    line.parentNode.append(hit);
  }
  el('x-says').textContent = `${Math.round(100 * i.level)} % of synthetic shares lie in [${Number(i.lo.toPrecision(5))}, ${Number(i.hi.toPrecision(5))}], width ${Number(i.width.toPrecision(4))}, with ${i.n.toLocaleString('en-US')} records.`;
  el('x-says').dataset.lo = i.lo;
  el('x-says').dataset.hi = i.hi;
  document.documentElement.dataset.explored = String(Number(document.documentElement.dataset.explored || 0) + 1);
}

// Only a method that splits by n_B can use the number.
function offer(method) { el('x-use').hidden = !('n_b' in (knobs[method] || {})) || !el('x-least').dataset.least; }

function least(found) {
  const width = el('x-width').value;
  el('x-least').textContent = found.least === null ? `No leaf of up to a million records is that precise; allow more width or more ε.` : `A width of ${width} needs n ≥ ${found.least.toLocaleString('en-US')} records in every leaf.`;
  el('x-least').dataset.least = found.least ?? '';
  offer(document.querySelector('input[name=method]:checked')?.value);
}

let again = false;
async function redraw() {
  label();
  if (el('x-figure').ariaBusy === 'true') { again = true; return; }
  el('x-figure').ariaBusy = 'true';
  try {
    const q = query();
    show(await ask('GET', `/api/interval?${q}`));
    await new Promise((done) => { setTimeout(done, 60); });
    if (!again) {
      q.set('rows', '1');
      const found = await ask('GET', `/api/interval?${q}`);
      if (!again) { show(found); least(found); }
    }
  } catch (error) { complain(error); } finally {
    el('x-figure').ariaBusy = 'false';
    if (again) { again = false; redraw(); }
  }
}

el('x').addEventListener('submit', (event) => event.preventDefault());
el('x').addEventListener('input', (event) => { if (event.target.id === 'x-n') n = round(size()); redraw(); });
el('x-use').addEventListener('click', () => {
  document.dispatchEvent(new CustomEvent('use-n-b', { detail: 2 * Number(el('x-least').dataset.least) }));
});

let dragging = false;
const figure = el('x-figure');
figure.addEventListener('pointerdown', (event) => { if (event.target.dataset.drag === 'width') { dragging = true; figure.setPointerCapture(event.pointerId); event.preventDefault(); } });
figure.addEventListener('pointermove', (event) => {
  if (!dragging) return;
  const svg = figure.querySelector('svg'), box = svg.getBoundingClientRect();
  const at = ((event.clientY - box.top) / box.height) * svg.viewBox.baseVal.height;
  const { middle, half, most } = svg.dataset;
  const width = 2 * Number(most) * ((at - Number(middle)) / Number(half)) ** 2;
  const slider = el('x-width');
  slider.value = Math.min(Number(slider.max), Math.max(Number(slider.min), width));
  redraw();
});
for (const end of ['pointerup', 'pointercancel']) figure.addEventListener(end, () => { dragging = false; });
// Tied to the plan: its λ, until a slider is moved.
document.addEventListener('planned', ({ detail: { lam } }) => {
  const slider = el('x-lam');
  el('x-tied').textContent = lam === null ? 'This plan has no λ before it is run.' : `λ = ${Number(lam.toPrecision(3))} is that of this plan.`;
  if (lam !== null) slider.value = Math.min(Number(slider.max), Math.max(Number(slider.min), lam));
  redraw();
});
el('x-n').value = Math.round(100 * Math.log(n / 25) / Math.log(200));
label();
