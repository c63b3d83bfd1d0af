// The page: what is shown, and what keys do.

import { $, h, setText, setAttribute, sync } from './dom.js';
import { clock, day, plural, span } from './format.js';
import { hideTip, refreshTip } from './hist.js';
import { Feed, digest, query } from './feed.js';
import { Graph } from './graph.js';
import { nodeTable, edgeTable, nodeColumns, edgeColumns } from './tables.js';
import { Flame } from './flame.js';
import { Timeline } from './timeline.js';
import { Panel } from './panel.js';
import { Findings, Runtime, figures } from './lists.js';
import { Requests } from './requests.js';
import { listen } from './keys.js';
import { restore, save, remembered, remember } from './address.js';
import { Banner } from './banner.js';
import { idOf, isStep } from './marks.js';

const tabs = ['graph', 'nodes', 'edges', 'flame', 'findings', 'runtime', 'requests'];
const shows = { graph: [10, 20, 40, 80, 150, 300, 500], nodes: [25, 50, 100, 250, 2000], edges: [25, 50, 100, 250, 6000] };

class App {
  constructor() {
    Object.assign(this, {
      params: { at: 0, base: 'last:60', focus: '', ignore: '' }, tab: 'graph', color: 'cpu', metric: 'cpu', wakes: false, sel: null,
      show: { graph: 40, nodes: 50, edges: 50 },
      sort: { nodes: { column: 'waiting', down: true }, edges: { column: 'total', down: true } },
    });
    restore(this, tabs);
    this.graph = digest({ source: {}, moments: { id: [], taken: [], tasks: [], steps: [] } }, new Map());
    this.views = { graph: new Graph(this), nodes: nodeTable(this), edges: edgeTable(this), flame: new Flame(this), findings: new Findings(this), runtime: new Runtime(this), requests: new Requests(this) };
    for (const [name, view] of Object.entries(this.views)) $(`panel-${name}`).append(view.element);
    this.timeline = new Timeline(this);
    $('timeline').append(this.timeline.element);
    this.panel = new Panel(this);
    $('main').append(this.panel.element);
    this.banner = new Banner($('banner'), $('status'));
    this.feed = new Feed(() => ({ ...this.params, want: this.tab === 'runtime' ? 'overruns' : '' }), s => this.onState(s), e => this.onTrouble(e));
    this.controls();
    listen(this);
    this.showTab(this.tab);
    this.feed.now();
  }

  onState(state) {
    this.banner.state(state);
    this.lastState = state;
    if (!this.refused) $('filter-error').hidden = true;
    this.accepted = { focus: this.params.focus, ignore: this.params.ignore };
    if (!state.program) return;
    if (this.era !== undefined && this.era !== this.feed.era) this.restarted();
    this.era = this.feed.era;
    this.graph = digest(state, this.feed.places);
    document.body.classList.add('ready');
    this.render();
  }

  restarted() {
    if (this.params.at || /^\d+$/.test(this.params.base)) {
      this.params = { ...this.params, at: 0, base: /^\d+$/.test(this.params.base) ? 'last:60' : this.params.base };
      this.feed.now();
    }
    if (this.lastState.kind !== 'goroutines') this.banner.say('The program was started anew; so is its history here.');
  }

  onTrouble(error) {
    if (error.status === 400) {
      $('filter-error').textContent = error.message;
      $('filter-error').hidden = false;
      this.params = { ...this.params, ...(this.accepted || { focus: '', ignore: '' }) };
      this.refused = true; // until the filter is changed
      return;
    }
    this.banner.lost(error);
  }

  render() {
    const { state } = this.graph, p = state.program;
    setText($('program'), p.name);
    setText($('run'), state.kind === 'goroutines' ? `a trace of ${span(state.span)}${state.taken ? `, up to ${day(state.taken)} ${clock(state.taken)}` : ''}`
      : `process ${p.pid} on ${p.host} · ${p.go} · since ${day(Date.parse(p.started))} ${clock(Date.parse(p.started))}${state.source.still ? `, as it was at ${clock(state.taken)}` : ''}`);
    setText($('source'), state.source.name);
    document.title = `${p.name} — blocking graph`;
    document.body.classList.toggle('trace', state.kind === 'goroutines');
    document.body.classList.toggle('only', Boolean(state.source.still) && state.moments.id.length < 2);
    const paused = this.params.at !== 0;
    setAttribute($('pause'), 'aria-pressed', String(paused));
    setText($('pause').lastElementChild, paused ? 'Resume' : 'Pause');
    document.body.classList.toggle('paused', paused);
    $('tab-requests').hidden = !state.slowest && this.tab !== 'requests';
    this.renderFigures();
    this.timeline.update();
    this.renderChoices();
    this.renderView();
    this.panel.update();
    refreshTip();
    save(this);
  }

