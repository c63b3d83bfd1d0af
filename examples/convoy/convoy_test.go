//go:build linux

package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

const root = "../../"

// The README shows this program, what bgdump finds in it, and docs/convoy.svg, its graph. -update measures the last two anew;
// without it their words are compared, and their figures may differ.
func TestReadmeShowsTheProgramAndItsFinding(t *testing.T) {
	source, readme, picture := read(t, "main.go"), read(t, root+"README.md"), read(t, root+"docs/convoy.svg")
	program := source[strings.Index(source, "var mu"):]
	if !strings.Contains(readme, "```go\n"+program+"```\n") {
		t.Errorf("README.md does not show the program as it is:\n%s", program)
	}
	before, rest, _ := strings.Cut(readme, "After five seconds, with exit status 1:\n\n```\n")
	shown, after, ok := strings.Cut(rest, "```\n")
	if !ok {
		t.Fatal("README.md has no block behind \"After five seconds, with exit status 1:\"")
	}

	dir := t.TempDir()
	addr := free(t)
	other := filepath.Join(dir, "main.go")
	testenv.Must(t, os.WriteFile(other, []byte(strings.Replace(source, "localhost:6060", addr, 1)), 0o600))
	here, err := filepath.Abs("main.go")
	testenv.Must(t, err)
	overlay := filepath.Join(dir, "overlay.json")
	testenv.Must(t, os.WriteFile(overlay, fmt.Appendf(nil, `{"Replace": {%q: %q}}`, here, other), 0o600))
	testenv.Run(t, "", nil, "go", "build", "-trimpath", "-overlay", overlay, "-o", filepath.Join(dir, "convoy"), ".")
	testenv.Run(t, "", nil, "go", "build", "-trimpath", "-o", filepath.Join(dir, "bgdump"), root+"cmd/bgdump")
	convoy := exec.Command(filepath.Join(dir, "convoy"))
	testenv.Must(t, convoy.Start())
	t.Cleanup(func() {
		convoy.Process.Kill()
		convoy.Wait()
	})
	testenv.Until(t, "the program listens", func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	seconds := "1" // enough for words
	if testenv.Updating() {
		seconds = "5" // as the README says
	}
	dump, drawn := filepath.Join(dir, "dump"), filepath.Join(dir, "graph.svg")
	testenv.Run(t, "", nil, filepath.Join(dir, "bgdump"), "-seconds", seconds, "-dump", "-o", dump, "http://"+addr)
	testenv.Run(t, "", nil, filepath.Join(dir, "bgdump"), "-svg", "-o", drawn, dump)
	lint, _ := exec.Command(filepath.Join(dir, "bgdump"), "-lint", dump).Output() // it ends with 1, as there is a finding
	_, found, _ := strings.Cut(string(lint), "\n\n")
	if testenv.Updating() {
		testenv.Must(t, os.WriteFile(root+"README.md", []byte(before+"After five seconds, with exit status 1:\n\n```\n"+found+"```\n"+after), 0o644))
		testenv.Must(t, os.WriteFile(root+"docs/convoy.svg", []byte(read(t, drawn)), 0o644))
		return
	}
	// A busy machine may add findings of its own below the first, and boxes for them.
	if first := wordsOf(found); !strings.HasPrefix(first, wordsOf(shown)) {
		t.Errorf("words of the finding: got %q, want %q", first, wordsOf(shown))
	}
	drawnBoxes := boxes(read(t, drawn))
	for _, box := range boxes(picture) {
		if !slices.Contains(drawnBoxes, box) {
			t.Errorf("no box %q among %q", box, drawnBoxes)
		}
	}
}

var figure = regexp.MustCompile(`[0-9][0-9,.]*(ns|µs|ms|s)?\b`)

// wordsOf is a text without figures and line breaks.
func wordsOf(text string) string {
	return strings.Join(strings.Fields(figure.ReplaceAllString(text, "N")), " ")
}

var inBox = regexp.MustCompile(`<rect [^>]*>((?:\s*<text [^>]*>[^<]*</text>)+)\s*(?:<circle|</g>)`)
var text = regexp.MustCompile(`>([^<>]+)</text>`)

// boxes are the texts in the boxes of a picture, without figures.
func boxes(svg string) []string {
	var out []string
	for _, box := range inBox.FindAllStringSubmatch(svg, -1) {
		var lines []string
		for _, line := range text.FindAllStringSubmatch(box[1], -1) {
			lines = append(lines, strings.ReplaceAll(wordsOf(line[1]), "goroutines", "goroutine"))
		}
		if len(lines) > 1 { // others are labels of lines
			out = append(out, strings.Join(lines, " | "))
		}
	}
	slices.Sort(out)
	return out
}

func free(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	testenv.Must(t, err)
	defer ln.Close()
	return ln.Addr().String()
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	testenv.Must(t, err)
	return string(content)
}
