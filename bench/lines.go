package main

import (
	"context"
	"fmt"
	"go/scanner"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/tabwriter"
)

// program is one that the same work was written in, on one system.
type program struct {
	work, system string
	user         []string // files that its author wrote
	library      []string // packages of the system: ours, or those of the module peerLibrary
}

// peerLibrary is the module of a system that programs in bench/peers are written on.
const peerLibrary = "github.com/panjf2000/gnet/v2"

// What programs are written on: packages, with all of this module that they import.
var (
	taskLibrary = []string{".", "./netpoll", "./aio", "./task"}
	flowLibrary = append([]string{"./flow/flownet"}, taskLibrary...)
)

// programs are the rows of lines; those of the paper have no files here.
var programs = []program{
	{"web server", "flow graph", []string{"examples/flowweb/main.go", "examples/flowweb/http.go", "examples/flowweb/flow.go"}, flowLibrary},
	{"web server", "tasks", []string{"examples/flowweb/main.go", "examples/flowweb/http.go", "examples/flowweb/conn.go", "examples/flowweb/task.go"}, taskLibrary},
	{"web server", "goroutines", []string{"examples/flowweb/main.go", "examples/flowweb/http.go", "examples/flowweb/conn.go", "examples/flowweb/goroutine.go"}, nil},
	{"web server", "callbacks (gnet)", []string{"bench/peers/gnet-web/main.go"}, []string{peerLibrary}},
	{"video on demand", "flow graph", []string{"examples/vod/main.go", "examples/vod/flow.go", "examples/vod/play.go"}, flowLibrary},
	{"video on demand", "tasks", []string{"examples/vod/main.go", "examples/vod/task.go", "examples/vod/play.go"}, taskLibrary},
	{"video on demand", "goroutines", []string{"examples/vod/main.go", "examples/vod/goroutine.go", "examples/vod/play.go"}, nil},
	{"memory cache", "tasks", []string{"examples/memcache/main.go", "examples/memcache/protocol.go", "examples/memcache/store.go"}, taskLibrary},
}

// publishedLines are those of Aspen's Table 2: user and system; language-specific lines are
// counted as the user's.
var publishedLines = []struct {
	work, system string
	user, lib    int
}{
	{"web server", "Aspen (paper)", 66 + 264, 6014},
	{"web server", "Flash (paper)", 7226, 0},
	{"web server", "Flux (paper)", 10 + 571, 3297},
	{"web server", "Haboob (paper)", 2263, 14100},
	{"video on demand", "Aspen (paper)", 88 + 339, 5580},
	{"video on demand", "threads, by hand (paper)", 809, 0},
}

// writeLines writes how many lines of code each program has, and its system, without blank
// lines and comments (Aspen, Table 2).
func writeLines(ctx context.Context, root string, out io.Writer) error {
	tab := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tab, "work\tsystem\tuser\tsystem\t")
	for _, p := range programs {
		user, library := 0, 0
		for _, name := range p.user {
			n, err := codeLines(filepath.Join(root, name))
			if err != nil {
				return err
			}
			user += n
		}
		if len(p.library) > 0 {
			files, err := libraryFiles(ctx, root, p.library)
			if err != nil {
				return err
			}
			for _, name := range files {
				n, err := codeLines(name)
				if err != nil {
					return err
				}
				library += n
			}
		}
		fmt.Fprintf(tab, "%s\t%s\t%d\t%s\t\n", p.work, p.system, user, orDash(library))
	}
	for _, p := range publishedLines {
		fmt.Fprintf(tab, "%s\t%s\t%d\t%s\t\n", p.work, p.system, p.user, orDash(p.lib))
	}
	return tab.Flush()
}

// libraryFiles are the sources, without tests, of packages and of all of their module that they import.
func libraryFiles(ctx context.Context, root string, packages []string) ([]string, error) {
	of := ".Module.Main"
	if packages[0] == peerLibrary {
		of, root = fmt.Sprintf("eq .Module.Path %q", peerLibrary), filepath.Join(root, "bench", "peers")
	}
	format := `{{if .Module}}{{if ` + of + `}}{{$dir := .Dir}}{{range .GoFiles}}{{$dir}}/{{.}}{{"\n"}}{{end}}{{end}}{{end}}`
	list := exec.CommandContext(ctx, "go", append([]string{"list", "-deps", "-f", format}, packages...)...)
	list.Dir, list.Env = root, append(os.Environ(), "GOWORK=off")
	text, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	return strings.Fields(string(text)), nil
}

func orDash(n int) string {
	if n == 0 {
		return "–"
	}
	return fmt.Sprint(n)
}

// codeLines is how many lines of a Go file have code on them.
func codeLines(name string) (int, error) {
	source, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	var s scanner.Scanner
	file := token.NewFileSet().AddFile(name, -1, len(source))
	var bad error
	s.Init(file, source, func(at token.Position, text string) { bad = fmt.Errorf("%v: %s", at, text) }, 0)
	lines := map[int]bool{}
	for {
		at, kind, text := s.Scan()
		if kind == token.EOF {
			return len(lines), bad
		}
		if kind == token.SEMICOLON && text == "\n" { // inserted by the scanner
			continue
		}
		first := file.Line(at)
		for i := range 1 + strings.Count(text, "\n") {
			lines[first+i] = true
		}
	}
}
