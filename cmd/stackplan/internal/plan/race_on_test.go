//go:build race

package plan

// underRace leaves out, under the race detector, tests that load one large program after
// another: the analysis is one goroutine, and takes five times as long there.
const underRace = true
