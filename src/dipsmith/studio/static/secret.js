// The pages' secret: kept for this tab and this origin alone, and sent in a header with every request.
// A new tab asks the tabs of the same origin that are open; no other port, host or site can listen there.
const KEPT = 'dipsmith-secret';
const tabs = new BroadcastChannel('dipsmith-tabs');

export const secret = () => sessionStorage.getItem(KEPT);
export const keep = (found) => sessionStorage.setItem(KEPT, found);
export const forget = () => sessionStorage.removeItem(KEPT);

tabs.addEventListener('message', ({ data }) => {
  if (data === 'asks' && secret()) tabs.postMessage({ secret: secret() });
});

export function askOtherTabs(patience = 250) {
  return new Promise((resolve) => {
    const end = setTimeout(() => resolve(null), patience);
    tabs.addEventListener('message', ({ data }) => {
      if (!data.secret) return;
      clearTimeout(end);
      resolve(data.secret);
    });
    tabs.postMessage('asks');
  });
}

export function send(address, options = {}) {
  return fetch(address, { credentials: 'same-origin', cache: 'no-store', ...options, headers: { 'X-Dipsmith-Token': secret() ?? '', ...options.headers } });
}

// The one sentence of a page that refuses.
export const sentence = (text) => new DOMParser().parseFromString(text, 'text/html').querySelector('main .lead')?.textContent ?? '';

// What a page shows or saves is fetched with the header too: a plain address would bring nothing.
export async function fetched(address) {
  const answer = await send(address);
  if (!answer.ok) throw new Error(sentence(await answer.text()) || `refused (${answer.status})`);
  return answer;
}
