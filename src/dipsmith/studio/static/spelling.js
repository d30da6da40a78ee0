// How the cells of a column are written, where that is not plainly: marks of numbers, the format of dates.
import { el } from './page.js';

export const KEYS = ['decimalChar', 'groupChar', 'bareNumber', 'format'];
const timed = (f) => f.type === 'date' || f.type === 'datetime';

export function showSpelling(f) {
  const marks = `${f.decimalChar || '.'}|${f.groupChar || ''}`;
  el('f-marks').value = [...el('f-marks').options].some((o) => o.value === marks) ? marks : '.|';
  el('f-around').checked = String(f.bareNumber) === 'false';
  el('f-format').value = f.format || '';
  el('f-marks-box').hidden = timed(f);
  el('f-format-box').hidden = !timed(f);
}

export function readSpelling(f, put, id) {
  if (timed(f)) {
    for (const key of ['decimalChar', 'groupChar', 'bareNumber']) delete f[key];
    if (id === 'f-format') put(f, 'format', el('f-format').value.trim());
    return;
  }
  delete f.format;
  if (id === 'f-marks') {
    const [decimal, group] = el('f-marks').value.split('|');
    put(f, 'decimalChar', decimal === '.' ? '' : decimal);
    put(f, 'groupChar', group);
  }
  if (id === 'f-around') { if (el('f-around').checked) f.bareNumber = false; else delete f.bareNumber; }
}
