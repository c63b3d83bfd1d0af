package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/capriccio-go/capriccio/knot"
)

// A notifier tells systemd how the service is (sd_notify(3)); without systemd it does nothing.
type notifier struct{ socket string }

// notify sends lines like READY=1.
func (n notifier) notify(state string) error {
	if n.socket == "" {
		return nil
	}
	name := n.socket
	if name[0] == '@' { // in the abstract namespace
		name = "\x00" + name[1:]
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Write([]byte(state))
	return err
}

// watchdog tells systemd that the service is alive, twice as often as it wants to hear that, as long
// as alive says so, until stop is called.
func (n notifier) watchdog(microseconds string, alive func(patience time.Duration) error) (stop func()) {
	period, err := strconv.ParseInt(microseconds, 10, 64)
	if err != nil || period <= 0 || n.socket == "" {
		return func() {}
	}
	every := max(time.Duration(period)*time.Microsecond/2, time.Millisecond)
	tell := func() {
		if alive(every) == nil {
			n.notify("WATCHDOG=1")
		}
	}
	return repeat(every, tell, tell)
}

// repeat calls first, and then tick every so often, until stop is called.
func repeat(every time.Duration, first, tick func()) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for first(); ; tick() {
			select {
			case <-end:
				return
			case <-ticker.C:
			}
		}
	}()
	return func() { close(end); <-ended }
}

// whenDone begins to report the end of the service when ctx ends, until stop is called.
func (n notifier) whenDone(ctx context.Context, out io.Writer, quiet bool, left func() int) (stop func()) {
	if quiet {
		out = io.Discard
	}
	ended := make(chan func(), 1)
	unused := context.AfterFunc(ctx, func() {
		if context.Cause(ctx) != knot.ErrHandedOver { // else it is another process that systemd looks at
			n.notify("STOPPING=1")
		}
		ended <- n.progress(out, left)
	})
	return func() {
		if !unused() {
			(<-ended)()
		}
	}
}

// progress says every second how many connections are left while the server stops, to systemd and to
// out, until stop is called.
func (n notifier) progress(out io.Writer, left func() int) (stop func()) {
	return repeat(time.Second, func() {}, func() {
		text := fmt.Sprintf("stopping; connections left: %d", left())
		fmt.Fprintln(out, text)
		n.notify("STATUS=" + text + "\nEXTEND_TIMEOUT_USEC=5000000")
	})
}
