// Package bgraph learns the blocking graph of a program while it runs: where its tasks
// wait, and what each step between two waits costs (Capriccio, SOSP 2003, section 4.1).
//
// A node is a place where tasks wait, told apart by the call path that leads there and
// by an optional label. An edge is a step: a task waited at one node, ran, and next
// waited at the other. A Graph observes the loops of a runtime, each in a shard of its
// own without locks; Snapshot adds the shards up, at any moment and from any goroutine,
// without stopping a loop.
//
// What is done with a Snapshot does not need a runtime: it is written and read (Encode,
// Decode), compared (Diff) and added up (Merge). Package graphview shows it and searches it
// for what looks wrong; package graphhttp serves it. So a program that only learns its graph
// carries neither of them.
package bgraph
