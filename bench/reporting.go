package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/capriccio-go/capriccio/bench/internal/report"
)

// The blocks of the first page, and the pages of all experiments together.
const (
	headlinesName = "headlines"
	worstName     = "worst"
	tablesName    = "tables"
	lossesName    = "losses"
	missedName    = "missed"
	figuresName   = "figures"
)

var headlines = []report.Headline{
	{What: "small response, CPU", Experiment: "hello", Metric: "cpu-per-request", X: 1},
	{What: "the same at 1,000 requests/s", Experiment: "hello", Metric: "cpu-per-request" + rateSuffix, X: 1000},
	{What: "file of 16 KB, CPU", Experiment: "files", Metric: "cpu-per-request", X: 16},
	{What: "TLS handshake and a file of 1 KB, CPU", Experiment: "tls", Metric: "cpu-per-request", X: tlsHandshakes},
	{What: "HTTP/2, 16 streams a connection", Experiment: "http2", Metric: "rps", X: 16},
	{What: "reverse proxy, CPU of a request", Experiment: "proxy", Metric: "cpu-per-request", X: 1},
	{What: "idle connection, memory", Experiment: "idle-conns", Metric: "bytes-per-conn", X: idleConns},
	{What: "goodput at 2 × capacity, handler of 1 ms", Experiment: "overload-web", Metric: "goodput", X: 2},
	{What: "4,096 clients that hold 1 MiB each, GOMEMLIMIT=512MiB", Experiment: "overload-memory", Metric: "goodput", X: 4096},
	{What: "hand-off by channel, 1,000 tasks", Experiment: "primitives", Metric: "chan", X: 1000},
}

// figures are the table of the README.
var figures = []report.Figure{
	{Fit: "**good fit**", What: "answers in time at twice the capacity, requests/s", Experiment: "overload-web", Metric: "goodput", X: 2, Our: "capriccio", Peers: []string{"nginx", "net-http"}},
	{What: "4,096 clients that hold 1 MiB each in 512 MiB, requests/s", Experiment: "overload-memory", Metric: "goodput", X: 4096, Our: "capriccio", Peers: []string{"net-http"}},
	{What: "memory of an idle connection, bytes", Experiment: "idle-conns", Metric: "bytes-per-conn", X: idleConns, Our: "knot", Peers: []string{"nginx", "gnet", "fasthttp", "net-http"}},
	{What: "the same, taken over as for a WebSocket", Experiment: "idle-conns", Metric: "bytes-per-conn", X: idleConns, Our: "knot-upgraded"},
	{What: "a connection of package netpoll with a task in Read", Experiment: "idle-conns", Metric: "bytes-per-conn", X: idleConns, Our: "capriccio-task"},
	{Fit: "**neutral**", What: "CPU of a small request, µs", Experiment: "hello", Metric: "cpu-per-request", X: 1, Our: "knot", Peers: []string{"nginx", "gnet", "fasthttp", "net-http"}, Scale: 1e-3},
	{What: "the same with a handler of net/http", Experiment: "hello", Metric: "cpu-per-request", X: 1, Our: "knot-http", Scale: 1e-3},
	{What: "CPU of a TLS handshake and a small file, µs", Experiment: "tls", Metric: "cpu-per-request", X: tlsHandshakes, Our: "knot", Peers: []string{"net-http", "nginx"}},
	{What: "CPU of a proxied request, µs", Experiment: "proxy", Metric: "cpu-per-request", X: 1, Our: "knot", Peers: []string{"nginx", "net-http"}, Scale: 1e-3},
	{What: "CPU of a file of 16 KB, µs", Experiment: "files", Metric: "cpu-per-request", X: 16, Our: "knot", Peers: []string{"lighttpd", "nginx"}},
}

