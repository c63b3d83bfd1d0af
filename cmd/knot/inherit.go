package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/addresses"
	"github.com/capriccio-go/capriccio/knot"
)

const (
	// firstInherited is the first descriptor behind standard input, output and error.
	firstInherited = 3
	// inheritVariable is how a knot tells the one that follows it what it has inherited: "1" or
	// "0" for a socket of the admin address, a comma, the number of sockets to serve, and, of a server with one address,
	// ",shared" if they are systemd's. They begin behind a pipe for the answer. A server with several addresses adds
	// ",of=" and the address of each socket, escaped as in a query, with "!" behind those of systemd's.
	inheritVariable = "KNOT_INHERIT"
	// successorPatience is how long a successor may take until it serves.
	successorPatience = 30 * time.Second
)

// An inheritance is what this process got from systemd (sd_listen_fds(3)) or from its predecessor.
type inheritance struct {
	sockets []addresses.Socket
	admin   *os.File // nil: none
	answer  *os.File // nil: no process waits
}

// inherit reads the environment, and takes out of it what is only for this process.
func inherit(getenv func(string) string, unsetenv func(string) error, pid int) (in inheritance, err error) {
	given := getenv(inheritVariable)
	systemd, n, fdNames := getenv("LISTEN_PID") == strconv.Itoa(pid), getenv("LISTEN_FDS"), getenv("LISTEN_FDNAMES")
	for _, name := range [...]string{inheritVariable, "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		unsetenv(name)
	}
	next, count := firstInherited, 0
	var names []string
	var all addresses.Socket // what is the same for all
	if given != "" {
		numbers, of, keyed := strings.Cut(given, ",of=")
		numbers, all.Shared = strings.CutSuffix(numbers, ",shared")
		admin, sockets, _ := strings.Cut(numbers, ",")
		count, err = strconv.Atoi(sockets)
		if keyed {
			names = strings.Split(of, ",")
		}
		if err != nil || count < 1 || admin != "0" && admin != "1" || keyed && len(names) != count {
			return in, fmt.Errorf("%s=%q is not what a knot hands over", inheritVariable, given)
		}
		in.answer = os.NewFile(uintptr(next), "answer")
		next++
		if admin == "1" {
			in.admin = os.NewFile(uintptr(next), "admin")
			next++
		}
	} else if systemd {
		if count, err = strconv.Atoi(n); err != nil || count < 1 || count > 1000 {
			return in, fmt.Errorf("LISTEN_FDS=%q; want a number of sockets", n)
		}
		all.Shared = true
		names = strings.Split(fdNames, ":")
	}
	for i := range count {
		s := all
		s.FD = next + i
		switch {
		case given != "" && names != nil:
			var name string
			name, s.Shared = strings.CutSuffix(names[i], "!")
			if s.Addr, err = url.QueryUnescape(name); err != nil {
				return in, fmt.Errorf("%s=%q: %w", inheritVariable, given, err)
			}
		case given == "":
			s.Name = "unknown" // as sd_listen_fds_with_names(3) has it
			if i < len(names) && names[i] != "" {
				s.Name = names[i]
			}
		}
		in.sockets = append(in.sockets, s)
	}
	return in, nil
}

// serving tells the predecessor that it can go.
func (in *inheritance) serving() {
	if in.answer != nil {
		in.answer.WriteString("ok")
		in.answer.Close()
		in.answer = nil
	}
}

// A handover replaces this process by another one that serves on the same sockets.
type handover struct {
	pid     int      // of this process
	program string   // path
	args    []string // without the program
	sockets func() ([]*os.File, []addresses.Socket, error)
	alone   func(replace func() error) error // calls replace while addresses do not change
	admin   *adminNow
	log     *slog.Logger
	notify  func(state string) error
	ctx     context.Context         // ends when this process is to stop
	done    context.CancelCauseFunc // ends ctx
}

// errStopping is why a process that is to end is not handed over: one that was told to stop would leave a successor
// that serves on, and one that has been handed over a second one.
var errStopping = errors.New("this process has handed over already, or was told to stop")

