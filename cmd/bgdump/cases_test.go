package main

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/graphview/lint"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// The programs in testdata/cases, which bgdump once misjudged, are built, run and looked at.
func TestProgramsThatWereMisjudged(t *testing.T) {
	goCommand, err := exec.LookPath("go")
	if err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	for name, c := range map[string]struct {
		says    []string // on the first screen
		checks  []string // findings that there must be
		harmful bool     // there may be warnings
	}{
		"leaf": {says: []string{"goroutines whose function is not known", "2 goroutines of it use", "not known"}, checks: []string{lint.CheckBusy}, harmful: true},
		"call": {says: []string{"goroutines are in a system call or a C function at main.slowCall (call.go:", "  system call main.slowCall  "}, checks: []string{lint.CheckThreads}},
		"cond": {says: []string{"cond main.(*queue).consume"}},
	} {
		t.Run(name, func(t *testing.T) {
			program, trace := filepath.Join(dir, name), filepath.Join(dir, name+".trace")
			if out, err := exec.Command(goCommand, "build", "-o", program, filepath.Join("testdata", "cases", name+".go")).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if out, err := exec.Command(program, trace).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			text := command(t, trace).ok(t)
			for _, want := range c.says {
				testenv.Contains(t, text, want)
			}
			testenv.True(t, !strings.Contains(text, "No goroutine has run"), "got\n%s", text)
			var found []lint.Finding
			testenv.Must(t, json.Unmarshal([]byte(command(t, "-lint", "-json", trace).out), &found))
			for _, check := range c.checks {
				testenv.True(t, slices.ContainsFunc(found, func(f lint.Finding) bool { return f.Check == check }), "%s is among %v", check, found)
			}
			for _, f := range found {
				if !c.harmful && f.Severity != lint.SeverityInfo {
					t.Errorf("%s %s of %s: %s", f.Severity, f.Check, f.Name, f.Message)
				}
			}
		})
	}
}