// reportCommand writes the first page of results, and beside it a folder with a page and plots for each experiment, from
// kept results and from the results that the pages were made from before, which are in that folder, too. The newest full
// run of each experiment on each kind of processor counts. Quick runs count where there is no full one on any.
func reportCommand(from, document string, out io.Writer) error {
	shown := shownFolder(document)
	folder := filepath.Dir(shown)
	if err := os.MkdirAll(shown, 0o777); err != nil {
		return err
	}
	reports, err := keptReports(from)
	if err != nil {
		return err
	}
	before, err := keptReports(shown)
	if err != nil {
		return err
	}
	reports = append(reports, before...)
	var used, first []*report.Report // first are the newest of each experiment
	var tables []string
	for _, e := range experiments {
		best := newest(e.name, reports)
		if len(best) == 0 {
			continue
		}
		if err := experimentPage(e, best, folder, shown); err != nil {
			return err
		}
		tables = append(tables, fmt.Sprintf("[%s](%s/%s.md)", e.name, filepath.Base(folder), e.name))
		for _, r := range best {
			fmt.Fprintf(out, "%s: of %s, on %s\n", e.name, r.Env.Time, r.Env.CPU)
		}
		used, first = append(used, best...), append(first, best[0])
	}
	if len(used) == 0 {
		return fmt.Errorf("%s has no results of experiments", from)
	}
	return errors.Join(
		replaceIn(filepath.Join(folder, lossesName+".md"), "# All that was lost to others", lossesName, report.LossesTable(used, ours...)),
		replaceIn(filepath.Join(folder, missedName+".md"), "# Aims that are missed", missedName, report.MissedTable(used, aims)),
		replaceIn(document, "# Results", headlinesName, report.Headlines(first, headlines, ours...)),
		replaceIn(document, "", worstName, report.WorstLosses(first, ours...)),
		replaceIn(document, "", tablesName, strings.Join(tables, ",\n")+"\n"))
}

// reportFigures writes the README's table from the results that the pages show.
func reportFigures(shown, readme string) error {
	reports, err := keptReports(shown)
	if err != nil {
		return err
	}
	var first []*report.Report
	for _, e := range experiments {
		first = append(first, newest(e.name, reports)...)
	}
	table, err := report.FiguresTable(first, figures)
	if err != nil {
		return err
	}
	return replaceIn(readme, "", figuresName, table)
}

// shownFolder is where the results are from which the pages of a document were made.
func shownFolder(document string) string {
	return filepath.Join(strings.TrimSuffix(document, filepath.Ext(document)), "data")
}

// replaceIn puts text into a block of a page, which is made with a heading if it is not there.
func replaceIn(path, heading, block, text string) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		data, err = []byte(heading+"\n"), nil
	}
	if err != nil {
		return err
	}
	page, err := report.ReplaceBlock(string(data), block, text)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return writeFile(path, func(w io.Writer) error { _, err := io.WriteString(w, page); return err })
}

// newest are the reports of an experiment that count, one for each kind of processor, the newest first.
func newest(name string, reports []*report.Report) []*report.Report {
	reports = slices.DeleteFunc(slices.Clone(reports), func(r *report.Report) bool { return r.Name != name })
	isQuick := func(r *report.Report) bool { return r.Env.Quick }
	if full := slices.DeleteFunc(slices.Clone(reports), isQuick); len(full) > 0 {
		reports = full
	}
	slices.SortStableFunc(reports, func(a, b *report.Report) int { return strings.Compare(b.Env.Time, a.Env.Time) })
	var best []*report.Report
	for _, r := range reports {
		if !slices.ContainsFunc(best, func(b *report.Report) bool { return b.Env.CPU == r.Env.CPU }) {
			best = append(best, r)
		}
	}
	return best
}

// nthName is the name of the i-th file of an experiment. The first one has no number.
func nthName(name string, i int) string {
	if i == 0 {
		return name
	}
	return fmt.Sprintf("%s-%d", name, i+1)
}

func experimentPage(e experiment, reports []*report.Report, folder, shown string) error {
	var block strings.Builder
	for i, r := range reports {
		name := nthName(e.name, i)
		drawn, err := draw(r, filepath.Join(folder, name+".svg"))
		if err != nil {
			return err
		}
		picture := ""
		if drawn {
			picture = name + ".svg"
		}
		if i > 0 {
			block.WriteString("\n")
		}
		block.WriteString(r.Markdown(picture, ours...) + r.AimsTable(aims[e.name]) + r.ClaimsTable(published[e.name]))
		if err := writeFile(filepath.Join(shown, name+".json"), r.WriteCompact); err != nil {
			return err
		}
	}
	heading := "# " + e.name + "\n\nWhat is measured: " + e.doc + "."
	return replaceIn(filepath.Join(folder, e.name+".md"), heading, e.name, block.String())
}
