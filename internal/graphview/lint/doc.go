// Package lint finds what looks wrong in blocking graphs, those of package bgraph: long steps, locks in the way, tasks
// that pile up or wait for ever, resources that leak. Find returns the findings, the worst first; Write writes
// them as text. Each check has a name, a Check constant, and speaks only of what it can tell from enough samples.
//
// A Snapshot is not changed. The package needs no runtime and starts no goroutine; its functions may be called
// from any goroutine and never park.
package lint
