package capriccio_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// Limits of documents. A page that outgrows its limit is two pages, or has figures that belong in docs/results.
const (
	readmeWords   = 900
	pageLines     = 150
	decisions     = 20
	decisionLines = 40
)

// longPages are pages with more lines: a format that is described in full, and the map of the code.
var longPages = []string{"docs/dump-format.md", "docs/architecture.md"}

func glob(t *testing.T, pattern string) []string {
	return testenv.Need(filepath.Glob(pattern))(t)
}

// documents are README and its like, and the pages that are written by hand.
func documents(t *testing.T) []string { return append(glob(t, "*.md"), glob(t, "docs/*.md")...) }

func read(t *testing.T, file string) string { return string(testenv.Need(os.ReadFile(file))(t)) }

func TestDocumentsAreShort(t *testing.T) {
	testenv.AtMost(t, len(strings.Fields(read(t, "README.md"))), readmeWords, "words of README.md")
	for _, file := range glob(t, "docs/*.md") {
		if !slices.Contains(longPages, file) {
			testenv.AtMost(t, strings.Count(read(t, file), "\n"), pageLines, "lines of %s", file)
		}
	}
	all := glob(t, "docs/adr/0*.md")
	testenv.AtMost(t, len(all), decisions, "decisions")
	for _, file := range all {
		testenv.AtMost(t, strings.Count(read(t, file), "\n"), decisionLines, "lines of %s", file)
		testenv.Contains(t, read(t, "docs/adr/README.md"), "("+filepath.Base(file)+")")
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^) ]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	code    = regexp.MustCompile("(?s)```.*?```|`[^`\n]+`")
	marks   = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors are what links to parts of the document may name.
func anchors(text string) (all []string) {
	for _, h := range heading.FindAllStringSubmatch(text, -1) {
		all = append(all, strings.ReplaceAll(marks.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-"))
	}
	return all
}

func TestDocumentsLinkToWhatThereIs(t *testing.T) {
	files := append(documents(t), glob(t, "docs/*/*.md")...)
	links := 0
	for _, file := range append(files, glob(t, "*/README.md")...) {
		for _, target := range link.FindAllStringSubmatch(code.ReplaceAllString(read(t, file), ""), -1) {
			if strings.Contains(target[1], "://") {
				continue
			}
			links++
			to, part, hasPart := strings.Cut(target[1], "#")
			path := file
			if to != "" {
				path = filepath.Join(filepath.Dir(file), to)
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s: %v", file, err)
			} else if hasPart && !slices.Contains(anchors(read(t, path)), part) {
				t.Errorf("%s: %s has no heading %q", file, path, part)
			}
		}
	}
	testenv.AtLeast(t, links, 300, "links")
}

// blocks are the texts of the document that begin with ```language.
func blocks(text, language string) (all []string) {
	for _, part := range strings.Split(text, "\n```"+language+"\n")[1:] {
		block, _, _ := strings.Cut(part, "\n```")
		all = append(all, block)
	}
	return all
}

// The cookbook, the README and the page about tests show code that is compiled and run.
func TestDocumentsShowTheExamples(t *testing.T) {
	var sources strings.Builder
	for _, pattern := range []string{"examples/convoy/*.go", "examples/cookbook/*.go"} {
		for _, file := range glob(t, pattern) {
			sources.WriteString(unindented(read(t, file)))
		}
	}
	for _, file := range []string{"README.md", "docs/cookbook.md", "docs/testing.md"} {
		for _, block := range blocks(unindented(read(t, file)), "go") {
			for part := range strings.SplitSeq(block, "\n\n") { // between these the page may leave something out
				if !strings.HasPrefix(block, "package ") && !strings.Contains(sources.String(), part) {
					t.Errorf("%s shows what no example has:\n%s", file, part)
				}
			}
		}
	}
}

// unindented is a text without tabs, for blocks that show the middle of a function.
func unindented(text string) string { return strings.ReplaceAll(text, "\t", "") }

// A command of a document: what is behind a program of this module, up to the next command.
var command = regexp.MustCompile(`(?:^|[\s` + "`" + `|])(?:go run (?:\./|github\.com/capriccio-go/capriccio/)cmd/)?(bgdump|knot|stackplan)(?:@latest)?((?: +[^\s` + "`" + `|&;]+)+)`)

var flagName = regexp.MustCompile(`(?:^| )-{1,2}([a-z][a-z0-9-]*)`)

// Commands of the documents have flags that there are, and experiments that there are.
func TestCommandsOfDocumentsHaveTheFlagsThatThereAre(t *testing.T) {
	dir := t.TempDir()
	testenv.Run(t, "", nil, "go", "build", "-o", dir+"/", "./cmd/bgdump", "./cmd/knot", "./cmd/stackplan")
	flags := map[string]string{}
	for _, name := range []string{"bgdump", "knot", "stackplan"} {
		for _, args := range [][]string{{"-help"}, {"-help", "all"}, {"help", "report"}, {"help", "build"}, {"help", "test"}, {"help", "static"}, {"help", "hash"}, {"test", "-help"}} {
			out, _ := exec.Command(filepath.Join(dir, name), args...).CombinedOutput()
			flags[name] += string(out)
		}
	}
	found := 0
	for _, file := range documents(t) {
		text := read(t, file)
		for _, block := range append(blocks(text, ""), blocks(text, "yaml")...) {
			for line := range strings.SplitSeq(block, "\n") {
				line, _, _ = strings.Cut(line, "   ") // what it does stands to the right
				for _, c := range command.FindAllStringSubmatch(line, -1) {
					found++
					for _, f := range flagName.FindAllStringSubmatch(c[2], -1) {
						if !regexp.MustCompile(`(^|\s)-` + f[1] + `\b`).MatchString(flags[c[1]]) {
							t.Errorf("%s: %s has no flag -%s: %s", file, c[1], f[1], line)
						}
					}
				}
			}
		}
	}
	testenv.AtLeast(t, found, 30, "commands")
}
