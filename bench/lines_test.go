package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestLinesOfCode(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.go")
	const source = "// comment\n\npackage a\n\n/* a\nb */\nvar x = `1\n\n3` // with a comment\n\nfunc f() {\n\treturn /* c */\n}\n"
	testenv.Must(t, os.WriteFile(name, []byte(source), 0o666))
	if n, err := codeLines(name); n != 7 || err != nil {
		t.Errorf("%d lines, %v; want 7", n, err)
	}
	if _, err := codeLines(name + "x"); err == nil {
		t.Error("a file that is not there has lines")
	}
}

func TestLinesOfTheExamples(t *testing.T) {
	var out bytes.Buffer
	testenv.Must(t, writeLines(t.Context(), "..", &out))
	for _, want := range []string{"flow graph", "callbacks (gnet)", "goroutines", "Haboob (paper)"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	if err := writeLines(t.Context(), t.TempDir(), io.Discard); err == nil {
		t.Error("outside of the repository there was no error")
	}
}
