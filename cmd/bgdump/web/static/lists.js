// The lists: what looks wrong, and what the runtime says of itself.

import { h, named, renew, folding } from './dom.js';
import { idOf, isStep } from './marks.js';
import { duration, quantile, count, rate, percent, plural, amount, clock, bytes, words } from './format.js';

export class Findings {
  constructor(app) {
    this.app = app;
    this.element = h('div', { class: 'findings list' });
    this.open = new Set();
  }

  update() {
    const { app } = this, all = app.graph.state.findings || [];
    const key = JSON.stringify(all);
    if (this.key === key) return;
    const parts = all.length ? all.map((f, i) => this.finding(f, i + 1)) : [h('div', { class: 'all-well' }, h('strong', {}, 'Nothing looks wrong.'),
      h('p', {}, 'Checked were: long steps, lock convoys, tasks that pile up or are stuck, leaks, ready tasks that wait, the balance of the loops, and the limits of the graph.'))];
    if (renew(this.element, parts)) this.key = key;
  }

  // goTo gives the focus to the words of a finding.
  goTo(f) {
    const article = [...this.element.children].find(e => e.dataset.ref === idOf(f));
    article?.scrollIntoView({ block: 'nearest' });
    article?.focus({ preventScroll: true });
  }

  finding(f, number) {
    const id = idOf(f);
    return h('article', { class: `finding ${f.severity}`, tabIndex: -1, 'data-ref': id },
      h('header', {}, h('span', { class: 'number-of' }, String(number)), h('span', { class: 'severity' }, f.severity), h('h2', {}, f.check), named(f.name)),
      h('p', {}, f.message, f.at ? h('code', {}, ` ${f.at}`) : ''), f.path ? h('p', {}, h('code', {}, f.path)) : null, h('p', { class: 'advice' }, f.advice),
      f.stack ? folding(this.open, id, h('summary', { 'data-ref': `fold ${id}` }, 'Stack at its end'), h('pre', { 'data-ref': `stack ${id}` }, f.stack)) : null,
      f.from ? h('button', { type: 'button', class: 'plain', 'data-ref': `show ${id}`, onClick: () => this.app.showFinding(f) }, isStep(f) ? 'Show this step' : 'Show this node') : null);
  }
}

function table(caption, heads, rows) {
  return h('div', { class: 'scroll', 'data-ref': `table ${caption}` }, h('table', {}, h('caption', {}, caption), h('thead', {}, h('tr', {}, ...heads.map(([text, number]) => h('th', { scope: 'col', class: number ? 'number' : '' }, text)))),
    h('tbody', {}, ...rows.map(cells => h('tr', {}, ...cells.map((c, i) => h(i ? 'td' : 'th', { scope: i ? undefined : 'row', class: heads[i][1] ? 'number' : '' }, c)))))));
}

// bar heads a column of bars, which show what stands before them.
function bar() {
  return h('span', { class: 'unseen' }, 'as a bar');
}

function meter(share, level) {
  const bar = h('i');
  bar.style.width = `${100 * Math.min(Math.max(share, 0), 1)}%`;
  return h('span', { class: `meter ${level || ''}` }, bar);
}

export class Runtime {
  constructor(app) {
    this.app = app;
    this.element = h('div', { class: 'runtime list' });
    this.open = new Set();
  }

  update() {
    const { app } = this, { graph } = app, { state } = graph;
    renew(this.element, [this.loops(graph), ...(state.kind === 'goroutines' ? [this.starts(graph), this.spans(state), this.pauses(state)]
      : [this.resources(state), this.limits(state), this.sched(state, graph), this.overruns(state, graph)])]);
  }

  loops(graph) {
    const loops = graph.state.loops || [];
    const most = Math.max(...loops.map(l => l[2]), 1);
    return h('section', {}, h('h2', {}, words(graph).loops.replace('loops', 'Loops')), table(words(graph).loop === 'P' ? 'What goroutines run on' : 'One event loop for each processor', [[words(graph).loop.replace('loop', 'Loop')], [words(graph).loop === 'P' ? '' : 'Tasks', true], ['Steps per second', true], [bar()]],
      loops.slice(0, 256).map(l => [String(l[0]) + (l[3] ? ' (rests)' : ''), words(graph).loop === 'P' ? '' : count(l[1]), rate(graph.seconds ? l[2] / graph.seconds : 0), meter(l[2] / most)])));
  }

