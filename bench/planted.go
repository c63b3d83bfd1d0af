package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/proc"
	"github.com/capriccio-go/capriccio/internal/graphview/lint"
)

// A plantedProgram is one of those in bench/planted, under the load that brings its fault out.
type plantedProgram struct {
	name    string
	clients int
	pause   time.Duration // of a client between two requests
	says    string        // a pattern of the words that name the fault; "": it is healthy
	quota   float64       // share of one processor that it may use; 0: all
}

var plantedPrograms = []plantedProgram{
	{name: "lock-across-sleep", clients: 24, says: `(?i)(holds|held|keeps).*(mutex|lock)|(mutex|lock).*(held|kept)`},
	{name: "lock-across-rpc", clients: 24, says: `(?i)(holds|held|keeps).*(mutex|lock)|(mutex|lock).*(held|kept)`},
	{name: "lock-compute", clients: 32, says: `(?i)(holds|held|keeps).*(mutex|lock)|(mutex|lock).*(held|kept)`},
	{name: "leak-send", clients: 4, pause: 20 * time.Millisecond, says: `(?i)leak`},
	{name: "leak-receive", clients: 4, pause: 20 * time.Millisecond, says: `(?i)leak`},
	{name: "leak-context", clients: 4, pause: 20 * time.Millisecond, says: `(?i)leak`},
	{name: "leak-select", clients: 8, pause: 10 * time.Millisecond, says: `(?i)leak`},
	{name: "one-consumer", clients: 24, says: `(?i)saturat|busy|consumer|receiver`},
	{name: "one-writer", clients: 24, says: `(?i)saturat|busy|consumer|receiver`},
	{name: "worker-pool", clients: 40, says: `(?i)saturat|busy|worker`},
	{name: "limiter", clients: 24, says: `(?i)saturat|busy|limit|full`},
	{name: "db-pool", clients: 32, says: `(?i)pool|connections`},
	{name: "db-rows", clients: 24, pause: 2 * time.Millisecond, says: `(?i)pool|connections`},
	{name: "n-plus-one", clients: 4, pause: 10 * time.Millisecond, says: `(?i)each request calls .* times`},
	{name: "n-plus-one-sql", clients: 4, pause: 10 * time.Millisecond, says: `(?i)each request calls .* times`},
	{name: "assist", clients: 16, says: `(?i)collector`},
	{name: "fsync-lock", clients: 24, says: `(?i)(holds|held|keeps).*(mutex|lock)|(mutex|lock).*(held|kept)`},
	{name: "ticker-storm", clients: 2, pause: 10 * time.Millisecond, says: `(?i)timer|ticker|wake`},
	{name: "select-default", clients: 4, pause: 5 * time.Millisecond, says: `(?i)without waiting|never waits|comput|CPU|processor|spins`},
	{name: "broadcast-storm", clients: 200, says: `(?i)woken for nothing|Broadcast`},
	{name: "long-reader", clients: 24, pause: time.Millisecond, says: `(?i)(holds|held|keeps|kept)`},
	{name: "slow-dns", clients: 16, says: `(?i)name|DNS|look`},
	{name: "cgo-blocks", clients: 16, says: `(?i)system call|C function|cgo|blocks`},
	{name: "slow-backend", clients: 16, says: `(?i)of (the|its) time|slow`},
	{name: "slow-shard", clients: 16, says: `(?i)of (the|its) time|slow`},
	{name: "http2-slots", clients: 32, says: `(?i)stream|connection|HTTP/2`},
	{name: "log-lock", clients: 32, says: `(?i)log.*(lock|mutex)|(lock|mutex).*log`},
	{name: "cpu-quota", clients: 16, quota: 0.25, says: `(?i)cpu\.max|limit of CPU|quota`},
	{name: "hog", clients: 4, pause: 5 * time.Millisecond, says: `(?i)CPU|processor|comput|without waiting`},
	{name: "hog-leaf", clients: 4, pause: 5 * time.Millisecond, says: `(?i)CPU|processor|comput|without waiting`},
	{name: "assist-json", clients: 16, says: `(?i)collector`},
	{name: "sync-rwlock", clients: 24, says: `(?i)(holds|held|keeps).*(mutex|lock)|(mutex|lock).*(held|kept)`},
	{name: "timer-each", clients: 2, pause: 10 * time.Millisecond, says: `(?i)timer|ticker|wake`},
	{name: "spin-flag", clients: 4, pause: 5 * time.Millisecond, says: `(?i)without waiting|never waits|comput|CPU|processor|spins`},
	{name: "broadcast-workers", clients: 8, pause: 2 * time.Millisecond, says: `(?i)woken for nothing|Broadcast`},
	{name: "reader-rpc", clients: 24, pause: time.Millisecond, says: `(?i)(holds|held|keeps|kept)`},
	{name: "dns-dial", clients: 16, says: `(?i)name|DNS|look`},
	{name: "file-lock", clients: 24, says: `(?i)system call|C function|cgo|blocks`},
	{name: "conns-per-host", clients: 24, says: `(?i)pool|connections`},
	{name: "slog-lock", clients: 32, says: `(?i)log.*(lock|mutex)|(lock|mutex).*log`},

	{name: "hello", clients: 8, pause: time.Millisecond},
	{name: "counter", clients: 16, pause: time.Millisecond},
	{name: "idle-pool", clients: 8, pause: 5 * time.Millisecond},
	{name: "pipeline", clients: 16, pause: 2 * time.Millisecond},
	{name: "cond-queue", clients: 4, pause: 5 * time.Millisecond},
	{name: "cron", clients: 2, pause: 50 * time.Millisecond},
	{name: "proxy", clients: 8, pause: 5 * time.Millisecond},
	{name: "files", clients: 8, pause: 2 * time.Millisecond},
	{name: "cache", clients: 16, pause: time.Millisecond},
	{name: "long-poll", clients: 200},
	{name: "echo", clients: 8, pause: 2 * time.Millisecond},
	{name: "batch", clients: 4, pause: 10 * time.Millisecond},
	{name: "sleeper", clients: 1, pause: 200 * time.Millisecond},
	{name: "fan-out", clients: 8, pause: 5 * time.Millisecond},
	{name: "db-ample", clients: 16, pause: 5 * time.Millisecond},
	{name: "timeouts", clients: 8, pause: 2 * time.Millisecond},
	{name: "buffered-log", clients: 16, pause: time.Millisecond},
	{name: "api-client", clients: 8, pause: 5 * time.Millisecond},
	{name: "http2", clients: 4, pause: 5 * time.Millisecond},
	{name: "json", clients: 8, pause: 2 * time.Millisecond},
	{name: "subscribers", clients: 50},
	{name: "flush", clients: 8, pause: 5 * time.Millisecond},
}

