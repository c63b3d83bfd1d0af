// What is drawn: the boxes and lines of the layout, with the figures of now.

// fold gives the figures of the graph to boxes and lines. Nodes that have no box of
// their own are in the one with id 0.
export function fold(layout, graph) {
  const drawn = new Set(layout.nodes.map(n => n.id));
  const boxOf = id => (drawn.has(id) ? id : 0);
  const others = { ...empty, id: 0, key: '', name: 'others', edgesIn: [], edgesOut: [], loops: [], wakers: [] };
  let left = graph.state.hidden?.nodes || 0;
  for (const n of graph.nodes) {
    if (drawn.has(n.id)) continue;
    left++;
    others.now += n.now;
    others.waiting += n.waiting;
    others.inRate += n.inRate;
  }
  const nodes = layout.nodes.map(n => ({ ...n, node: n.id ? graph.byId.get(n.id) || idle(n.id, graph) : others }));
  const sums = new Map();
  for (const e of graph.edges) {
    const from = boxOf(e.from.id), to = boxOf(e.to.id), id = `${from}-${to}`;
    const sum = sums.get(id);
    if (!sum) sums.set(id, from && to ? e : { ...e, id: '', name: 'to or from nodes that are not drawn' });
    else {
      sum.count += e.count;
      sum.rate += e.rate;
      sum.total += e.total;
    }
  }
  let most = 1;
  for (const e of sums.values()) {
    most = Math.max(most, e.count);
    if (!e.id) e.cpu = { ...none, mean: e.total / e.count || 0 };
  }
  const edges = layout.edges.map(e => {
    const edge = sums.get(`${e.from}-${e.to}`);
    return { ...e, id: `${e.from}-${e.to}`, edge, width: edge ? 1.4 + 5.6 * Math.sqrt(edge.count / most) : 1 };
  });
  return { nodes, edges, others: left, idOf: key => graph.byKey.get(key)?.id ?? [...graph.places.values()].find(p => p.key === key)?.id };
}

const none = { n: 0, sum: 0, max: 0, p50: 0, p99: 0, mean: 0, hist: [] };
const empty = { now: 0, waiting: 0, was: 0, peak: 0, in: 0, out: 0, inRate: 0, outRate: 0, wait: none, ready: none, oldest: 0, cpu: 0, waitTotal: 0 };

// idle stands for a node where nothing happened in the period.
function idle(id, graph) {
  const place = graph.placeOf(id);
  return { ...empty, id, place, key: place.key, name: place.name, idle: true, loops: [], wakers: [], edgesIn: [], edgesOut: [] };
}

// toward finds the nearest box from that with an id in a direction; the same id if there
// is none.
export function toward(boxes, id, [dx, dy]) {
  const from = boxes.get(id);
  let best = id, least = Infinity;
  for (const [other, box] of boxes) {
    const x = box.x + box.w / 2 - from.x - from.w / 2, y = box.y + box.h / 2 - from.y - from.h / 2;
    const along = x * dx + y * dy, aside = Math.abs(x * dy) + Math.abs(y * dx);
    if (other === id || along <= 4) continue;
    const far = along + 2.2 * aside;
    if (far < least) [best, least] = [other, far];
  }
  return best;
}
