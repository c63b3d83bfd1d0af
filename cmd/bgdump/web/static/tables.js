// The tables of nodes and of edges.

import { h, named, setText } from './dom.js';
import { duration, quantile, count, rate, percent, amount, signed, words } from './format.js';
import { spark } from './hist.js';
import { Table } from './table.js';
import { nodeTip, edgeTip, share, heatScale } from './tips.js';

// below is what stands below the name of a place: which functions lead there, or where it is.
function below(place) {
  return place.chain ? `${place.chain} · ${place.where}` : place.where || place.reason;
}

function nameCell(name, where) {
  return (td, row) => {
    const text = name(row), small = where(row);
    if (td.shown === text + '\0' + small) return;
    td.shown = text + '\0' + small;
    td.replaceChildren(named(text, 'name'), h('small', {}, small));
  };
}

function histCell(times) {
  return (td, row) => {
    const hist = times(row).hist, key = hist.join();
    if (td.shown === key) return;
    td.shown = key;
    td.replaceChildren(spark(hist));
  };
}

function barCell(value, text, level, palette = '') {
  return (td, row) => {
    if (!td.bar) {
      td.bar = h('i', { class: 'bar' });
      td.figure = h('span');
      td.replaceChildren(td.bar, td.figure);
    }
    const v = value(row);
    td.bar.style.width = `${Math.round(44 * Math.min(Math.max(v, 0), 1))}px`;
    td.bar.className = `bar heat-${level(row)} ${palette}`;
    setText(td.figure, text(v));
  };
}

const number = (id, title, hint, value, text) => ({ id, title, hint, value, text: row => text(value(row)), number: true });

// inWords says of goroutines what is said of tasks.
const inWords = (columns, graph) => columns.map(c => ({ ...c, hint: c.hint.replaceAll('task', words(graph).task) }));

export function nodeColumns(graph) {
  const heats = heatScale(graph, 'cpu');
  const delta = number('delta', '±', 'change in the number of tasks waiting since the moment compared with', n => n.now - n.was, v => signed(v, count));
  return inWords([
    { id: 'name', title: 'Node', hint: 'where tasks wait', value: n => n.name, heading: true, class: 'names', cell: nameCell(n => n.name, n => below(n.place)) },
    number('now', 'Now', 'tasks there now', n => n.now, count),
    number('waiting', 'Waiting', 'tasks there on average; now, if that are more', n => n.waiting, rate),
    ...(graph.compared ? [delta] : []),
    number('peak', 'Peak', 'most tasks there at a time, at most', n => n.peak, count),
    number('rate', 'Per s', 'arrivals per second', n => n.inRate, rate),
    number('wait', 'Wait', 'mean time waited', n => n.wait.mean, duration),
    { ...number('wait99', 'p99', '99 of 100 waits were at most so long', n => n.wait.p99, duration), text: n => quantile(n.wait.n, n.wait.p99) },
    { id: 'waits', title: 'Waits', hint: 'histogram of the times waited, from 32 ns to 34 s', class: 'spark', cell: histCell(n => n.wait) },
    { id: 'cpu', title: 'CPU', hint: 'share of the CPU time of all steps: those that begin here', number: true, class: 'number bars', value: n => n.cpu,
      cell: barCell(n => share(n.cpu, graph.cpuTotal), percent, heats.node) },
    number('ready', 'Ready', 'mean time from being ready to running', n => n.ready.mean, duration),
    { ...number('ready99', 'p99', '99 of 100 times between ready and running were at most so long', n => n.ready.p99, duration), text: n => quantile(n.ready.n, n.ready.p99) },
    { id: 'waitshare', title: 'Wait share', hint: 'share of the time that all tasks waited', number: true, class: 'number bars', value: n => n.waitTotal,
      cell: barCell(n => share(n.waitTotal, graph.waitTotal), percent, heatScale(graph, 'wait').node, 'by-wait') },
    number('oldest', 'Oldest', 'how long the one that has been there longest has waited', n => n.oldest, duration),
  ], graph);
}

export function edgeColumns(graph) {
  const heats = heatScale(graph, 'cpu');
  const resources = (graph.state.resources || []).map((r, i) => number(`resource${i}`, r.name, `mean change of ${r.name} per step`,
    e => e.changes[i] && e.changes[i][0] ? e.changes[i][1] / e.changes[i][0] : 0, v => v ? signed(v, x => amount(x, r.unit)) : '0'));
  return inWords([
    { id: 'from', title: 'From', hint: 'where the task had waited', value: e => e.from.name, heading: true, class: 'names', cell: nameCell(e => e.from.name, e => below(e.from)) },
    { id: 'to', title: 'To', hint: 'where it waited next', value: e => e.to.name, class: 'names', cell: nameCell(e => e.to.name, e => below(e.to)) },
    number('count', 'Steps', 'in the period', e => e.count, count),
    number('rate', 'Per s', 'steps per second', e => e.rate, rate),
    number('cpu', 'CPU', 'mean CPU time of a step', e => e.cpu.mean, duration),
    { id: 'times', title: 'Steps by CPU', hint: 'histogram of the CPU time of a step, from 32 ns to 34 s', class: 'spark', cell: histCell(e => e.cpu) },
    { id: 'total', title: 'Share', hint: 'share of the CPU time of all steps', number: true, class: 'number bars', value: e => e.total,
      cell: barCell(e => share(e.total, graph.cpuTotal), percent, heats.edge) },
    { ...number('p99', 'p99', '99 of 100 steps were at most so long', e => e.cpu.p99, duration), text: e => quantile(e.cpu.n, e.cpu.p99) },
    number('max', 'Longest', 'the longest step', e => e.cpu.max, duration),
    number('recent', 'Recent', 'CPU time of a step, the latest counting most', e => e.recent, duration),
    ...(graph.state.kind === 'goroutines' ? [] : [
      number('heap', 'Heap', 'bytes allocated per step', e => e.heapMean, v => v ? amount(v, 'bytes') : '0'),
      ...resources,
      number('overruns', 'Overruns', 'steps that the watchdog found too long', e => e.overruns, count)]),
  ], graph);
}

export function nodeTable(app) {
  return new Table({
    caption: 'Nodes: where the program waits', columns: nodeColumns(app.graph), sort: app.sort.nodes,
    keyOf: n => n.key, tip: n => nodeTip(n, app.graph), onOpen: n => app.select({ node: n.key }),
    onSort: sort => app.setSort('nodes', sort),
  });
}

export function edgeTable(app) {
  return new Table({
    caption: 'Edges: steps between two waits', columns: edgeColumns(app.graph), sort: app.sort.edges,
    keyOf: e => e.id, tip: e => edgeTip(e, app.graph), onOpen: e => app.select({ edge: e.id }),
    onSort: sort => app.setSort('edges', sort),
  });
}
