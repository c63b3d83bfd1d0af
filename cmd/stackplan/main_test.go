package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// stackplan runs stackplan in this process.
func stackplan(args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = run(context.Background(), args, &out, &err)
	return code, out.String(), err.String()
}

func TestHelp(t *testing.T) {
	var all bytes.Buffer
	for _, args := range [][]string{{"-help"}, {"help", "report"}, {"build", "-help"}, {"help", "test"}, {"help", "static"}} {
		code, stdout, stderr := stackplan(args...)
		if code != exitOK || stderr != "" {
			t.Errorf("%v: exit status %d, %s", args, code, stderr)
		}
		all.WriteString(strings.Repeat("=", 80) + "\n" + stdout)
	}
	for line := range strings.Lines(all.String()) {
		testenv.AtMost(t, len([]rune(strings.TrimRight(line, "\n"))), 88, "a line of N columns: %s", line)
	}
	testenv.Golden(t, "help.txt", all.Bytes())
}

// What was asked for and could not be written is no success.
func TestHelpThatCannotBeWritten(t *testing.T) {
	full := testenv.Need(os.OpenFile("/dev/full", os.O_WRONLY, 0))(t)
	defer full.Close()
	for _, args := range [][]string{{"-help"}, {"help", "report"}, {"version"}} {
		var stderr bytes.Buffer
		if code := run(context.Background(), args, full, &stderr); code != exitFailed || !strings.Contains(stderr.String(), "no space left") {
			t.Errorf("%q: exit status %d, %q", args, code, &stderr)
		}
	}
}

func TestWrongCommandLines(t *testing.T) {
	for _, c := range []struct {
		args string
		want string // in what is said
	}{
		{"", "report, build, test, static"},
		{"frobnicate", `"frobnicate" is no command`},
		{"build -maxpath 2GiB ./x", "want one like 512B, 2KB or 1MB"},
		{"build -maxpath 12 ./x", "at least 256B"},
		{"build -minchunk 1000MB ./x", "at most 64MB"},
		{"build -json ./x", "there is no flag -json"},
		{"build ./x ./y", "takes one package, not 2"},
		{"build ./x -- -overlay=y", "-overlay is how stackplan"},
		{"test ./x -- -tags=y", "before the --"},
		{"build ./x -- -o y", "before the --"},
		{"report ./x -- -race", "calls neither"},
		{"build -rewrite= ./x", "want one or more"},
		{"static -dump testdata/no-such-file ./x", "no such file"},
		{"build ./no-such-folder", "no-such-folder"},
		{"report ./no-such-folder", "stackplan report: "},
	} {
		t.Run(c.args, func(t *testing.T) {
			code, stdout, stderr := stackplan(strings.Fields(c.args)...)
			if code != exitFailed || stdout != "" || !strings.Contains(stderr, c.want) {
				t.Errorf("exit status %d; it said %q and %q, want %q in the latter", code, stdout, stderr, c.want)
			}
			if strings.Contains(stderr, " -: ") {
				t.Errorf("it names a place where it knows none: %q", stderr)
			}
		})
	}
}

func TestErrorsAreToldFromRemarksInFoldersWithBlanks(t *testing.T) {
	said := "# example.com/x\n../my folder/x.go:1:6: can inline f with cost 3 as: func() {}\n../my folder/x.go:2:1:   from y\n../my folder/x.go:9:2: undefined: z\n"
	testenv.Equal(t, errorLines([]byte(said)), "# example.com/x\n../my folder/x.go:9:2: undefined: z")
}

// A link, a pipe and a device are what they were, also if root writes to them.
func TestWriteFileLeavesWhatIsNoFile(t *testing.T) {
	write := func(name string) {
		t.Helper()
		testenv.Must(t, writeFile(name, func(w io.Writer) error { _, err := io.WriteString(w, "text"); return err }))
	}
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	testenv.Must(t, os.WriteFile(file, []byte("a longer one"), 0o644))
	testenv.Must(t, os.Symlink("file", link))
	write(link)
	if text, err := os.ReadFile(file); err != nil || string(text) != "text" {
		t.Errorf("what the link leads to holds %q, %v", text, err)
	}
	r, w, err := os.Pipe()
	testenv.Must(t, err)
	defer r.Close()
	write(fmt.Sprintf("/proc/self/fd/%d", w.Fd()))
	testenv.Must(t, w.Close())
	if text, err := io.ReadAll(r); err != nil || string(text) != "text" {
		t.Errorf("through the pipe came %q, %v", text, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("%v are in the folder, %v", left, err)
	}
}

const sample = "./testdata/sample"

func TestBuild(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "sample")
	keep := filepath.Join(t.TempDir(), "kept")
	source := testenv.Need(os.ReadFile(sample + "/main.go"))(t)
	code, stdout, stderr := stackplan("build", "-v", "-o", bin, "-keep", keep, sample)
	if code != exitOK || stdout != "" {
		t.Fatalf("exit status %d\n%s%s", code, stdout, stderr)
	}
	for _, want := range []string{"checkpoints at", "main.go:", "main.handshake", "round 1"} {
		testenv.Contains(t, stderr, want)
	}
	if after, err := os.ReadFile(sample + "/main.go"); err != nil || !bytes.Equal(after, source) {
		t.Errorf("the source has changed: %v", err)
	}
	testenv.Check(t, testenv.Err(os.Stat(filepath.Join(keep, "overlay.json"))))
	text, err := exec.Command(bin).CombinedOutput()
	if want := "deep: 18\nlinked: true\n"; err != nil || string(text) != want {
		t.Errorf("the program says %q, %v; want %q", text, err, want)
	}
}

// Flags of a test binary, which go test does not know, may have values: the package must not be taken for one.
func TestPackageComesBeforeFlagsOfTheTestBinary(t *testing.T) {
	for _, flags := range [][]string{{"-v", "-size", "5"}, {"-args", "-size=5"}, {"--args", "-o=x", "-tags", "y", "-overlay"}} {
		set, _, err := parse(append([]string{"test", "-tags=x", "./sub", "--"}, flags...), io.Discard, io.Discard)
		testenv.Must(t, err)
		testenv.EqualSlices(t, set.goTest("o.json", "m/sub"), append([]string{"test", "-overlay=o.json", "-tags=x", "m/sub"}, flags...), "arguments of go")
	}
}
