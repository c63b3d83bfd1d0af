package main

import (
	"errors"
	"flag"
	"fmt"
	"sync/atomic"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/importance"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/proxy"
)

// demandSettings are the settings of deadlines and importance besides the flags.
type demandSettings struct {
	tables []importance.Config
	rules  importance.Rules // made of tables
}

func (set *settings) demandFlags(flags *flag.FlagSet) {
	s := set.server
	flags.StringVar(&s.TimeoutHeader, "timeout-header", "", "`name` of the line by which peers of -trust say for how many milliseconds a client will wait, such as X-Request-Timeout; grpc-timeout counts too. A request that is too late is not begun; backends get the line with the time that is left. None by default")
	flags.StringVar(&s.UrgencyHeader, "urgency-header", "", "`name` of the line by which peers of -trust say how important a request is, 0 (most) to 7: Priority (RFC 9218), or one of your own; in an overload the least important are refused first. Backends get it. None by default")
}

// checkDemands reads the tables [[importance]], and reports what is wrong with them and the flags.
func (set *settings) checkDemands() (errs []error) {
	s, d := set.server, &set.demands
	for _, of := range []struct{ flag, name string }{{"-timeout-header", s.TimeoutHeader}, {"-urgency-header", s.UrgencyHeader}} {
		if of.name != "" {
			if err := proxy.CheckHeader(of.name, ""); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", of.flag, err))
			}
		}
	}
	if s.TimeoutHeader != "" && len(set.trust) == 0 {
		errs = append(errs, errors.New("-timeout-header: no peer is trusted; want -trust with the addresses of the proxies or servers that send it"))
	}
	var wrong mistakes
	rules, faults := importance.New(d.tables)
	d.rules = rules
	for i := range d.tables {
		wrong = nil
		for _, f := range faults[i] {
			wrong.add(f.Key, f.Err)
		}
		if i == 0 && s.UrgencyHeader == "" {
			wrong.add("urgency", errors.New(`it needs urgency-header at the top of the file, as urgency-header = "Priority"`))
		}
		for _, m := range wrong {
			errs = append(errs, set.ofTable("importance", i, m))
		}
	}
	return errs
}

// A ranking is knot.Server.Priority by the rules that hold now. Safe from anywhere.
type ranking struct {
	rules atomic.Pointer[importance.Rules]
}

// set has the rules of set hold.
func (r *ranking) set(set *settings) { r.rules.Store(&set.demands.rules) }

// begin has server rank requests, if set says so.
func (r *ranking) begin(server *knot.Server, set *settings) {
	r.set(set)
	if server.UrgencyHeader != "" {
		server.Priority = func(x *knot.Ctx) int { return r.rules.Load().Rank(x) }
	}
}