// onUpgrade answers signals, once there is something to hand over, until stop is called.
func (h *handover) onUpgrade(signals chan os.Signal, listening <-chan struct{}) (stop func()) {
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-listening:
		case <-quit:
			return
		}
		for range signals {
			switch err := h.alone(func() error { return h.replace(successorPatience) }); {
			case err == nil:
			case h.ctx.Err() != nil:
				h.log.Warn("knot: it is not handed over", "error", err)
			default:
				h.log.Error("knot: it could not be handed over; this process serves on", "program", h.program, "error", err)
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(quit)
		close(signals)
		<-ended
	}
}

// replace starts the successor and, when it serves, ends our own serving.
func (h *handover) replace(patience time.Duration) error {
	switch {
	case h.pid == 1:
		return errors.New("this is process 1: its end is that of all others in the container, the new one too. Start another container, or this one with an init (podman run --init)")
	case h.ctx.Err() != nil:
		return errStopping
	}
	pid, answer, err := h.start()
	if err != nil {
		return err
	}
	defer answer.Close()
	successor, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	answer.SetReadDeadline(time.Now().Add(patience))
	defer context.AfterFunc(h.ctx, func() { answer.SetReadDeadline(time.Unix(1, 0)) })()
	said, err := io.ReadAll(answer)
	if string(said) != "ok" {
		successor.Kill()
		_, waited := successor.Wait()
		if h.ctx.Err() != nil {
			return errStopping
		}
		return errors.Join(errors.New("the new process did not come to serve"), err, waited)
	}
	if h.done(knot.ErrHandedOver); context.Cause(h.ctx) != knot.ErrHandedOver {
		successor.Signal(syscall.SIGTERM) // it serves already, and stops as we do
		successor.Release()
		return errStopping
	}
	h.notify(fmt.Sprintf("MAINPID=%d\nREADY=1", pid))
	h.admin.stop() // the successor answers for the service
	h.log.Info("knot: handed over; the requests under way are answered here", "pid", pid)
	successor.Release()
	return nil
}

// start starts the successor, with the sockets. It says on answer that it serves.
func (h *handover) start() (pid int, answer *os.File, err error) {
	sockets, of, err := h.sockets()
	if err != nil {
		return 0, nil, err
	}
	files := sockets
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	if len(sockets) == 0 {
		return 0, nil, errors.New("there is nothing to hand over: it is not listening")
	}
	admin := "0"
	if now := h.admin.get(); now != nil {
		file, err := now.socket()
		if err != nil {
			return 0, nil, err
		}
		admin, files = "1", append([]*os.File{file}, files...)
	}
	answer, write, err := os.Pipe()
	if err != nil {
		return 0, nil, err
	}
	files = append([]*os.File{write}, files...)
	descriptors := []uintptr{0, 1, 2}
	for _, f := range files {
		descriptors = append(descriptors, descriptor(f))
	}
	// Not by package os, which would make the sockets blocking, for us too.
	pid, err = syscall.ForkExec(h.program, append([]string{h.program}, h.args...), &syscall.ProcAttr{
		Env:   append(os.Environ(), inheritVariable+"="+admin+","+describeSockets(of)),
		Files: descriptors,
	})
	if err != nil {
		answer.Close()
		return 0, nil, err
	}
	return pid, answer, nil
}

// describeSockets is what inheritVariable says of sockets: as little as a server with one address needs, so that an older
// version understands it too.
func describeSockets(sockets []addresses.Socket) string {
	text, same := strconv.Itoa(len(sockets)), true
	names := make([]string, len(sockets))
	for i, s := range sockets {
		same = same && s == sockets[0]
		names[i] = url.QueryEscape(s.Addr)
		if s.Shared {
			names[i] += "!"
		}
	}
	switch {
	case !same || sockets[0].Addr != "":
		return text + ",of=" + strings.Join(names, ",")
	case sockets[0].Shared:
		return text + ",shared"
	}
	return text
}

// descriptor is that of f, as it is: File.Fd would make it blocking.
func descriptor(f *os.File) (number uintptr) {
	if raw, err := f.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) { number = fd })
	}
	return number
}
