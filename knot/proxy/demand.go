package proxy

import (
	"errors"
	"os"
	"slices"
	"time"

	"github.com/capriccio-go/capriccio/internal/timeleft"
	"github.com/capriccio-go/capriccio/internal/urgency"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/internal/h1"
)

// How long the client waits, and how important the request is, as backends are told (knot.Server.TimeoutHeader, UrgencyHeader).

// takeDemand has the request end when its client waits no longer. Lines of the client about that are not passed on: each try has
// its own. Lines of Config.Header go before.
func (e *exchange) takeDemand() {
	d := &e.demand
	if limited := !d.Deadline.IsZero(); limited && (e.deadline.IsZero() || d.Deadline.Before(e.deadline)) {
		e.deadline, e.isClientDeadline = d.Deadline, true
	}
	replace := func(name string) bool {
		if name == "" || hasName(e.lines, h1.Bytes(name)) {
			return false
		}
		e.lines = append(slices.Clip(e.lines), knot.Header{Name: name})
		return true
	}
	if !replace(d.TimeoutHeader) {
		d.TimeoutHeader = ""
	}
	if !replace(d.UrgencyHeader) {
		d.UrgencyHeader = ""
	}
	e.tellsGRPC = !d.Deadline.IsZero() && e.x.HeaderBytes(timeleft.GRPCHeader) != nil && replace(timeleft.GRPCHeader)
}

// demandLines are what a backend is told now.
func (e *exchange) demandLines() (lines []knot.Header) {
	if !e.demands {
		return nil
	}
	d := &e.demand
	if !d.Deadline.IsZero() {
		left := time.Until(d.Deadline)
		if d.TimeoutHeader != "" {
			lines = append(lines, knot.Header{Name: d.TimeoutHeader, Value: timeleft.FormatMilliseconds(left)})
		}
		if e.tellsGRPC {
			lines = append(lines, knot.Header{Name: timeleft.GRPCHeader, Value: timeleft.FormatGRPC(left)})
		}
	}
	if d.Urgent && d.UrgencyHeader != "" {
		lines = append(lines, knot.Header{Name: d.UrgencyHeader, Value: urgency.Format(d.UrgencyHeader, d.Urgency)})
	}
	return lines
}

// statusLate is the answer to a client whose time is over, which it will hardly read: RFC 9110, 15.6.5.
const statusLate knot.Status = 504

// isClientsTimeout reports whether f has come of the client's time, or of how long it takes, and not of the backend.
func (e *exchange) isClientsTimeout(f *failure) bool {
	return f.cause == causeLate || e.isClientDeadline && (f.cause == causeTimeout || f.cause == causeQueue || f.cause == causeConnect) && e.late()
}

// endLateBody ends a request whose time was over while its body was awaited with 408, unless its client has set that time.
func (e *exchange) endLateBody() {
	if e.late() && !e.isClientDeadline {
		e.waits.interrupt(&clientError{errors.Join(knot.Status(408), errLateBody)})
	}
}

// tookLate is the failure of a response whose client has taken it, as far as it has come, only when the time of the request was over,
// else nil.
func (e *exchange) tookLate() error {
	if !e.late() {
		return nil
	}
	return &failure{status: statusLate, cause: causeLate, backend: e.b.name, err: os.ErrDeadlineExceeded}
}
