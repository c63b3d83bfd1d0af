// Package web serves a page that shows a blocking graph while it changes: the graph
// itself, tables of its nodes and edges, histograms, a flame graph, what looks wrong,
// and the difference to any earlier moment that is still remembered.
//
// A Page asks one Source for snapshots: once a second while a browser shows the page,
// every ten seconds otherwise. It keeps a bounded number of snapshots in a bounded number
// of bytes. To make room it thins out the older ones, so that the history reaches back to
// the beginning and is finest towards now. A Page never writes to disk, and answers only GET
// and HEAD. If it listens on a loopback address, it answers only requests that name this
// machine as their host, so that a web site cannot read it through a name of its own.
// The page loads nothing from elsewhere.
//
// # Requests
//
// All answers are JSON. Times are milliseconds since 1970, durations nanoseconds. Fields
// that are zero may be missing. An answer to a request that makes no sense is
// {"error": "..."} with status 400.
//
// These parameters say what part of the history is meant:
//
//	at=ID          the moment shown; missing or 0: the latest
//	base=start     everything since the program began (the default)
//	base=last:N    what happened in the N seconds before
//	base=ID        what happened since that moment
//	focus=REGEXP   only nodes whose name or stack matches
//	ignore=REGEXP  without nodes whose name or stack matches
//
// A moment that is no longer remembered is replaced by the nearest one before it; "at"
// and "base" in the answer say which were used. If there is nothing to compare with
// yet, base is 0 in the answer, and it is as if base=start had been asked for.
//
// GET /api/state has besides:
//
//	era=N, places=N   what the client knows already, see below
//	want=overruns     with the watchdog's reports
//
// and answers
//
//	source     name; state: "new" (nothing has come yet), "ok", "gone"; error; since:
//	           when the state began; every: nanoseconds between questions; asking: for
//	           how long the question that is under way has been; still: the snapshots
//	           do not change, as if they came from a file; lazy: the source is asked
//	           only while a browser shows the page
//	program    name, pid, host, go, started, as in bgraph.Program
//	moments    id, taken, tasks, steps: four arrays, oldest first
//	at, base   identities of moments; live: whether "at" is the latest
//	kind, collector         as in bgraph.Snapshot: "goroutines", and the CPU time of the
//	           garbage collector's workers
//	taken, span, sampling   of what is shown; a trace need not tell when it was taken
//	loops      [index, tasks, steps, 1 if it rests]
//	resources  as in bgraph.Resource
//	overflow   as in bgraph.Overflow
//	era        changes if the program was started anew; ids of places and moments mean
//	           nothing in another era
//	places     the nodes' names and stacks, which do not change: id (counted from 1),
//	           key, name, reason, label, where (file and line of the innermost function of
//	           the program), chain: the functions of the program that lead there, and what
//	           they call; path: the same with files and lines; stack: [function, file,
//	           line, offset]. If "era" is the current one, only nodes with an id beyond
//	           "places" are sent
//	nodes      id, now, was (tasks at the base), peak, in, out (arrivals, departures),
//	           wait, ready (see below), oldest, cpu (of the steps that begin here),
//	           loops: [loop, now, peak, in, out]; wakers: [what ended waits, share of them, id of
//	           the place where that had waited last, 0 if it is not known]
//	edges      from, to (ids of places), count, cpu (see below), total (CPU, estimated),
//	           recent and deviation (of CPU, weighted exponentially), heap: [measured
//	           steps, sum], changes: one [measured steps, sum] for each resource,
//	           overruns, notes: sentences on what else a step took
//	hidden     nodes and edges that are not sent as there are too many
//	shape      changes when nodes or edges are added or removed, or filtered differently
//	findings   severity, check, from, to (ids of places, 0: none), name, at, path, message,
//	           advice, stack
//	overruns   how many; reports: as in bgraph.Overrun, from and to being ids of places
//	starts, spans   of a trace, as in bgraph.Start: function, now, created, ended, mean life,
//	           oldest, leaked, CPU; as in bgraph.Span: name, kind, count, mean, p99, longest
//	slowest    of a trace, the slowest requests: name, kind, how long it took, when it began
//	           (after the trace, 0: before), whether it had not ended
//	pauses     of a trace: collections, how often the world stopped, for how long in all, at most;
//	           how often goroutines had a P for so long that the kernel must have taken its
//	           processor, for how long in all
//	sched      as in bgraph.Sched, but nodes: [id, loop, priority, tickets, pass, ready,
//	           held]
//
// Measured durations are n, sum, mean (estimated for all durations, measured or not), max,
// p50, p99 and hist, the counts of bgraph.Times.Hist without the zeros at its end.
//
// GET /api/layout?n=N answers where to draw the N busiest nodes, 3 to 500, the nodes that
// findings name among them, and one that stands for all others, as graphlayout.Layout does:
// width, height, hidden (edges left out), rare (nodes that no other edge joins); nodes: id
// (0: the others), x, y (of the left upper corner), w, h, now, lines: [text, size, bold];
// edges: from, to, path, arrow, width, label: [x, y] of its middle. Nodes where nothing
// happened in the period are placed, too, so that a layout is good for as long as "shape" is
// the same.
//
// GET /api/flame?metric=cpu|wait|ready|count|heap answers unit, names (of functions) and
// root: a frame is [name, value, children...], its value including that of its children.
//
// GET /api/track?place=ID answers what a node was like at each moment: id, now, in, out
// (of moments, tasks, arrivals and departures): four arrays.
//
// GET /api/request?n=N answers how the time of the N-th of the slowest requests went by,
// from 1: took, rows (goroutines by the function that they began with; the first one is
// its own), visits: row (from 0), from (after its begin), wait, ready, step, key and place
// (where it waited), path (functions that lead there), by (what ended the wait), byRow
// (whose goroutine did, from 1); short: how many visits are left out as they were short.
//
// GET /api/export?format=dump|json|text|dot|svg|pprof|folded answers what is shown as a
// file.
package web
