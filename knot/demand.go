package knot

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/ownctx"
	"github.com/capriccio-go/capriccio/internal/timeleft"
	"github.com/capriccio-go/capriccio/internal/urgency"
	"github.com/capriccio-go/capriccio/knot/internal/h1"
	"github.com/capriccio-go/capriccio/ressched"
)

// How long the client of a request will wait, and how important the request is.

// demands says by which lines requests of trusted proxies bring their demands. Made by ready.
type demands struct {
	timeout, urgency string // names, as Server has them
	lower            struct{ timeout, urgency string }
	malformed, late  atomic.Uint64
}

// demandsOf returns the demands that s reads; nil: none.
func demandsOf(s *Server) *demands {
	if s.TimeoutHeader == "" && s.UrgencyHeader == "" {
		return nil
	}
	d := &demands{timeout: s.TimeoutHeader, urgency: s.UrgencyHeader}
	d.lower.timeout, d.lower.urgency = strings.ToLower(s.TimeoutHeader), strings.ToLower(s.UrgencyHeader)
	return d
}

// readsFirst reports whether requests are read before they are admitted, as their heads decide about their order.
func (s *Server) readsFirst() bool { return s.Priority != nil || s.demands != nil }

// A demand is what a request says of how long its client will wait, and how important it is. It belongs to the request's task.
type demand struct {
	deadline time.Time // zero: none
	urgency  int
	urgent   bool // urgency was said

	ctx context.Context // nil: it has not been asked for
	end func()          // ends ctx
}

// readDemand reads the demand of the request.
func (x *Ctx) readDemand(of *demands) {
	if !x.TrustPeers(Trust{}) {
		return
	}
	text := x.headBytes()
	var left time.Duration
	var d demand
	limited := false
	for i := range x.head.Fields {
		one := &x.head.Fields[i]
		name, value := one.Name.Of(text), one.Value.Of(text)
		read, ok := time.Duration(0), true
		switch {
		case of.timeout != "" && h1.TokenIs(name, of.lower.timeout):
			read, ok = timeleft.Milliseconds(value)
		case of.timeout != "" && h1.TokenIs(name, timeleft.GRPCHeader):
			read, ok = timeleft.GRPC(value)
		case of.urgency != "" && h1.TokenIs(name, of.lower.urgency):
			u, known := urgency.Parse(value)
			if known {
				d.urgency, d.urgent = u, true
			} else {
				of.malformed.Add(1)
			}
			continue
		default:
			continue
		}
		switch {
		case !ok:
			of.malformed.Add(1)
		case !limited || read < left:
			left, limited = read, true
		}
	}
	if limited {
		d.deadline = time.Now().Add(left)
		engine.SetEntryPatience(max(left, 1))
	}
	if limited || d.urgent {
		x.demand = &d
	}
}

// rank has the request wait by its importance.
func (x *Ctx) rank() {
	if rank := x.srv.Priority; rank != nil {
		ressched.SetPriority(rank(x))
	} else if d := x.srv.demands; d != nil && d.urgency != "" {
		ressched.SetPriority(priorityOf(x.demand))
	}
}

// priorityOf is the priority of a task with that demand, which may be nil: above that of others for an urgency below the default.
func priorityOf(d *demand) int {
	if d == nil || !d.urgent {
		return 0
	}
	return urgency.Default - d.urgency
}

// isLate reports whether the client of the request waits no longer.
func (x *Ctx) isLate() bool {
	d := x.demand
	return d != nil && !d.deadline.IsZero() && time.Until(d.deadline) <= 0
}

// refuseLate answers a request whose client waits no longer.
func (x *Ctx) refuseLate() error {
	x.srv.demands.late.Add(1)
	x.turnedAway = true
	x.AddHeader("Retry-After", retryAfter())
	x.errorPage(503) // it may prepare the response; a program wants the reason, not a page
	return x.SendString(503, "text/plain; charset=utf-8", "The time that the client had for this request was over before the request could be served.\n")
}

// dropDemand forgets the demand of the request, which is over.
func (x *Ctx) dropDemand() {
	d := x.demand
	if x.demand = nil; d.end != nil {
		d.end()
	}
	if !d.deadline.IsZero() {
		engine.SetEntryPatience(0)
	}
}

// Context ends when the server is closed, or when Shutdown runs out of time. That of a request with a deadline (see
// Server.TimeoutHeader) has it, and ends with the request. It carries the urgency of a request (see Server.UrgencyHeader) to requests
// that are made with it by package upstream.
func (x *Ctx) Context() context.Context {
	d := x.demand
	if d == nil {
		return x.srv.ctx
	}
	if d.ctx == nil {
		d.ctx = x.srv.ctx
		if d.urgent {
			d.ctx = urgency.With(d.ctx, d.urgency)
		}
		if !d.deadline.IsZero() {
			d.ctx, d.end = context.WithDeadline(d.ctx, d.deadline)
		}
	}
	return d.ctx
}

// Demand returns what a proxy tells backends of how long the client waits, and how important the request is; false: the server
// reads neither, and lines about that are passed on as others are.
func (i *inner) Demand() (told ownctx.Demand, read bool) {
	of := i.srv.demands
	if of == nil {
		return told, false
	}
	told.TimeoutHeader, told.UrgencyHeader = of.timeout, of.urgency
	if d := i.demand; d != nil {
		told.Deadline, told.Urgency, told.Urgent = d.deadline, d.urgency, d.urgent
	}
	return told, true
}

// SetUrgency says how important the request is, in place of what it says itself. Server.Priority may call it.
func (i *inner) SetUrgency(u int) {
	if i.demand == nil {
		i.demand = new(demand)
	}
	i.demand.urgency, i.demand.urgent = u, true
}

// Priority returns the priority that the urgency of the request stands for, see Server.UrgencyHeader.
func (i *inner) Priority() int { return priorityOf(i.demand) }

// TurnedAway reports whether the request was refused before a handler saw it, as the server is overloaded or its client's time over.
func (i *inner) TurnedAway() bool { return i.turnedAway }
