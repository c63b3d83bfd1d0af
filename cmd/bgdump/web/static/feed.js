// What the page knows: it asks the server once a second, and at once if what is to be
// shown has changed.

const timeout = 8000;

export function query(params) {
  const q = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== '' && value !== 0 && value !== null && value !== undefined) q.set(name, value);
  }
  return q.toString();
}

// ask gets JSON from the server. Errors have a status if the server gave an answer.
export async function ask(path, params, signal) {
  const signals = [AbortSignal.timeout(timeout)];
  if (signal) signals.push(signal);
  const answer = await fetch(`api/${path}?${query(params)}`, { signal: AbortSignal.any(signals) });
  const body = await answer.json();
  if (!answer.ok) {
    const error = new Error(body.error || `status ${answer.status}`);
    error.status = answer.status;
    throw error;
  }
  return body;
}

export class Feed {
  // params gives what to ask for; onState gets the answers, onTrouble the errors.
  constructor(params, onState, onTrouble) {
    Object.assign(this, { params, onState, onTrouble });
    this.places = new Map();
    this.era = 0;
    this.timer = 0;
    this.busy = null;
    this.every = 1000;
    document.addEventListener('visibilitychange', () => { if (!document.hidden) this.now(); });
  }

  // now asks at once; an answer that is still under way is not waited for.
  async now() {
    clearTimeout(this.timer);
    this.busy?.abort();
    const busy = this.busy = new AbortController();
    try {
      const state = await ask('state', { ...this.params(), era: this.era, places: this.places.size }, busy.signal);
      if (busy !== this.busy) return;
      this.learn(state);
      this.onState(state);
    } catch (error) {
      if (busy !== this.busy) return;
      this.onTrouble(error);
    }
    this.busy = null;
    if (!document.hidden) this.timer = setTimeout(() => this.now(), this.every);
  }

  learn(state) {
    this.every = Math.min(Math.max((state.source.every || 1e9) / 1e6, 250), 10000);
    if (state.era === undefined || !state.program) return;
    if (state.era !== this.era) {
      this.era = state.era;
      this.places = new Map();
    }
    for (const place of state.places || []) this.places.set(place.id, place);
  }
}

// digest turns an answer into what the views work with: nodes and edges that know each
// other and their names.
export function digest(state, places) {
  const nodes = new Map();
  const span = state.span || 0;
  const seconds = span / 1e9;
  const placeOf = id => places.get(id) || { id, key: '?', name: '?', reason: '?', stack: [] };
  for (const n of state.nodes || []) {
    const p = placeOf(n.id);
    const node = {
      id: n.id, place: p, key: p.key, name: p.name,
      now: n.now || 0, was: n.was || 0, peak: n.peak || 0, in: n.in || 0, out: n.out || 0,
      wait: times(n.wait), ready: times(n.ready), oldest: n.oldest || 0, cpu: n.cpu || 0,
      loops: n.loops || [], wakers: n.wakers || [], edgesIn: [], edgesOut: [],
    };
    node.inRate = seconds ? node.in / seconds : 0;
    node.outRate = seconds ? node.out / seconds : 0;
    node.waitTotal = node.wait.mean * node.out;
    node.waiting = Math.max(span ? node.waitTotal / span : 0, node.now); // waits that have not ended are in no average
    nodes.set(n.id, node);
  }
  const edges = [];
  for (const e of state.edges || []) {
    const from = placeOf(e.from), to = placeOf(e.to);
    const edge = {
      id: `${from.key}-${to.key}`, from, to, name: `${from.name} → ${to.name}`,
      count: e.count || 0, cpu: times(e.cpu), total: e.total || 0, recent: e.recent || 0, deviation: e.deviation || 0,
      heap: e.heap, heapMean: e.heap[0] ? e.heap[1] / e.heap[0] : 0, changes: e.changes || [], overruns: e.overruns || 0, notes: e.notes || [],
    };
    edge.rate = seconds ? edge.count / seconds : 0;
    edges.push(edge);
    nodes.get(e.from)?.edgesOut.push(edge);
    nodes.get(e.to)?.edgesIn.push(edge);
  }
  const all = [...nodes.values()];
  const sum = (list, f) => list.reduce((total, x) => total + f(x), 0);
  const byKey = new Map(all.map(n => [n.key, n]));
  return {
    state, span, seconds, nodes: all, byId: nodes, byKey, edges, edgeById: new Map(edges.map(e => [e.id, e])),
    cpuTotal: sum(edges, e => e.total), waitTotal: sum(all, n => n.waitTotal),
    compared: Boolean(state.base), placeOf, places,
  };
}

function times(t) {
  const n = t.n || 0, sum = t.sum || 0;
  return { n, sum, max: t.max || 0, p50: t.p50 || 0, p99: t.p99 || 0, hist: t.hist || [], mean: t.mean || 0 };
}
