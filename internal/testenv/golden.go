package testenv

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files in testdata anew")

// Updating reports whether the flag -update is given: tests then write the files that they compare with.
func Updating() bool { return *update }

// Golden fails the test if got is not what the file testdata/name holds, and shows the first line
// that differs. With the flag -update it writes the file instead.
func Golden(t testing.TB, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		Must(t, os.WriteFile(path, got, 0o644))
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; -update writes it", err)
	}
	if bytes.Equal(got, want) {
		return
	}
	have, wanted := bytes.Split(got, []byte("\n")), bytes.Split(want, []byte("\n"))
	line := 0
	for line < min(len(have), len(wanted)) && bytes.Equal(have[line], wanted[line]) {
		line++
	}
	show := func(lines [][]byte) []byte {
		if line < len(lines) {
			return lines[line]
		}
		return []byte("(end of file)")
	}
	t.Errorf("%s, line %d (-update accepts it):\n got %q\nwant %q\nall of it:\n%s", path, line+1, show(have), show(wanted), got)
}
