package main

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/load"
	"github.com/capriccio-go/capriccio/bench/internal/proc"
)

type toolLoad struct {
	tool  string // of tools
	path  string
	conns int
	span  time.Duration // whole seconds
}

// tools are programs that others measure with: their arguments for a URL, connections and seconds, and the expressions
// that find numbers in what they print, which are added up.
var tools = map[string]struct {
	args                      string
	answered                  []string // with any status
	refused, failed, timedOut []string
	rate                      string // of answers a second; "": not printed
	failedAnswers             bool   // answered includes the requests in failed
}{
	"wrk": {
		args:     "-t1 -c%[2]d -d%[3]ds --latency --timeout 10s %[1]s",
		answered: []string{`(\d+) requests in`},
		refused:  []string{`Non-2xx or 3xx responses: (\d+)`},
		failed:   []string{`Socket errors: connect (\d+)`, `Socket errors:.* read (\d+)`, `Socket errors:.* write (\d+)`},
		timedOut: []string{`Socket errors:.* timeout (\d+)`},
		rate:     `Requests/sec:\s+([\d.]+)`,
	},
	"ab": {
		args:     "-q -r -s 10 -t %[3]d -n 10000000 -c %[2]d %[1]s", // -t sets a number of requests, which -n then raises
		answered: []string{`Complete requests:\s+(\d+)`},
		refused:  []string{`Non-2xx responses:\s+(\d+)`},
		// Responses of another length than the first count as failed, but are refusals or none.
		failed:        []string{`Connect: (\d+), Receive`, `Receive: (\d+),`, `Exceptions: (\d+)`},
		rate:          `Requests per second:\s+([\d.]+)`,
		failedAnswers: true,
	},
	"h2load": { // has no percentiles
		args:     "--h1 -t1 -c%[2]d -D %[3]d %[1]s",
		answered: []string{`status codes: (\d+) 2xx`, `(\d+) 3xx`, `(\d+) 4xx`, `(\d+) 5xx`},
		refused:  []string{`(\d+) 4xx`, `(\d+) 5xx`},
		failed:   []string{`(\d+) errored`},
		timedOut: []string{`(\d+) timeout`},
	},
}

func (l toolLoad) installed() error {
	_, err := exec.LookPath(l.tool)
	return err
}

// runTool runs the program on the client core and reads what it prints.
func (m *matrix) runTool(ctx context.Context, s *server, l toolLoad) (*clientResult, error) {
	args := strings.Fields(fmt.Sprintf(tools[l.tool].args, "http://"+s.addr+l.path, l.conns, int(l.span.Seconds())))
	lines, err := linesOf(ctx, l.span, proc.Command{Path: l.tool, Args: args, Core: clientCore})
	if err != nil {
		return nil, err
	}
	return l.result(strings.Join(lines, "\n"))
}

// number finds the first group of an expression in a text; 0 if it does not match.
func number(text, expression string) float64 {
	n := 0.0
	if found := regexp.MustCompile(expression).FindStringSubmatch(text); found != nil {
		n, _ = strconv.ParseFloat(found[1], 64)
	}
	return n
}

var latency99 = regexp.MustCompile(`99%\s+([\d.]+)(us|ms|s|m)?\b`)

// result is what the program has counted. A served request is one with a 2xx or 3xx.
func (l toolLoad) result(text string) (*clientResult, error) {
	t := tools[l.tool]
	sum := func(expressions []string) (n int) {
		for _, e := range expressions {
			n += int(number(text, e))
		}
		return n
	}
	answered := sum(t.answered)
	all := load.Tally{Refused: sum(t.refused), Failed: sum(t.failed), TimedOut: sum(t.timedOut)}
	all.Served = max(answered-all.Refused-choose(t.failedAnswers, all.Failed, 0), 0) // a request may have failed in more than one way
	if all.Due = all.Served + all.Refused + all.Failed + all.TimedOut; all.Due == 0 {
		return nil, fmt.Errorf("%s: nothing counted in %q", l.tool, text)
	}
	span := l.span
	if t.rate != "" {
		span = time.Duration(float64(answered) / max(number(text, t.rate), tiny) * 1e9)
	}
	if found := latency99.FindStringSubmatch(text); found != nil {
		var err error
		if all.P99, err = time.ParseDuration(found[1] + cmp.Or(found[2], "ms")); err != nil {
			return nil, fmt.Errorf("%s: %w", l.tool, err)
		}
	}
	return &clientResult{Span: max(span, time.Millisecond), All: all}, nil
}