  starts(graph) {
    const each = n => rate(graph.seconds ? n / graph.seconds : 0);
    const all = graph.state.starts || [], known = all.some(start => start[6] > 0); // of most programs nobody knows what leaked
    return h('section', {}, h('h2', {}, 'Goroutines'), table('By the function with which they began', [['Function'], ['Now', true], ['Created per s', true], ['Ended per s', true], ['CPU', true], ['Mean life', true], ['Oldest', true], ...known ? [['Leaked', true]] : []],
      all.map(([name, now, created, ended, life, oldest, leaked, cpu]) => [named(name), count(now), each(created), each(ended), duration(cpu), duration(life), duration(oldest), ...known ? [count(leaked)] : []])));
  }

  spans(state) {
    if (!state.spans) return '';
    return h('section', {}, h('h2', {}, 'Tasks and regions'), table('Of package runtime/trace', [['Name'], ['Kind'], ['Count', true], ['Mean', true], ['p99', true], ['Longest', true]],
      state.spans.map(([name, kind, n, mean, p99, max]) => [named(name), kind, count(n), duration(mean), quantile(n, p99), duration(max)])));
  }

  pauses(state) {
    const [collections, stops, sum, most, stalls, stalled] = state.pauses;
    return h('section', {}, h('h2', {}, 'Collector'), h('p', {}, `${plural(collections, 'collection')}; their workers used ${duration(state.collector)} of CPU. The world stopped ${count(stops)} times, for ${duration(sum)} in all and ${duration(most)} at most.`),
      stalls ? h('p', {}, `${duration(stalled)} of the CPU time may be the kernel's: ${count(stalls)} times a goroutine had a P for 30 ms or more, where the Go runtime preempts after 10 ms.`) : null);
  }

  resources(state) {
    const all = state.resources || [];
    if (!all.length) return h('section', {}, h('h2', {}, 'Resources'), h('p', { class: 'none' }, 'The program declares none.'));
    return h('section', {}, h('h2', {}, 'Resources'), table('What tasks take and give back', [['Resource'], ['In use', true], ['Limit', true], [bar()], ['Taken', true], ['Given back', true]],
      all.map(r => [named(r.name), amount(r.in_use, r.unit), r.limit ? amount(r.limit, r.unit) : 'none known', r.limit ? meter(r.in_use / r.limit, r.in_use / r.limit > 0.9 ? 'full' : '') : '', amount(r.acquired, r.unit), amount(r.released, r.unit)])));
  }

  limits(state) {
    const o = state.overflow || {};
    const lost = o.nodes || o.edges;
    return h('section', {}, h('h2', {}, 'The graph itself'),
      h('p', {}, `${state.sampling > 1 ? `One wait in ${count(state.sampling)} was timed; counts are exact.` : 'Every wait was timed.'} At most ${count(o.max_nodes || 0)} nodes, and ${count(o.max_edges || 0)} edges for each loop.`),
      lost ? h('p', { class: 'warn' }, `${plural(o.nodes, 'wait')} and ${plural(o.edges, 'step')} found no room there and are in the overflow node.`) : null);
  }

  sched(state, graph) {
    const sched = state.sched;
    if (!sched) return h('section', {}, h('h2', {}, 'Scheduler'), h('p', { class: 'none' }, 'The scheduler does not tell.'));
    return h('section', {}, h('h2', {}, 'Scheduler: ', named(sched.policy)),
      h('p', {}, `${count(sched.admitted)} admitted, ${count(sched.deferred)} deferred, ${count(sched.refused)} refused.`),
      table('Resources that it watches', [['Resource'], ['Utilisation', true], [bar()], ['Per second', true], ['State']],
        (sched.resources || []).map(r => [named(r.name), percent(r.utilisation), meter(r.utilisation, r.state === 'at limit' ? 'full' : r.state === 'rising' ? 'rising' : ''), (r.trend > 0 ? '+' : '') + percent(r.trend), named(r.state)])),
      table('How it ranks nodes', [['Node'], ['Loop', true], ['Priority', true], ['Tickets', true], ['Pass', true], ['Ready', true], ['Held back']],
        (sched.nodes || []).slice(0, 200).map(n => {
          const place = graph.placeOf(n[0]);
          return [h('button', { type: 'button', class: 'plain', 'data-ref': `sched ${n[0]} ${n[1]}`, onClick: () => this.app.select({ node: place.key }) }, named(place.name)), String(n[1]), rate(n[2]), count(n[3]), count(n[4]), count(n[5]), named(n[6] || '')];
        })));
  }

