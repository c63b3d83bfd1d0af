// Keys that work everywhere on the page, and the help that lists them.

import { $ } from './dom.js';
import { hideTip } from './hist.js';
import { remembered, remember } from './address.js';

const tabs = ['graph', 'nodes', 'edges', 'flame', 'findings', 'runtime', 'requests'];

export function listen(app) {
  const help = $('help'), single = $('single-keys');
  single.checked = remembered('keys') !== 'off';
  single.addEventListener('change', () => remember('keys', single.checked ? 'on' : 'off'));
  $('help-button').addEventListener('click', () => help.showModal());
  $('help-close').addEventListener('click', () => help.close());
  help.addEventListener('click', e => { if (e.target === help) help.close(); });

  const keys = {
    '?': () => help.showModal(),
    p: () => app.pause(),
    l: () => app.showMoment(0),
    m: () => app.mark(),
    c: () => app.setColor(app.color === 'cpu' ? 'wait' : 'cpu'),
    n: () => app.nextFinding(),
    w: () => app.setWakes(!app.wakes),
    '/': () => $('focus').focus(),
    '[': () => app.step(-1),
    ']': () => app.step(1),
    d: () => app.panel.title.focus(),
    g: () => document.querySelector(`#panel-${app.tab} [tabindex="0"]`)?.focus(),
  };
  tabs.forEach((tab, i) => { keys[String(i + 1)] = () => { if (!$(`tab-${tab}`).hidden) app.showTab(tab); }; });

  document.addEventListener('keydown', e => {
    if (e.key === 'Escape') {
      escape(app, e);
      return;
    }
    if (e.defaultPrevented || e.altKey || e.ctrlKey || e.metaKey || help.open) return;
    if (e.target.matches('input:not([type=range], [type=radio], [type=checkbox]), select, textarea')) return;
    if (!single.checked) return;
    const act = keys[e.key];
    if (!act) return;
    e.preventDefault();
    act();
  });
}

// escape closes what is uppermost: a description, a menu, the details.
function escape(app, e) {
  if (e.defaultPrevented || $('help').open) return;
  if (hideTip()) return;
  const menu = $('export');
  if (menu.open) {
    menu.open = false;
    menu.firstElementChild.focus();
  } else if (app.sel) app.select(null);
}