const (
	plantedName    = "planted"
	plantedSeconds = 3 // of a capture
	plantedRounds  = 3 // captures
	plantedBefore  = time.Second
	mostPoints     = 3 // of a program
)

// plantedExperiment has bgdump look at programs with one fault each.
var plantedExperiment = experiment{
	name: plantedName,
	doc:  "findings of bgdump in servers with one planted fault each, and in healthy servers",
	after: func(r *run) error {
		bgdump, err := r.buildCommand("cmd/bgdump")
		if err != nil {
			return err
		}
		planted, err := r.build("bench", "planted")
		if err != nil {
			return err
		}
		r.env.Names = map[int]string{0: "all"} // of each capture
		for i, p := range plantedPrograms {
			r.env.Names[i+1] = p.name
		}
		rounds := choose(r.quick, 1, plantedRounds)
		return r.prepare(time.Duration(rounds*len(plantedPrograms))*(plantedSeconds*time.Second+2*plantedBefore), func() error {
			for range rounds {
				if err := r.plantedRound(bgdump, planted); err != nil {
					return err
				}
			}
			return nil
		})
	},
	notes: []string{
		fmt.Sprintf("a capture of %d s of each program, which tells the file, line and function of its fault in comments; score of a program with a fault: 3 if the first finding names the cause with its function and line, 2 if one of the first three does, 1 if it is elsewhere on the screen or among the findings, 0 if it is absent; lint: of warnings and errors only", plantedSeconds),
		"warnings: those, and errors, of bgdump -lint on a healthy program",
	},
}