  overruns(state, graph) {
    const reports = [...state.reports || []].reverse();
    const section = h('section', {}, h('h2', {}, 'Watchdog'), reports.length ? null : h('p', { class: 'none' }, 'No step kept its loop too long in this period.'));
    for (const r of reports) {
      const id = `${r.at} ${r.loop} ${r.held}`;
      const from = graph.placeOf(r.from), to = graph.placeOf(r.to);
      section.append(folding(this.open, id,
        h('summary', { 'data-ref': `report ${id}` }, h('strong', {}, duration(r.held)), ` at ${clock(r.at)} on loop ${r.loop}, task `, named(r.task), ': ', named(from.name), ' → ', named(r.to && to.key !== '0000000000000001' ? to.name : 'not ended yet')),
        h('pre', { 'data-ref': `stack ${id}` }, r.stack)));
    }
    return section;
  }
}

// ran tells how many processors goroutines had, and if that may be too much.
function ran(graph, found) {
  const text = `${rate(graph.span ? graph.cpuTotal / graph.span : 0)} processors`;
  return found.some(f => f.check === 'stalled') ? `${text}; ${duration(graph.state.pauses[5])} may be the kernel's` : text;
}

// figures are the numbers at the top of the page.
export function figures(app) {
  const { graph } = app, { state } = graph, loops = state.loops || [], working = loops.filter(l => !l[3]).length;
  const tasks = loops.reduce((sum, l) => sum + l[1], 0);
  const busy = graph.span && working ? graph.cpuTotal / (graph.span * working) : 0;
  const worst = graph.nodes.reduce((a, b) => (b.ready.p99 > a.ready.p99 ? b : a), { ready: { p99: 0 }, name: '' });
  const heap = graph.edges.reduce((sum, e) => sum + e.heapMean * e.count, 0) / (graph.seconds || 1);
  const found = state.findings || [];
  const errors = found.filter(f => f.severity === 'error').length, warnings = found.filter(f => f.severity === 'warning').length;
  const steps = loops.reduce((sum, l) => sum + l[2], 0);
  const { task, tasks: many, loop, loops: where } = words(graph), trace = task !== 'task';
  const now = trace ? state.moments.tasks[state.moments.id.indexOf(state.at)] || 0 : tasks;
  return [
    { id: 'tasks', title: many[0].toUpperCase() + many.slice(1), value: count(now), hint: `on ${plural(working, loop)}${working < loops.length ? `, ${loops.length - working} more at rest` : ''}` },
    { id: 'steps', title: 'Steps per second', value: rate(graph.seconds ? steps / graph.seconds : 0), hint: `${count(steps)} in all` },
    { id: 'cpu', title: `CPU of the ${where}`, value: percent(busy), hint: trace ? ran(graph, found) : 'estimated' },
    { id: 'ready', title: 'Ready to running, p99', value: duration(worst.ready.p99), hint: worst.name || 'not measured' },
    trace ? { id: 'heap', title: 'CPU of the collector', value: percent(graph.span && loops.length ? (state.collector || 0) / (graph.span * loops.length) : 0), hint: 'by its workers' }
      : { id: 'heap', title: 'Heap allocated per s', value: bytes(heap), hint: 'estimated' },
    { id: 'findings', title: 'Findings', value: count(found.length), hint: found.length ? `${plural(errors, 'error')}, ${plural(warnings, 'warning')}` : 'nothing looks wrong', level: errors ? 'error' : warnings ? 'warning' : '', tab: 'findings' },
  ];
}
