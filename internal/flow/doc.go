// Package flow runs a program that is written as a graph: modules that work, and queues
// between them (Aspen, PPoPP 2007).
//
// A module has one queue of things to do, of one type, and a function Run that takes from
// it. It sends its results to its outputs, and does not know what is behind them: that
// is said when the graph is put together, with Connect. Nothing is shared between modules but
// what is sent, and the sender does not touch it any more.
//
//	type parse struct {
//		Out flow.Out[request] // the fields are the module's outputs
//		Bad flow.Out[answer]
//	}
//	func (p *parse) Run(c *flow.Call[[]byte]) {
//		for data, ok := c.Next(); ok; data, ok = c.Next() {
//			p.Out.Send(c.Flow(), request{data})
//		}
//	}
//
//	g := flow.New("web")
//	p := &parse{}
//	parse := flow.Add(g, "parse", flow.ByFlow, p)
//	serve := flow.Add(g, "serve", flow.ByFlow, s)
//	flow.Connect(&p.Out, serve)
//
// # Parallelism
//
// Elements that belong together, the data of one connection say, are a Flow. Every element
// belongs to one flow, or to none. A module says how its work may be spread:
//
//   - ByTask: one call of Run at a time, beside the other modules.
//   - ByFlow: calls for different flows run in parallel; the elements of one flow are worked on in
//     order, one after the other. Run must not write to fields of the module. State that
//     lasts from one call to the next goes into Vars, which have a value for each flow.
//   - ByElement: all elements in parallel, in any order. The module has no state.
//
// Run is called by servlets, which are tasks. How many there are for a ByFlow or ByElement
// module follows the load, within Options.Min and Max, by the equations of the paper as
// corrected in adapt.go. They run on all loops. Run may park.
//
// A flow is not bound to a servlet: whichever is free takes the flow that has waited
// longest, with all that is queued for it. So no servlet waits while another has several
// flows before it, and nothing need be handed over when servlets come and go.
//
// # Limits
//
// A queue has a limit (Options.Queue). A sender to a full one parks. In a cycle that could
// be for ever, so a cycle must be closed with Back, not Connect: what goes back is queued
// whatever the limit. A module that sends back at most one thing for each that it takes keeps
// such a queue within what came in from outside.
//
// # Seeing it
//
// In the blocking graph of the program, nodes have the names of the modules ("web/parse"): servlets pass them before
// each batch of elements. Graph.Stats and Graph.WriteDOT show the graph itself, with the queues and the numbers of
// servlets.
//
// The package knows no socket; see internal/flow/flownet for modules that do. Its functions may be
// called from any task or goroutine unless they say otherwise; a runtime of package task must
// be running.
package flow
