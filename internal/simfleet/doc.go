// Package simfleet simulates a fleet: users who time out and ask again, balancers, servers, a cache and a database behind
// them. Hours of 100 servers, or minutes of 1,000, take minutes, and come again from a seed.
//
// Everything is a state machine of numbers, driven by one heap of events; there is no goroutine, and no clock but the heap's.
// Two kinds of code are not a model but the project's own: servers are asked by internal/admit, as an event loop is
// (EntryQueue, Admission, Backlog), and balancers choose and retry by internal/balance, as Knot's proxy does.
//
//	user ─ ask ─▶ balancer ─ choose ─▶ server: entry queue ─▶ processor ─▶ pool of connections ─▶ database
//	 ▲ ▲             ▲  │ fails: another server         │ refuses              │ hit: the cache answers
//	 │ ╰─ answer ────┴──╯                               ▼                      ▼
//	 ╰─ time-out, or a failure: asks up to three times more, after 0.1, 0.2 and 0.4 s
//
// The server of a fleet without Parts is what most are: a first-in-first-out queue that does not notice that a client has
// left, behind balancers that retry whatever fails. It shows what the parts are for: after each Cause the fleet stays melted.
package simfleet