  renderFigures() {
    sync($('figures'), figures(this), f => f.id, f => {
      const parts = [h('span', { class: 'title' }, f.title), h('strong', {}), h('small', {})];
      return f.tab ? h('button', { type: 'button', class: 'figure', onClick: () => this.showTab(f.tab) }, ...parts) : h('div', { class: 'figure' }, ...parts);
    }, (e, f) => {
      setText(e.children[1], f.value);
      setText(e.children[2], f.hint);
      setAttribute(e, 'data-level', f.level || null);
    });
    const found = (this.graph.state.findings || []).length;
    setText($('found'), found ? String(found) : '');
  }

  renderChoices() {
    const { base } = this.params;
    const manual = /^\d+$/.test(base);
    const at = manual ? this.graph.state.moments.id.indexOf(Number(base)) : -1;
    setText($('marked'), at >= 0 ? `since ${clock(this.graph.state.moments.taken[at])}` : 'since a chosen moment');
    $('period').value = manual ? 'moment' : base;
    for (const input of document.querySelectorAll('input[name=color]')) input.checked = input.value === this.color;
    const limits = shows[this.tab];
    $('show-label').hidden = !limits;
    if (limits && $('show').dataset.tab !== this.tab) {
      $('show').dataset.tab = this.tab;
      $('show').replaceChildren(...limits.map((n, i) => h('option', { value: String(n) }, n >= 2000 ? 'all' : String(n))));
    }
    if (limits) $('show').value = String(this.show[this.tab]);
    $('color-choice').hidden = this.tab !== 'graph';
    $('wakes-choice').hidden = this.tab !== 'graph' || !this.graph.nodes.some(n => n.wakers.some(w => w[2]));
    $('wakes').checked = this.wakes;
    for (const link of document.querySelectorAll('#export a')) {
      link.href = `api/export?${query({ ...this.params, at: this.graph.state.at, format: link.dataset.format, color: this.color, metric: this.metric })}`;
    }
  }

  renderView() {
    const { graph, tab } = this, view = this.views[tab];
    if (tab === 'nodes' || tab === 'edges') {
      view.setColumns(tab === 'nodes' ? nodeColumns(graph) : edgeColumns(graph));
      const rows = tab === 'nodes' ? graph.nodes : graph.edges;
      view.show(rows, this.sort[tab], this.show[tab], tab === 'nodes' ? this.sel?.node : this.sel?.edge);
      const hidden = graph.state.hidden?.[tab] || 0;
      const shown = Math.min(rows.length, this.show[tab]), all = rows.length + hidden;
      setText($(`more-${tab}`), shown < all ? `${shown} of ${plural(all, tab === 'nodes' ? 'node' : 'edge')}${hidden ? `; ${hidden} of them only with a filter` : ''}` : plural(all, tab === 'nodes' ? 'node' : 'edge'));
    } else view.update();
  }

  showTab(tab) {
    this.tab = tab;
    hideTip();
    for (const name of tabs) {
      const on = name === tab, button = $(`tab-${name}`);
      setAttribute(button, 'aria-selected', String(on));
      button.tabIndex = on ? 0 : -1;
      if (on) $('tabs').scrollLeft = button.offsetLeft - $('tabs').offsetLeft - 40;
      $(`panel-${name}`).hidden = !on;
    }
    document.body.dataset.tab = tab;
    if (!this.lastState?.program) return;
    this.render();
    if (tab === 'runtime') this.feed.now();
  }

  // select shows details; move takes the focus along, as what had it may be gone.
  select(sel, move) {
    const before = this.sel;
    this.sel = sel;
    hideTip();
    if (!this.lastState?.program) return;
    this.render();
    if (this.tab === 'graph') {
      this.views.graph.light();
      if (sel) this.bringIntoView(sel);
    }
    if (sel && (move || matchMedia('(max-width: 1099px)').matches)) {
      this.panel.title.focus({ preventScroll: true });
      if (matchMedia('(max-width: 1099px)').matches) this.panel.element.scrollTop = 0;
    } else if (sel) this.panel.element.scrollTop = 0;
    else if (before) this.focusOn(before);
  }

  // bringIntoView shows a node or an edge in the graph, and the graph in the window.
  bringIntoView(sel) {
    const { graph } = this.views;
    if (matchMedia('(max-width: 1099px)').matches) scrollBy(0, graph.viewport.getBoundingClientRect().top);
    graph.show(sel);
  }

  // focusOn gives the focus back to what the details were about.
  focusOn(sel) {
    const inside = document.activeElement === document.body || this.panel.element.contains(document.activeElement);
    if (!inside) return;
    if (this.tab === 'graph' && sel.node) this.views.graph.goTo(sel.node);
    else document.querySelector(`#panel-${this.tab} [tabindex="0"]`)?.focus();
  }

  nameOf(sel) {
    const keys = sel.node ? [sel.node] : sel.edge.split('-');
    const places = [...this.feed.places.values()];
    return keys.map(k => places.find(p => p.key === k)?.name || k).join(' → ');
  }

