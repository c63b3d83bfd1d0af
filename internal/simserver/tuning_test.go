//go:build linux

package simserver

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

var (
	tune    = flag.String("sim.tune", "^(burstWait|bodyEasy)$", "halve and double the constants that match, see TestTuning")
	aims    = flag.String("sim.aims", "TestOneLockOfTwo|TestOverloadOfWork|TestMixedResponses|TestBackendStep", "tests that are run with each value")
	tableTo = flag.String("sim.table", "", "file for the table of TestTuning")
)

// tunedPackages have a file constants.go.
var tunedPackages = []string{"admit", "sched"}

// constant is a line of constants.go: its name, its value, and the remark.
var constant = regexp.MustCompile(`(?m)^(\t(\w+)\s+= )(.*?)(\s*//.*)?$`)

// TestTuning says which of the simulated servers fail with half and with twice of each tuning constant. It builds the tests
// anew for each value.
func TestTuning(t *testing.T) {
	testenv.NeedsFull(t, "other builds of the tests, and many runs")
	if testenv.Race {
		t.Skip("these are many requests; the seeds look for races")
	}
	want := testenv.Need(regexp.Compile(*tune))(t)
	if failed := failures(t, nil); failed != "–" {
		t.Fatalf("with the constants as they are these fail: %s", failed)
	}
	table := "| constant | value | halved | doubled |\n|---|---|---|---|\n"
	for _, name := range tunedPackages {
		path := testenv.Need(filepath.Abs("../" + name + "/constants.go"))(t)
		text := string(testenv.Need(os.ReadFile(path))(t))
		for _, at := range constant.FindAllStringSubmatchIndex(text, -1) {
			part := func(i int) string { return text[at[2*i]:at[2*i+1]] }
			if !want.MatchString(part(2)) {
				continue
			}
			with := func(operation string) string {
				return failures(t, map[string]string{path: text[:at[6]] + "(" + part(3) + ")" + operation + text[at[7]:]})
			}
			table += fmt.Sprintf("| `%s.%s` | `%s` | %s | %s |\n", name, part(2), part(3), with(" / 2"), with(" * 2"))
			if *tableTo != "" {
				testenv.Must(t, os.WriteFile(*tableTo, []byte(table), 0o644))
			}
		}
	}
	testenv.AtLeast(t, strings.Count(table, "\n"), 3, "lines of the table: no constant matches %s", *tune)
	t.Logf("\n%s", table)
}

// failures lists the tests that fail where the files with these paths have another text.
func failures(t *testing.T, texts map[string]string) string {
	dir := t.TempDir()
	replaced := map[string]string{}
	for path, text := range texts {
		replaced[path] = filepath.Join(dir, "constants.go")
		testenv.Must(t, os.WriteFile(replaced[path], []byte(text), 0o600))
	}
	overlay, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "tests")
	testenv.Must(t, os.WriteFile(overlay, testenv.Need(json.Marshal(map[string]any{"Replace": replaced}))(t), 0o600))
	if out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", binary).CombinedOutput(); err != nil {
		t.Errorf("the tests do not compile: %s", out)
		return "does not compile"
	}
	cmd := exec.CommandContext(t.Context(), binary, "-test.run", *aims, "-test.timeout", "5m")
	cmd.Env = append(os.Environ(), "CAPRICCIO_TEST=")
	out, err := cmd.CombinedOutput()
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^--- FAIL: Test(\w+)`).FindAllStringSubmatch(string(out), -1) {
		names = append(names, m[1])
	}
	switch {
	case err == nil && len(names) == 0:
		return "–"
	case bytes.Contains(out, []byte("panic: test timed out")):
		names = append(names, "no end")
	case len(names) == 0:
		return "panics"
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}
