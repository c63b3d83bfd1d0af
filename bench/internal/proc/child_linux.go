package proc

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Command says what to start and where.
type Command struct {
	Path string
	Args []string
	Env  []string // added to the driver's own
	Core int      // the only core it may use, or AnyCore
	// Groups are cgroups that it is in from the start, as it may look at their limits when it starts; nil is none.
	Groups      []*Group
	Descriptors int // limit of open descriptors; 0: the driver's
}

// command is what is executed: a shell first, if there are limits to be set.
func (c *Command) command() *exec.Cmd {
	script := ""
	if c.Descriptors > 0 {
		script = fmt.Sprintf("ulimit -n %d && ", c.Descriptors)
	}
	for _, g := range c.Groups {
		if g != nil {
			script += "echo $$ >" + g.dir + "/cgroup.procs && "
		}
	}
	if script == "" {
		return exec.Command(c.Path, c.Args...)
	}
	return exec.Command("/bin/sh", append([]string{"-c", script + `exec "$0" "$@"`, c.Path}, c.Args...)...)
}

// Child is a running process. It belongs to one goroutine, Close apart.
type Child struct {
	name   string // the program's, for errors
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Scanner
	out    *os.File // what stdout scans
	stderr *complaint
	ended  chan struct{} // closed when Wait has returned
	err    error         // of Wait; read after ended
}

// Start starts a child that dies with the driver. Its standard input stays open
// until Close, so that a server can also see its end there.
func Start(c Command) (*Child, error) {
	cmd := c.command()
	cmd.Env = append(os.Environ(), c.Env...)
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	child := &Child{name: filepath.Base(c.Path), cmd: cmd, stderr: &complaint{}, ended: make(chan struct{})}
	cmd.Stderr = child.stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	// Not StdoutPipe: Wait must not close the reading end under the scanner.
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout = w
	err = onCore(c.Core, cmd.Start)
	w.Close()
	if err != nil {
		r.Close()
		stdin.Close()
		return nil, fmt.Errorf("start %s: %w", filepath.Base(c.Path), err)
	}
	child.stdin, child.stdout, child.out = stdin, bufio.NewScanner(r), r
	go func() {
		child.err = cmd.Wait()
		close(child.ended)
	}()
	return child, nil
}

// PID is the process id.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Ended is closed when the child has ended.
func (c *Child) Ended() <-chan struct{} { return c.ended }

// KilledBy is the signal that has ended the child, 0 if it has not ended, or otherwise.
func (c *Child) KilledBy() syscall.Signal {
	select {
	case <-c.ended:
	default:
		return 0
	}
	if status, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return status.Signal()
	}
	return 0
}

// Signal sends a signal to the child; one that has ended is no error.
func (c *Child) Signal(s syscall.Signal) {
	_ = c.cmd.Process.Signal(s)
}

// Tell writes a line to the child's standard input.
func (c *Child) Tell(line string) error {
	_, err := io.WriteString(c.stdin, line+"\n")
	return err
}

// Line waits for the next line the child prints. At its end the error tells how
// the child ended and what it said on standard error.
func (c *Child) Line(ctx context.Context) (string, error) {
	type read struct {
		line string
		ok   bool
	}
	got := make(chan read, 1)
	go func() {
		ok := c.stdout.Scan()
		got <- read{c.stdout.Text(), ok}
	}()
	select {
	case r := <-got:
		if r.ok {
			return r.line, nil
		}
		return "", c.failure("printed nothing more")
	case <-ctx.Done():
		c.Close()
		<-got
		return "", fmt.Errorf("%s: %w%s", c.name, context.Cause(ctx), c.stderr.quoted())
	}
}

// Wait waits until the child has ended by itself and reports a bad end.
func (c *Child) Wait(ctx context.Context) error {
	select {
	case <-c.ended:
		if c.err != nil {
			return c.failure("failed")
		}
		return nil
	case <-ctx.Done():
		c.Close()
		return fmt.Errorf("%s: %w%s", c.name, context.Cause(ctx), c.stderr.quoted())
	}
}

// Close kills the child, with whatever it has started itself, and waits until
// it is gone. It may be called from any goroutine and more than once.
func (c *Child) Close() {
	select {
	case <-c.ended: // its number may belong to someone else by now
	default:
		_ = syscall.Kill(-c.PID(), syscall.SIGKILL)
	}
	c.stdin.Close()
	<-c.ended
	c.out.Close()
}

// failure waits a moment for the child's end to tell why it stopped talking.
func (c *Child) failure(what string) error {
	select {
	case <-c.ended:
	case <-time.After(2 * time.Second):
		c.Close()
	}
	status := "status 0"
	if c.err != nil {
		status = c.err.Error()
	}
	return fmt.Errorf("%s %s (%s)%s", c.name, what, status, c.stderr.quoted())
}

// Output runs a command to its end and returns the lines it printed. When ctx
// ends first the child is killed.
func Output(ctx context.Context, c Command) ([]string, error) {
	child, err := Start(c)
	if err != nil {
		return nil, err
	}
	defer child.Close()
	stop := context.AfterFunc(ctx, func() { child.Close() })
	defer stop()
	var lines []string
	for child.stdout.Scan() {
		lines = append(lines, child.stdout.Text())
	}
	if err := child.Wait(ctx); err != nil {
		return nil, errors.Join(context.Cause(ctx), err)
	}
	return lines, nil
}

// complaint keeps the first part of what a child wrote to standard error: what
// went wrong stands before the stacks.
type complaint struct {
	mu   sync.Mutex
	kept []byte // guarded by mu
}

const complaintLimit = 2 << 10

func (c *complaint) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	room := complaintLimit - len(c.kept)
	c.kept = append(c.kept, p[:min(room, len(p))]...)
	return len(p), nil
}

func (c *complaint) quoted() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := string(bytes.TrimSpace(c.kept))
	if text == "" {
		return ""
	}
	return ": " + text
}
