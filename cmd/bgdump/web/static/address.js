// What is shown is kept in the address, so that it can be reloaded and passed on;
// preferences are kept by the browser. Neither is trusted when it is read.

const plain = /^(start|last:\d{1,6})$/;

export function restore(app, tabs) {
  const q = new URLSearchParams(location.hash.slice(1));
  const pick = (name, allowed) => (allowed.includes(q.get(name)) ? q.get(name) : null);
  app.tab = pick('tab', tabs) || app.tab;
  app.color = pick('color', ['cpu', 'wait']) || app.color;
  app.metric = pick('metric', ['cpu', 'wait', 'ready', 'count', 'heap']) || app.metric;
  app.wakes = q.get('wakes') === 'on';
  if (plain.test(q.get('base') || '')) app.params.base = q.get('base');
  for (const name of ['focus', 'ignore']) app.params[name] = (q.get(name) || '').slice(0, 1000);
  if (/^[0-9a-f]{16}$/.test(q.get('node') || '')) app.sel = { node: q.get('node') };
  if (/^[0-9a-f]{16}-[0-9a-f]{16}$/.test(q.get('edge') || '')) app.sel = { edge: q.get('edge') };
  for (const name of ['graph', 'nodes', 'edges']) {
    const n = Number(q.get(`show-${name}`));
    if (n >= 1 && n <= 6000) app.show[name] = n;
    const sort = /^(-?)([a-z]+\d*)$/.exec(q.get(`sort-${name}`) || '');
    if (sort && name !== 'graph') app.sort[name] = { column: sort[2], down: sort[1] === '-' };
  }
}

const usual = { tab: 'graph', color: 'cpu', metric: 'cpu', base: 'last:60', 'show-graph': '40', 'show-nodes': '50', 'show-edges': '50', 'sort-nodes': '-waiting', 'sort-edges': '-total' };

export function save(app) {
  const q = new URLSearchParams();
  const put = (name, value) => { if (value && usual[name] !== String(value)) q.set(name, value); };
  put('tab', app.tab);
  put('color', app.color);
  put('metric', app.metric);
  put('wakes', app.wakes && 'on');
  if (plain.test(app.params.base)) put('base', app.params.base);
  put('focus', app.params.focus);
  put('ignore', app.params.ignore);
  put('node', app.sel?.node);
  put('edge', app.sel?.edge);
  for (const name of ['graph', 'nodes', 'edges']) {
    put(`show-${name}`, app.show[name]);
    const sort = app.sort[name];
    if (sort) put(`sort-${name}`, (sort.down ? '-' : '') + sort.column);
  }
  const hash = q.size ? '#' + q : '';
  if (hash !== location.hash) history.replaceState(null, '', hash || location.pathname);
}

// Storage may be forbidden; then nothing is remembered.
export function remembered(name) {
  try {
    return localStorage.getItem(`bgdump-${name}`);
  } catch {
    return null;
  }
}

export function remember(name, value) {
  try {
    localStorage.setItem(`bgdump-${name}`, value);
  } catch {
    // nothing is lost that matters
  }
}
