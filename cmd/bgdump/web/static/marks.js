// Which findings are about what is drawn: each has the number of its place in the list.

// marks are the findings that name a node, or a step between two.
export function marks(graph) {
  return (graph.state.findings || []).map((f, i) => ({ ...f, number: i + 1 })).filter(f => f.from);
}

// numbers are those of some findings, as they stand beside what is drawn.
export function numbers(found) {
  return found.slice(0, 3).map(f => f.number).join(' ') + (found.length > 3 ? ' …' : '');
}

// isStep reports whether a finding is about a step, called "X → Y", rather than about a node and what is done from there.
export function isStep(f) {
  return Boolean(f.to) && f.name.includes(' → ');
}

// idOf tells a finding from others.
export function idOf(f) {
  return `${f.check} ${f.from || 0} ${f.to || 0}`;
}