// plantedRound captures each program once.
func (r *run) plantedRound(bgdump, planted string) error {
	root, err := moduleFolder(r.ctx)
	if err != nil {
		return err
	}
	var screens, lints, warnings float64
	for i, p := range plantedPrograms {
		dump, err := r.capture(p, bgdump, planted)
		if err != nil {
			r.skip(p.name, err)
			continue
		}
		said, err := r.readPlanted(bgdump, dump)
		if err != nil {
			return err
		}
		x := float64(i + 1)
		if p.says == "" {
			n := 0.0
			for _, f := range said.findings {
				if f.Severity != lint.SeverityInfo {
					n++
					fmt.Fprintf(r.progress, "%s, which is healthy: %s\n", p.name, said.text(f))
				}
			}
			warnings += n
			if err := r.add("lint", []sample{{"warnings", "1", x, n}}); err != nil {
				return err
			}
			continue
		}
		c, err := causeOf(filepath.Join(root, "bench", "planted"), p)
		if err != nil {
			return err
		}
		screen, found := c.score(said)
		screens, lints = screens+screen, lints+found
		fmt.Fprintf(r.progress, "%-20s %.0f %.0f\n", p.name, screen, found)
		err = errors.Join(r.add("first-screen", []sample{{"score", "points", x, screen}}), r.add("lint", []sample{{"score", "points", x, found}}))
		if err != nil {
			return err
		}
	}
	return errors.Join(r.add("first-screen", []sample{{"score", "points", 0, screens}}),
		r.add("lint", []sample{{"score", "points", 0, lints}, {"warnings", "1", 0, warnings}}))
}

// capture starts a program, loads it and returns the file of its graph.
func (r *run) capture(p plantedProgram, bgdump, planted string) (string, error) {
	c := proc.Command{Path: planted, Args: []string{p.name}, Core: proc.AnyCore}
	if p.quota > 0 {
		group, err := proc.NewCPUGroup(p.quota)
		if err != nil {
			return "", err
		}
		defer group.Close()
		c.Groups = []*proc.Group{group}
	}
	child, err := proc.Start(c)
	if err != nil {
		return "", err
	}
	defer child.Close()
	line, err := child.Line(r.ctx)
	if err != nil {
		return "", err
	}
	addr, profiles, _ := strings.Cut(line, " ")
	ctx, cancel := context.WithCancel(r.ctx)
	var clients sync.WaitGroup
	defer clients.Wait()
	defer cancel()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: p.clients}}
	defer client.CloseIdleConnections()
	for range p.clients {
		clients.Go(func() {
			for ctx.Err() == nil {
				_, _ = fetch(ctx, client, http.MethodGet, "http://"+addr+"/", nil, io.Discard) // it may be too slow
				select {
				case <-time.After(p.pause):
				case <-ctx.Done():
				}
			}
		})
	}
	select {
	case <-time.After(plantedBefore):
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	dump := filepath.Join(r.folder, p.name+".dump")
	out, err := exec.CommandContext(ctx, bgdump, "-dump", "-o", dump, "-seconds", strconv.Itoa(plantedSeconds), "-timeout", "1m", "http://"+profiles).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("bgdump: %w: %s", err, lastLine(out))
	}
	return dump, nil
}

// A plantedReading is what bgdump says of a graph.
type plantedReading struct {
	screen   string
	findings []lint.Finding
}

