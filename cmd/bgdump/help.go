package main

import (
	"flag"
	"fmt"
	"io"

	"github.com/capriccio-go/capriccio/internal/flaghelp"
)

const usage = `Bgdump shows where the goroutines or tasks of a Go program wait, what they do
between two waits, and what wakes them: its blocking graph. Bgdump makes the
graph of any Go program from an execution trace; programs built with Capriccio
for Go keep it all the time at next to no cost.

Usage:

  bgdump [flags] SOURCE            what a program does
  bgdump [flags] SOURCE SOURCE     what has changed from the first to the second
  bgdump [flags] SOURCE ...        three or more programs, added up
  bgdump test [flags] PACKAGE      findings in its tests; see bgdump test -h
  bgdump help                      the most important flags; help all has all
  bgdump version

A SOURCE is one of these:

  http://localhost:6060    any Go program that serves net/http/pprof there: an
                           execution trace of 5 seconds is taken (-seconds says
                           how long), which costs it 1 to 17 % of its throughput
                           (/run/app.sock, if it listens at a Unix socket)
  trace.out                an execution trace: of go test -trace, runtime/trace
                           or a flight recorder
  4711                     the program that runs as process 4711 on this machine
                           and was built with Capriccio for Go, or serves
                           net/http/pprof on a loopback address
  http://127.0.0.1:9090    a program that serves its graph on that admin address
                           (or the address of the graph: .../debug/bgraph/)
  before.bgraph            a file that bgdump -dump wrote, or the program itself
                           when it got the signal SIGUSR2
  recordings/              a folder that bgdump -record filled: its last dump;
                           with -http, all of them, one after the other; of a
                           fleet: all programs, with -http their histories
  -                        the standard input

For example:

  bgdump http://localhost:6060         what to look at first, then tables
  bgdump -svg -o graph.svg trace.out   a drawing
  bgdump before.out after.out          what has changed between two traces
  bgdump -lint trace.out               exits with 1 if something looks wrong
  bgdump -lint old/ new/               exits with 1 if that is worse; each is a
                                       folder of traces, or a.out,b.out,c.out
  bgdump -md trace.out                 the same for an issue
  bgdump -slowest 5 trace.out          the slowest requests, and why
  bgdump 4711                          tables of all places where tasks wait
  watch bgdump -seconds 1 4711         the same live, second by second
  bgdump -lint 4711                    say what looks wrong, and what to do
  bgdump -http :8000 4711              a page to look around in, for a browser
  bgdump -seconds 10 -sort wait 4711   only what happens in the next 10 seconds
  bgdump -stages 4711                  by stages, and what crosses the loops
  bgdump -focus Lock -stacks 4711      only places that match, with call stacks
  bgdump -svg -o graph.svg 4711        a drawing (-dot for Graphviz)
  bgdump -folded -metric wait 4711 | flamegraph.pl >wait.svg
  bgdump -pprof -o graph.pb.gz 4711    and then: go tool pprof graph.pb.gz
  bgdump -dump -o before.bgraph 4711   keep it for a comparison later on:
  bgdump before.bgraph 4711
  bgdump -record recordings -interval 1m 4711
  bgdump -targets fleet.yml            all programs of a fleet, at once
  bgdump -serve :9120 4711             for Prometheus, Pyroscope and the like

How to read it: a node is a place where tasks wait, like the read of the next
request; "now" is how many tasks are there, "waiting" how many were there on
average (or now, if these are more), "wait" how long they wait there, and
"ready" how long they then wait for their turn to run. An edge is a step from
one wait to the next; "CPU" is the time of these steps.

If both sources are of the same run of a program, bgdump shows the time between
the two, in any format. If not, or if one is a dump that -seconds made, a table
compares them, or -json does.

In a trace, waits for the collector, preemptions and system calls under 1 ms are
parts of steps. Goroutines of the Go runtime are left out. A trace shows tasks
of Capriccio for Go as little more than coroutine switches: ask such a program
for its own graph. A trace that is cut off is shown as far as it goes.

A process is asked by a signal, but only if it announces that it expects it.
Another Go program is asked for /debug/pprof/ where it listens on a loopback
address; nothing else is sent to it. Only the user of the process and root may
ask, as they may send it a signal and read its files. Bgdump trusts no input: a
file may come from anybody.

The exit status is 0 if all went well, 1 if -lint has found errors or warnings
(not for mere remarks) or, of two sides, a regression, and 2 if bgdump failed.
`

// shortUsage fits on a screen of 24 lines.
const shortUsage = `Bgdump shows where the goroutines or tasks of a Go program wait.

  bgdump http://localhost:6060      any program that serves net/http/pprof there
  bgdump trace.out                  an execution trace, as of go test -trace
  bgdump 4711                       process 4711 on this machine
  bgdump before.out after.out       what has changed
  bgdump test [flags] PACKAGE       trace the tests of a package
  bgdump help all                   all sources and flags, and how to read it
  bgdump version

  -lint                what looks wrong, and what to do; exit status 1
  -md                  the same for an issue, as Markdown
  -slowest NUMBER      the slowest requests, and what each waited for
  -requests            by handler: time and calls of each place per request
  -svg -o FILE         a drawing
  -http ADDRESS        a live page, like -http :8000
  -seconds NUMBER      how long to look
  -sort COLUMN         sort by wait, ready, cpu ...
  -focus REGEXP        only places that match
  -stacks              with call stacks
  -dump -o FILE        keep it, to compare it later on
`

// helpGroups are the flags in the order in which the help tells of them.
var helpGroups = []struct {
	title string
	flags string
}{
	{"What to do instead of showing tables", "http lint stages md svg dot folded pprof json slowest requests tasks regions dump record serve"},
	{"What to show", "focus ignore sort limit stacks seconds metric color prune raw"},
	{"How to do it", "o merge targets probe otlp interval keep keep-age keep-size timeout cpu version"},
}

// writeHelp prints all of the help.
func writeHelp(w io.Writer, flags *flag.FlagSet) {
	fmt.Fprint(w, usage)
	for _, group := range helpGroups {
		fmt.Fprintf(w, "\n%s:\n\n", group.title)
		flaghelp.Write(w, flags, group.flags)
	}
}
