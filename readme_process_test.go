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
	here, dir := testenv.Need(os.Getwd())(t), t.TempDir()
	anyPort := regexp.MustCompile(`127\.0\.0\.1:\d+`)
	sources := map[string]string{} // what stands for which file of this module
	var all, servers []string
	for i, block := range strings.Split(string(text), "```go\npackage main\n")[1:] {
		code, _, _ := strings.Cut(block, "\n```")
		name := fmt.Sprintf("readme%d", i)
		source := filepath.Join(dir, name+".go")
		testenv.Must(t, os.WriteFile(source, []byte(anyPort.ReplaceAllString("package main\n"+code, "127.0.0.1:0")), 0o600))
		sources[filepath.Join(here, name, "main.go")] = source
		all = append(all, "./"+name)
		if strings.Contains(code, "netpoll.Listen(") { // the others listen on a port that may be taken
			servers = append(servers, name)
		}
	}
	testenv.AtLeast(t, len(servers), 2, "the README has N servers")
	overlay := filepath.Join(dir, "overlay")
	testenv.Must(t, os.WriteFile(overlay, testenv.Need(json.Marshal(map[string]any{"Replace": sources}))(t), 0o600))
	testenv.Run(t, "", nil, "go", append([]string{"build", "-overlay", overlay, "-o", dir + "/"}, all...)...)
	for _, name := range servers {
		stopsWell(t, filepath.Join(dir, name))
	}
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