func (said *plantedReading) text(f lint.Finding) string {
	return fmt.Sprintf("%s %s: %s %s %s %s", f.Severity, f.Check, f.Name, f.At, f.Path, f.Message)
}

func (r *run) readPlanted(bgdump, dump string) (*plantedReading, error) {
	screen, err := exec.CommandContext(r.ctx, bgdump, dump).Output()
	if err != nil {
		return nil, err
	}
	said := &plantedReading{screen: string(screen)}
	out, err := exec.CommandContext(r.ctx, bgdump, "-lint", "-json", dump).Output()
	if exit := (*exec.ExitError)(nil); err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 1) {
		return nil, err
	}
	return said, json.Unmarshal(out, &said.findings)
}

// A plantedCause is where the fault of a program is.
type plantedCause struct {
	places []plantedPlace
	says   *regexp.Regexp
}

type plantedPlace struct{ function, at string }

// causeOf finds the lines in a folder of sources that are marked as the cause of a program's fault.
func causeOf(folder string, p plantedProgram) (*plantedCause, error) {
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	says, err := regexp.Compile(p.says)
	if err != nil {
		return nil, err
	}
	c, files := &plantedCause{says: says}, token.NewFileSet()
	for _, name := range names {
		f, err := parser.ParseFile(files, name, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, group := range f.Comments {
			for _, mark := range group.List {
				if mark.Text != "// cause of "+p.name {
					continue
				}
				line := files.Position(mark.Pos()).Line
				for _, d := range f.Decls {
					if fn, ok := d.(*ast.FuncDecl); ok && files.Position(fn.Pos()).Line <= line && line <= files.Position(fn.End()).Line {
						c.places = append(c.places, plantedPlace{fn.Name.Name, fmt.Sprintf("%s:%d", filepath.Base(name), line)})
					}
				}
			}
		}
	}
	if len(c.places) == 0 && p.quota == 0 {
		return nil, fmt.Errorf("no line in %s is marked as the cause of %s", folder, p.name)
	}
	return c, nil
}

// names reports whether a text names the cause.
func (c *plantedCause) names(text string) bool {
	if !c.says.MatchString(regexp.MustCompile(`[\w/]+\.go\b`).ReplaceAllString(text, "")) { // the names of the files tell it, too
		return false
	}
	for _, p := range c.places {
		if strings.Contains(text, p.function) && regexp.MustCompile(regexp.QuoteMeta(p.at)+`\b`).MatchString(text) {
			return true
		}
	}
	return len(c.places) == 0
}

// findingStart begins a finding on the first screen.
var findingStart = regexp.MustCompile(`(?m)^  (?:error|warning|info) `)

// otherLine is one below the findings.
var otherLine = regexp.MustCompile(`(?m)^(?:  \S|$)`)

// score is that of the first screen, and of -lint.
func (c *plantedCause) score(said *plantedReading) (screen, found float64) {
	before, first, _ := strings.Cut(said.screen, "LOOK AT FIRST")
	blocks := findingStart.Split(first, -1)[1:] // findings; behind the last, other lines
	for i, text := range blocks {
		if i == len(blocks)-1 {
			if at := otherLine.FindStringIndex(text); at != nil {
				blocks = append(blocks[:i], text[:at[0]])
				before += text[at[0]:]
				text = blocks[i]
			}
		}
		if c.names(text) {
			screen = scoreAt(i)
			break
		}
	}
	if screen == 0 && slices.ContainsFunc(strings.Split(before, "\n"), c.names) {
		screen = 1
	}
	at := 0
	for _, f := range said.findings {
		if f.Severity == lint.SeverityInfo {
			continue
		}
		if c.names(said.text(f)) {
			return screen, scoreAt(at)
		}
		at++
	}
	return screen, 0
}

// scoreAt is the score of the i-th finding.
func scoreAt(i int) float64 {
	switch {
	case i == 0:
		return mostPoints
	case i < 3:
		return 2
	}
	return 1
}
