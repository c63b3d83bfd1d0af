// Package plan is the compile-time side of stack chunks (Capriccio, section 3): it
// loads a program, finds out how much stack each of its functions takes in the binary
// that the compiler made of it, which function calls which, and chooses the calls that are to be
// checkpoints so that no path between two of them is longer than MaxPath.
//
// Two graphs are laid over each other. The machine code says exactly which function
// calls which directly, what was inlined and how large the frames are; the source, as
// SSA with the targets of indirect calls from a variable type analysis, says where
// function values and interfaces lead. Calls that neither knows are listed in the report.
//
// In the order of the work: load.go loads sources and binary. source.go matches functions
// of both and finds the targets of indirect calls; relay.go and trace.go tell apart what
// different callers pass to a function. graph.go, sites.go, indirect.go and reflect.go make the
// graph, annotations.go reads what can't be seen. roots.go finds where stacks begin,
// cycles.go breaks recursions, place.go measures paths and chooses checkpoints. report.go and
// text.go tell of the result. flow.go and blocking.go make the static blocking graph,
// atomic.go checks critical sections; both follow calls of the source, by callees.go.
//
// The package starts the go command (go list, go build) and writes only to temporary
// folders. A Program may be used by one goroutine at a time.
package plan
