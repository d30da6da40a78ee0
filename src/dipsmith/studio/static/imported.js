// A schema file opens as the draft; a data dictionary fills the columns that are not complete yet.
import { ask, complain, el, say, upload } from './page.js';

const many = (n) => `${n.toLocaleString('en')} column${n === 1 ? '' : 's'}`;

async function fromSchema(project, file, page) {
  const found = await ask('POST', `/api/p/${project}/schema/import`, { text: await file.text() });
  page.open(found);
  await page.save();
  const { foreign, document: { fields } } = found;
  say(`Read ${many(fields.length)} from ${file.name}.${foreign.length ? ` Not in the table's header: ${foreign.join(', ')}; leave ${foreign.length === 1 ? 'it' : 'them'} out, or rename.` : ''}`);
}

async function fromDictionary(project, file, page) {
  await page.save();
  const found = await upload(`/api/upload/${project}/dictionary/${encodeURIComponent(file.name)}`, file, () => {});
  page.open(found);
  await page.save();
  const left = found.report.columns.filter((c) => c.error).length;
  say(found.filled.length
    ? `${file.name} describes ${many(found.filled.length)}; no row was read. ${left ? `${many(left)} ${left === 1 ? 'is' : 'are'} left to you.` : 'Look them over before you go on.'}`
    : `${file.name} says nothing of columns that are not complete.`);
}

export function imports(project, page) {
  el('yaml-file').addEventListener('change', async () => {
    const file = el('yaml-file').files[0];
    if (!file) return;
    try {
      await (/\.ya?ml$/i.test(file.name) ? fromSchema : fromDictionary)(project, file, page);
    } catch (error) { complain(error); }
    el('yaml-file').value = '';
  });
}
