package knot

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	capriccio "github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

func stormSite(t *testing.T) string {
	root := t.TempDir()
	for name, content := range map[string][]byte{"small": []byte(stormSmall), "large": make([]byte, stormLarge), "huge": nil} {
		testenv.Must(t, os.WriteFile(filepath.Join(root, name), content, 0o644))
	}
	testenv.Must(t, os.Truncate(filepath.Join(root, "huge"), stormHuge))
	return root
}

// knotProcess is a running knot.
type knotProcess struct {
	t      *testing.T
	cmd    *exec.Cmd
	addr   *net.TCPAddr
	stderr *testenv.Buffer
	ended  chan error // gets what Wait returned
	stop   func()     // SIGTERM, and wait for the end; called by Cleanup at the latest
}

// startKnot starts knot with a limit on open files, unless files is 0.
func startKnot(t *testing.T, program, root string, files int, args []string) *knotProcess {
	t.Helper()
	args = append([]string{"-root", root, "-addr", "127.0.0.1:0", "-quiet"}, args...)
	k := &knotProcess{t: t, stderr: new(testenv.Buffer), ended: make(chan error, 1)}
	k.cmd = exec.Command(program, args...)
	if files > 0 {
		shell, err := exec.LookPath("sh")
		if err != nil {
			t.Skip("no shell here to limit descriptors with:", err)
		}
		script := fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, files)
		k.cmd = exec.Command(shell, append([]string{"-c", script, program}, args...)...)
	}
	// Here every answer is looked at, and a machine that stands still for a moment is overloaded.
	// It has as many loops as awaitFiles takes it to have.
	k.cmd.Env = append(os.Environ(), capriccio.EnvOverload+"=wait", fmt.Sprint("GOMAXPROCS=", runtime.GOMAXPROCS(0)))
	r, w := io.Pipe()
	k.cmd.Stdout, k.cmd.Stderr = w, k.stderr
	testenv.Must(t, k.cmd.Start())
	go func() {
		err := k.cmd.Wait()
		w.Close()
		k.ended <- err
	}()
	k.stop = sync.OnceFunc(k.end)
	t.Cleanup(k.stop)
	line, err := bufio.NewReader(r).ReadString('\n')
	host := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(line)
	if host == "" {
		t.Fatalf("knot says %q, %v\n%s", line, err, k.stderr)
	}
	k.addr = testenv.Need(net.ResolveTCPAddr("tcp", host))(t)
	return k
}

func (k *knotProcess) end() {
	k.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-k.ended:
		if err != nil {
			k.t.Errorf("after SIGTERM: %v\n%s", err, k.stderr)
		}
	case <-time.After(stormPatience):
		k.t.Errorf("still running %v after SIGTERM\n%s", stormPatience, k.stderr)
		k.cmd.Process.Kill()
		<-k.ended
	}
}

// dial is for any goroutine.
func (k *knotProcess) dial() (*net.TCPConn, error) {
	nc, err := net.DialTCP("tcp", nil, k.addr)
	if err == nil {
		err = nc.SetDeadline(time.Now().Add(stormPatience))
	}
	return nc, err
}

// reset ends a connection by RST.
func reset(nc *net.TCPConn) {
	nc.SetLinger(0)
	nc.Close()
}

// get asks for /small on a connection of its own.
func (k *knotProcess) get() (status int, err error) {
	nc, err := k.dial()
	if err != nil {
		return 0, err
	}
	defer nc.Close()
	return ask(nc)
}

// ask asks for /small; an answer of 200 must be whole.
func ask(nc *net.TCPConn) (status int, err error) {
	if _, err := io.WriteString(nc, stormRequest); err != nil {
		return 0, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(nc), nil)
	if err != nil {
		return 0, err
	}
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode == 200 && string(body) != stormSmall {
		err = fmt.Errorf("body %q", body)
	}
	return resp.StatusCode, err
}

func (k *knotProcess) mustServe(when string) {
	k.t.Helper()
	if status, err := k.get(); status != 200 || err != nil {
		k.t.Fatalf("%s: status %d, %v\n%s", when, status, err, k.stderr)
	}
}

// await looks again and again whether cond holds.
func (k *knotProcess) await(what string, cond func() bool) {
	k.t.Helper()
	patience := time.After(stormPatience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-patience:
			k.t.Fatalf("%s: not after %v; %d descriptors\n%s", what, stormPatience, k.files(), k.stderr)
		}
	}
}

// files is how many descriptors the process has open.
func (k *knotProcess) files() int {
	entries := testenv.Need(os.ReadDir(fmt.Sprintf("/proc/%d/fd", k.cmd.Process.Pid)))(k.t)
	return len(entries)
}

// settledFiles is files once the process has served a connection, and closed
// it: it is only by closing that it ends a connection whose client has.
func (k *knotProcess) settledFiles() int {
	k.t.Helper()
	k.wholeResponse()
	return k.files()
}

// awaitFiles waits until at most n are open. A loop opens its ring when it first
// has to wait for a disk, and keeps it.
func (k *knotProcess) awaitFiles(most int) {
	k.t.Helper()
	most += runtime.GOMAXPROCS(0)
	k.await(fmt.Sprintf("at most %d descriptors", most), func() bool { return k.files() <= most })
}

// resident is the process's memory in bytes.
func (k *knotProcess) resident() int {
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", k.cmd.Process.Pid))
	fields := strings.Fields(string(statm))
	if err != nil || len(fields) < 2 {
		k.t.Fatalf("statm: %q, %v", statm, err)
	}
	pages := testenv.Need(strconv.Atoi(fields[1]))(k.t)
	return pages * os.Getpagesize()
}

// cpu is the processor time used so far.
func (k *knotProcess) cpu() time.Duration {
	const tick = time.Second / 100 // USER_HZ, proc_pid_stat(5)
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", k.cmd.Process.Pid))
	// The name, in parentheses, may hold anything.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if err != nil || len(fields) < 13 {
		k.t.Fatalf("stat: %q, %v", stat, err)
	}
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	testenv.Must(k.t, errors.Join(err1, err2))
	return time.Duration(user+system) * tick
}
