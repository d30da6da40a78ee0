// The editor of impossible combinations: conditions joined by "and".
import { el, node, redraw } from './page.js';

export function rules(form, list, changed) {
  let draft = { fields: [] }, report = { rules: [], columns: [] };

  function values(box) {
    const name = box.querySelector('.r-column').value, how = box.querySelector('.r-how').value;
    const old = box.querySelector('.r-value');
    const labels = report.columns.find((c) => c.name === name)?.labels || [];
    let made;
    if (how === 'is' && labels.length && labels.length < 200) made = node('select', { class: 'r-value', 'aria-label': 'Values', multiple: true, size: Math.min(4, labels.length) }, ...labels.map((l) => node('option', {}, l)));
    else made = node('input', { class: 'r-value', 'aria-label': 'Value', size: 10 });
    made.hidden = how === 'missing';
    old.replaceWith(made);
  }

  function add() {
    const named = draft.fields.map((f) => f.name);
    const column = node('select', { class: 'r-column', 'aria-label': 'Column' }, node('option', { value: '' }, 'column …'), ...named.map((n) => node('option', {}, n)));
    const how = node('select', { class: 'r-how', 'aria-label': 'Condition' }, ...[['is', 'is one of'], ['below', 'is below'], ['above', 'is above'], ['from', 'is at least'], ['to', 'is at most'], ['missing', 'is missing']].map(([v, t]) => node('option', { value: v }, t)));
    const box = node('div', { class: 'condition' }, column, how, node('input', { class: 'r-value', 'aria-label': 'Value', size: 10 }));
    column.addEventListener('change', () => values(box));
    how.addEventListener('change', () => values(box));
    el('conditions').append(box);
  }

  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const never = {};
    for (const box of el('conditions').children) {
      const name = box.querySelector('.r-column').value, how = box.querySelector('.r-how').value, value = box.querySelector('.r-value');
      if (!name) continue;
      const picked = value.multiple ? [...value.selectedOptions].map((o) => o.value) : value.value.split(',').map((v) => v.trim()).filter(Boolean);
      if (how === 'is') never[name] = picked.length === 1 ? picked[0] : picked;
      else if (how === 'missing') never[name] = { ...(typeof never[name] === 'object' ? never[name] : {}), missing: 'true' };
      else never[name] = { ...(typeof never[name] === 'object' && !Array.isArray(never[name]) ? never[name] : {}), [how]: picked.join(',') };
    }
    if (!Object.keys(never).length) return;
    el('conditions').replaceChildren();
    add();
    changed([...(draft.rules || []), { never }]);
  });
  el('more-conditions').addEventListener('click', add);

  return {
    show(document_, report_) {
      const before = draft.fields.length;
      draft = document_; report = report_;
      if (!el('conditions').children.length || (before !== draft.fields.length && !form.contains(document.activeElement))) { el('conditions').replaceChildren(); add(); }
      redraw(list, [draft.rules, report.rules], () => (draft.rules || []).map((rule, i) => {
        const told = report.rules[i] || { text: '', error: '' };
        const remove = node('button', { type: 'button', class: 'quiet' }, 'remove');
        remove.addEventListener('click', () => changed(draft.rules.filter((_, k) => k !== i)));
        return node('li', { class: told.error ? 'error' : '' }, `never: ${told.error || told.text || JSON.stringify(rule.never)} `, remove);
      }));
    },
  };
}
