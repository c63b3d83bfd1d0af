// What is said about nodes and edges when the pointer or the focus is on them.

import { h, named } from './dom.js';
import { duration, count, rate, percent, plural, words } from './format.js';
import { chart } from './hist.js';

export function nodeTip(node, graph) {
  const figures = [`${plural(node.now, words(graph).task)} waiting`, `${rate(node.inRate)}/s in`, `${percent(share(node.cpu, graph.cpuTotal))} of CPU`];
  if (node.oldest) figures.push(`oldest ${duration(node.oldest)}`);
  return [
    h('header', {}, named(node.name), h('small', {}, node.place.path || node.place.where || node.place.reason)),
    h('p', {}, figures.join(' · ')),
    chart(node.wait, 'Waiting', true),
    chart(node.ready, 'Ready, until it runs', true),
  ];
}

export function edgeTip(edge, graph) {
  const figures = [`${count(edge.count)} steps`, `${rate(edge.rate)}/s`, `${percent(share(edge.total, graph.cpuTotal))} of CPU`];
  if (edge.overruns) figures.push(plural(edge.overruns, 'overrun'));
  return [
    h('header', {}, named(edge.from.name), h('span', { class: 'arrow' }, '→'), named(edge.to.name)),
    h('p', {}, figures.join(' · ')),
    chart(edge.cpu, 'CPU per step', true),
  ];
}

export function share(part, whole) {
  return whole ? part / whole : 0;
}

// heatScale says how colours are given: by the share of CPU, against the largest and by
// the square root, as a few steps use most of it; or by the mean wait, by its logarithm
// from 10 µs to 10 s. There are six levels, from 0.
export function heatScale(graph, color) {
  if (color === 'wait') {
    const level = ns => (ns > 0 ? Math.min(Math.max(Math.ceil(Math.log10(ns) - 5), 0), 5) : 0);
    return { color, node: n => level(n.wait.mean), texts: ['<100 µs', '1 ms', '10 ms', '100 ms', '1 s', '>1 s'] };
  }
  const most = Math.max(...graph.nodes.map(n => n.cpu), 0);
  const level = v => (v > 0 && most > 0 ? Math.min(Math.floor(6 * Math.sqrt(v / most)), 5) : 0);
  const upTo = i => percent(share(most, graph.cpuTotal) * ((i + 1) / 6) ** 2);
  return { color, node: n => level(n.cpu), edge: e => level(e.total), texts: [0, 1, 2, 3, 4, 5].map(i => (i < 5 && !upTo(i).startsWith('<') ? '<' : '') + upTo(i)) };
}

export function nodeHeat(node, scale) {
  return scale.node(node);
}

// An edge that leads to a long wait has the colour of that.
export function edgeHeat(edge, graph, scale) {
  if (scale.edge) return scale.edge(edge);
  const to = graph.byId.get(edge.to.id);
  return to ? scale.node(to) : 0;
}