  // showFinding brings what a finding is about into view: a node or a step of the graph, or, if it is about the
  // program as a whole, its words.
  showFinding(f) {
    this.lastFinding = idOf(f);
    if (!f.from) {
      this.showTab('findings');
      this.views.findings.goTo(f);
      return;
    }
    const from = this.graph.placeOf(f.from), to = isStep(f) && this.graph.placeOf(f.to);
    if (this.params.focus || this.params.ignore) this.dropFilters(); // they may hide it
    if (this.tab !== 'graph') this.showTab('graph');
    this.select(to ? { edge: `${from.key}-${to.key}` } : { node: from.key }, true);
  }

  // showRequest shows the timeline of one of the slowest requests.
  showRequest(n) {
    this.showTab('requests');
    this.views.requests.choose(n, true);
    if (matchMedia('(max-width: 1099px)').matches) $('panel-requests').scrollIntoView();
  }

  // nextFinding shows the finding after the last one shown that is about something drawn.
  nextFinding() {
    const all = (this.graph.state.findings || []).filter(f => f.from);
    if (all.length) this.showFinding(all[(all.findIndex(f => idOf(f) === this.lastFinding) + 1) % all.length]);
  }

  dropFilters() {
    for (const name of ['focus', 'ignore']) $(name).value = '';
    this.change({ focus: '', ignore: '' });
  }

  change(params) {
    if ('focus' in params || 'ignore' in params) this.refused = false;
    this.params = { ...this.params, ...params };
    this.feed.now();
  }

  showMoment(id) {
    this.change({ at: id });
  }

  setBase(base) {
    this.change({ base });
  }

  setSort(table, sort) {
    this.sort[table] = sort;
    this.render();
  }

  setMetric(metric) {
    this.metric = metric;
    this.render();
  }

  setColor(color) {
    this.color = color;
    this.render();
  }

  setWakes(on) {
    this.wakes = on;
    this.render();
  }

  pause() {
    this.showMoment(this.params.at ? 0 : this.graph.state.at || 0);
    this.banner.say(this.params.at ? 'Paused. What is shown does not change.' : 'Live again.');
  }

  // mark makes the moment shown the one to compare with.
  mark() {
    const { id } = this.graph.state.moments, at = this.graph.state.at;
    if (!at) return;
    this.change({ base: String(at), at: id.at(-1) === at || this.params.at ? 0 : this.params.at });
    this.banner.say(`Comparing with ${clock(this.graph.state.taken)} from now on.`);
  }

  step(by) {
    const { id } = this.graph.state.moments;
    if (!id.length) return;
    const i = Math.min(Math.max(id.indexOf(this.graph.state.at) + by, 0), id.length - 1);
    this.showMoment(i === id.length - 1 ? 0 : id[i]);
  }

  controls() {
    $('pause').addEventListener('click', () => this.pause());
    $('mark').addEventListener('click', () => this.mark());
    $('period').addEventListener('change', () => {
      const { id } = this.graph.state.moments, value = $('period').value;
      this.setBase(value === 'moment' ? String(id[0] || 'start') : value);
    });
    for (const name of ['focus', 'ignore']) {
      const input = $(name);
      input.value = this.params[name];
      let timer;
      input.addEventListener('input', () => {
        clearTimeout(timer);
        timer = setTimeout(() => this.change({ [name]: input.value }), 200);
      });
      input.addEventListener('keydown', e => {
        if (e.key === 'Escape' && input.value) {
          e.stopPropagation();
          input.value = '';
          this.change({ [name]: '' });
        }
      });
    }
    $('filters').addEventListener('submit', e => e.preventDefault());
    $('show').addEventListener('change', () => {
      this.show[this.tab] = Number($('show').value);
      this.render();
    });
    for (const input of document.querySelectorAll('input[name=color]')) input.addEventListener('change', () => this.setColor(input.value));
    $('wakes').addEventListener('change', () => this.setWakes($('wakes').checked));
    for (const tab of tabs) $(`tab-${tab}`).addEventListener('click', () => this.showTab(tab));
    $('tabs').addEventListener('keydown', e => this.tabKeys(e));
    $('theme').value = remembered('theme') || 'auto';
    const theme = () => {
      document.documentElement.dataset.theme = $('theme').value;
      remember('theme', $('theme').value);
    };
    $('theme').addEventListener('change', theme);
    theme();
  }

  tabKeys(e) {
    const there = tabs.filter(tab => !$(`tab-${tab}`).hidden), at = there.indexOf(this.tab);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: there.length - 1 }[e.key];
    if (to === undefined || e.altKey || e.ctrlKey || e.metaKey) return;
    e.preventDefault();
    const tab = there[(to + there.length) % there.length];
    this.showTab(tab);
    $(`tab-${tab}`).focus();
  }
}

new App();
