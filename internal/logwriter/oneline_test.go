package logwriter

import (
	"errors"
	"io"
	"io/fs"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A record is one line without escaped line breaks, whatever its message and values are.
func TestNewLoggerWritesOneLine(t *testing.T) {
	var out strings.Builder
	log := NewLogger(&out).With("with", "a\nb")
	log.Error("http: panic\n\nmain.f()\n\t/src/a.go:3 +0x1d\n", "error", errors.Join(io.EOF, fs.ErrClosed), "text", "c:\nd", "n", 7, "nil", nil)
	_, line, _ := strings.Cut(out.String(), " level=")
	testenv.Equal(t, line, `ERROR msg="http: panic; main.f /src/a.go:3" with="a; b" error="EOF; file already closed" text="c: d" n=7 nil=<nil>`+"\n", "the line")
}

func TestOneLine(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", ""},
		{"one line", "closed", "closed"},
		{"joined errors", "a: closed\n\nb: closed\n", "a: closed; b: closed"},
		{"stack", "goroutine 7 [running]:\nmain.(*T).f(0x1, {0x2, 0x3})\n\t/src/a.go:3 +0x1d\nmain.g(...)\n\t/src/b.go:4\ncreated by main.main in goroutine 1\n\t/src/c.go:5 +0x9\n",
			"goroutine 7 [running]: main.(*T).f /src/a.go:3 < main.g /src/b.go:4 < created by main.main in goroutine 1 /src/c.go:5"},
		{"two stacks", "goroutine 7 [running]:\nmain.f()\n\t/src/a.go:3 +0x1d\n\ngoroutine 8 [syscall]:\nmain.g()\n\t/src/b.go:4 +0x1\n",
			"goroutine 7 [running]: main.f /src/a.go:3; goroutine 8 [syscall]: main.g /src/b.go:4"},
		{"text that looks like a frame", "unexpected )\n\tat line 3", "unexpected ) at line 3"},
		{"remark between frames", "main.f()\n\t/src/a.go:3 +0x1d\nit was linked by:\nmain.g()\n\t/src/b.go:4\n", "main.f /src/a.go:3; it was linked by: main.g /src/b.go:4"},
	} {
		t.Run(c.name, func(t *testing.T) { testenv.Equal(t, OneLine(c.text), c.want, "the line") })
	}
	line := OneLine(string(debug.Stack()))
	if !strings.Contains(line, "logwriter.TestOneLine ") || strings.ContainsAny(line, "\n\t") {
		t.Errorf("the stack of the test is %q", line)
	}
}
