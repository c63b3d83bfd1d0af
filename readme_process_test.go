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
)

// The servers that the README shows compile, and exit with 0 on Ctrl-C.
func TestReadmeServersStop(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	anyPort := regexp.MustCompile(`127\.0\.0\.1:\d+`)
	servers := 0
	for i, block := range strings.Split(string(text), "```go\npackage main\n")[1:] {
		code, _, _ := strings.Cut(block, "\n```")
		dir := t.TempDir()
		source, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
		code = anyPort.ReplaceAllString("package main\n"+code, "127.0.0.1:0")
		if err := os.WriteFile(source, []byte(code), 0o600); err != nil {
			t.Fatal(err)
		}
		inModule := filepath.Join(here, fmt.Sprintf("readme%d", i), "main.go")
		overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{inModule: source}})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "overlay"), overlay, 0o600); err != nil {
			t.Fatal(err)
		}
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
	if servers < 2 {
		t.Errorf("the README has %d servers, want 2 or more", servers)
	}
}

// stopsWell sends a signal as soon as the program listens.
func stopsWell(t *testing.T, program string) {
	var out strings.Builder
	cmd := exec.Command(program)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
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
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	for line := range strings.Lines(out.String()) { // a slow machine may cause warnings of the runtime
		if !strings.Contains(line, `level=WARN msg="task: `) && !strings.Contains(line, ` WARN task: `) {
			t.Errorf("it says %s", line)
		}
	}
	if err != nil {
		t.Errorf("%v: %s", err, &out)
	}
}
