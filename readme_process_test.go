package capriccio_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// The servers that the README shows compile, and exit with 0 on Ctrl-C.
func TestReadmeServersStop(t *testing.T) {
	text := testenv.Need(os.ReadFile("README.md"))(t)
	here := testenv.Need(os.Getwd())(t)
	anyPort := regexp.MustCompile(`127\.0\.0\.1:\d+`)
	servers := 0
	for i, block := range strings.Split(string(text), "```go\npackage main\n")[1:] {
		code, _, _ := strings.Cut(block, "\n```")
		dir := t.TempDir()
		source, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
		code = anyPort.ReplaceAllString("package main\n"+code, "127.0.0.1:0")
		testenv.Must(t, os.WriteFile(source, []byte(code), 0o600))
		inModule := filepath.Join(here, fmt.Sprintf("readme%d", i), "main.go")
		overlay := testenv.Need(json.Marshal(map[string]any{"Replace": map[string]string{inModule: source}}))(t)
		testenv.Must(t, os.WriteFile(filepath.Join(dir, "overlay"), overlay, 0o600))
		build := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay"), "-o", program, fmt.Sprintf("./readme%d", i))
		if out, err := build.CombinedOutput(); err != nil {
			t.Errorf("program %d of the README: %v\n%s", i, err, out)
			continue
		}
		if strings.Contains(code, "netpoll.Listen(") { // the others listen on a port that may be taken
			servers++
			stopsWell(t, program)
		}
	}
	testenv.AtLeast(t, servers, 2, "the README has N servers")
}

// stopsWell sends a signal as soon as the program listens.
func stopsWell(t *testing.T, program string) {
	var out strings.Builder
	cmd := exec.Command(program)
	cmd.Stdout, cmd.Stderr = &out, &out
	testenv.Must(t, cmd.Start())
	defer cmd.Process.Kill()
	listens := func() bool {
		fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", cmd.Process.Pid))
		for _, fd := range fds {
			if to, _ := os.Readlink(fd); strings.HasPrefix(to, "socket:") {
				return true
			}
		}
		return false
	}
	for deadline := time.Now().Add(time.Minute); !listens(); {
		if time.Now().After(deadline) {
			t.Fatalf("it does not listen: %s", &out)
		}
		<-time.After(5 * time.Millisecond)
	}
	testenv.Must(t, cmd.Process.Signal(syscall.SIGINT))
	err := cmd.Wait()
	if err != nil || complaints(out.String()) != "" {
		t.Errorf("%v: %s", err, &out)
	}
}

// complaints is what stands in a log without the warnings of the runtime about tasks, which a slow
// machine may cause.
func complaints(log string) string {
	var kept strings.Builder
	for line := range strings.Lines(log) {
		if !strings.Contains(line, " WARN task: a task ") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}
