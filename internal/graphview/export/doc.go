// Package export writes blocking graphs, those of package bgraph, for other programs: as JSON (WriteJSON), as folded
// stacks for flame graphs (WriteFolded), and as a profile for go tool pprof (WriteProfile).
//
// A Snapshot is not changed. The package needs no runtime and starts no goroutine; its functions may be called
// from any goroutine and never park.
package export
