// Package recorder learns the blocking graph of a runtime while it runs (Capriccio, SOSP 2003,
// section 4.1). A Graph observes the loops, each in a Shard of its own without locks; Snapshot
// adds the shards up, at any moment and from any goroutine, without stopping a loop.
// Schedulers ask for Flows instead, by numbers of nodes.
package recorder
