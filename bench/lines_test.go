package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestLinesOfCode(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.go")
	const source = "// comment\n\npackage a\n\n/* a\nb */\nvar x = `1\n\n3` // with a comment\n\nfunc f() {\n\treturn /* c */\n}\n"
	testenv.Must(t, os.WriteFile(name, []byte(source), 0o666))
	testenv.Got(codeLines(name))(t, 7, "lines")
	testenv.Fails(t, testenv.Err(codeLines(name+"x")), "a file that is not there has lines")
}

func TestLinesOfTheExamples(t *testing.T) {
	var out bytes.Buffer
	testenv.Must(t, writeLines(t.Context(), "..", &out))
	for _, want := range []string{"flow graph", "callbacks (gnet)", "goroutines", "Haboob (paper)"} {
		testenv.Contains(t, out.String(), want)
	}
	testenv.Fails(t, writeLines(t.Context(), t.TempDir(), io.Discard), "outside of the repository there was no error")
}
