// How a range is cut into bins, how values are drawn within one, and bins that the server proposes from the bounds.
import { el } from './page.js';

const WAYS = ['width', 'count', 'round', 'edges'];
const number = (f) => f.type === 'number' || f.type === 'integer';

export function showBins(f) {
  const cut = WAYS.find((way) => f.bins?.[way] !== undefined) || '';
  el('f-cut').value = cut;
  el('f-cut-at').value = cut ? [].concat(f.bins[cut]).join(', ') : '';
  el('f-law').value = f.bins?.law === 'log' ? 'log' : '';
  el('f-step').value = f.precision ?? '';
  showFit(f);
}

// Which of these fields go with what is there already.
function showFit(f) {
  el('f-law-box').hidden = !number(f) || !f.bins;
  el('f-step-box').hidden = f.type !== 'number';
}

export function readBins(f, put, id) {
  const at = el('f-cut-at').value.trim(), cut = el('f-cut').value, law = el('f-law').value;
  if (id.startsWith('f-cut')) put(f, 'bins', cut && at ? { [cut]: cut === 'edges' ? at.split(/[,;\s]+/) : at } : null);
  if (f.bins) put(f.bins, 'law', law);
  if (id === 'f-step') put(f, 'precision', el('f-step').value.trim());
  showFit(f);
}

export function showProposal(told) {
  el('f-proposal').hidden = !told?.proposal;
  el('f-proposal-says').textContent = told?.proposal?.reason ?? '';
}

export function takeProposal(f, told) {
  Object.assign(f, told.proposal.keys);
  showBins(f);
}
