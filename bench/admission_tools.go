package main

import (
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
	tool  string // wrk, ab or h2load
	path  string
	conns int
	span  time.Duration // whole seconds
}

func (l toolLoad) installed() error {
	_, err := exec.LookPath(l.tool)
	return err
}

func (l toolLoad) args(addr string) []string {
	url, conns, seconds := "http://"+addr+l.path, strconv.Itoa(l.conns), strconv.Itoa(int(l.span.Seconds()))
	switch l.tool {
	case "wrk":
		return []string{"-t1", "-c" + conns, "-d" + seconds + "s", "--latency", "--timeout", "10s", url}
	case "ab":
		// -t sets a number of requests, which -n then raises.
		return []string{"-q", "-r", "-s", "10", "-t", seconds, "-n", "10000000", "-c", conns, url}
	default:
		return []string{"--h1", "-t1", "-c" + conns, "-D", seconds, url}
	}
}

// runTool runs the program on the client core and reads what it prints.
func (m *matrix) runTool(ctx context.Context, s *site, l toolLoad) (*clientResult, error) {
	path, err := exec.LookPath(l.tool)
	if err != nil {
		return nil, err
	}
	lines, err := linesOf(ctx, l.span, proc.Command{Path: path, Args: l.args(s.addr), Core: clientCore})
	if err != nil {
		return nil, err
	}
	return toolResults[l.tool](strings.Join(lines, "\n"), l.span)
}

var toolResults = map[string]func(text string, span time.Duration) (*clientResult, error){
	"wrk": wrkResult, "ab": abResult, "h2load": h2loadResult,
}

// number finds the first group of an expression in a text; 0 if it does not match.
func number(text, expression string) float64 {
	found := regexp.MustCompile(expression).FindStringSubmatch(text)
	if found == nil {
		return 0
	}
	n, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		return 0
	}
	return n
}

// toolResult is a result of what a program counts. A served request is one with a 2xx or 3xx.
func toolResult(tool, text string, span, p99 time.Duration, served, refused, failed, timedOut float64) (*clientResult, error) {
	served = max(served, 0) // a request may have failed in more than one way
	if served+refused+failed+timedOut == 0 {
		return nil, fmt.Errorf("%s: nothing counted in %q", tool, text)
	}
	return &clientResult{Span: span, All: load.Tally{
		Due: int(served + refused + failed + timedOut), Served: int(served), Refused: int(refused),
		Failed: int(failed), TimedOut: int(timedOut), P99: p99,
	}}, nil
}

func wrkResult(text string, _ time.Duration) (*clientResult, error) {
	all := number(text, `(\d+) requests in`)
	rate := number(text, `Requests/sec:\s+([\d.]+)`)
	refused := number(text, `Non-2xx or 3xx responses: (\d+)`)
	failed := number(text, `Socket errors: connect (\d+)`) + number(text, `Socket errors:.* read (\d+)`) + number(text, `Socket errors:.* write (\d+)`)
	timedOut := number(text, `Socket errors:.* timeout (\d+)`)
	p99 := time.Duration(0)
	if found := regexp.MustCompile(`99%\s+([\d.]+)(us|ms|s|m)\b`).FindStringSubmatch(text); found != nil {
		d, err := time.ParseDuration(found[1] + found[2])
		if err != nil {
			return nil, fmt.Errorf("wrk: %w", err)
		}
		p99 = d
	}
	span := time.Second
	if rate > 0 {
		span = time.Duration(all / rate * 1e9)
	}
	return toolResult("wrk", text, span, p99, all-refused, refused, failed, timedOut)
}

func abResult(text string, _ time.Duration) (*clientResult, error) {
	all := number(text, `Complete requests:\s+(\d+)`)
	refused := number(text, `Non-2xx responses:\s+(\d+)`)
	// Responses of another length than the first count as failed, but are refusals or none.
	failed := number(text, `Connect: (\d+), Receive`) + number(text, `Receive: (\d+),`) + number(text, `Exceptions: (\d+)`)
	span := time.Duration(number(text, `Time taken for tests:\s+([\d.]+)`) * 1e9)
	p99 := time.Duration(number(text, `99%\s+(\d+)`) * 1e6)
	return toolResult("ab", text, max(span, time.Millisecond), p99, all-refused-failed, refused, failed, 0)
}

func h2loadResult(text string, span time.Duration) (*clientResult, error) {
	served := number(text, `status codes: (\d+) 2xx`) + number(text, `(\d+) 3xx`)
	refused := number(text, `(\d+) 4xx`) + number(text, `(\d+) 5xx`)
	failed := number(text, `(\d+) errored`)
	timedOut := number(text, `(\d+) timeout`)
	p99 := time.Duration(0) // it has none
	return toolResult("h2load", text, span, p99, served, refused, failed, timedOut)
}
