// Package bgraph is the blocking graph of a program: where its tasks wait, and what each step
// between two waits costs (Capriccio, SOSP 2003, section 4.1).
//
// A node is a place where tasks wait, told apart by the call path that leads there and
// by an optional label. An edge is a step: a task waited at one node, ran, and next
// waited at the other. A runtime learns its graph while it runs. Package recorder returns the
// graph, at any moment, as a Snapshot, and the package bgraph that programs import shows a part
// of it. Package gotrace makes a Snapshot of an execution trace of any Go program.
//
// A Snapshot needs no runtime: it is written and read (Encode, Decode), compared (Diff) and
// added up (Merge), on any system. The packages in graphview show it and search it for faults;
// package graphhttp serves it. So a program that only learns its graph carries none of them.
package bgraph
