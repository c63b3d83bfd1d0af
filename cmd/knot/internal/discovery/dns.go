package discovery

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/miekg/dns"

	"github.com/capriccio-go/capriccio/knot/proxy"
)

// names are backends by DNS: all addresses of a name, or all servers of a service (SRV, RFC 2782).
type names struct {
	sur    Surroundings
	scheme string // "http://", "https://" or ""
	name   string
	port   string        // "": the name is that of a service
	least  time.Duration // between two questions

	answers map[question][]dns.RR // the last ones
}

func (n *names) follow(ctx context.Context, tell func([]backend, error)) {
	for {
		list, ttl, err := n.find(ctx)
		if ctx.Err() != nil {
			return
		}
		tell(list, err)
		if !wait(ctx, n.sur.Clock, min(max(ttl, n.least), maxRefresh)) {
			return
		}
	}
}

// find asks once. ttl is for how long the answer is good.
func (n *names) find(ctx context.Context) (list []backend, ttl time.Duration, err error) {
	config, err := n.sur.Resolv()
	if err != nil {
		return nil, 0, err
	}
	r := &resolver{config: config, ttl: maxRefresh, before: n.answers, answers: make(map[question][]dns.RR)}
	if n.port == "" {
		list, err = n.service(ctx, r)
	} else {
		list, err = n.host(ctx, r, n.name, n.port, 1)
	}
	if err != nil {
		return nil, 0, err
	}
	n.answers = r.answers
	return list, r.ttl, nil
}

// host are the addresses of a host. With an error they are the last answers to the questions that have failed now.
func (n *names) host(ctx context.Context, r *resolver, name, port string, weight int) (list []backend, err error) {
	found, err := r.search(ctx, name, dns.TypeA, dns.TypeAAAA)
	for _, rr := range found {
		var ip net.IP
		switch rr := rr.(type) {
		case *dns.A:
			ip = rr.A
		case *dns.AAAA:
			ip = rr.AAAA
		}
		list = append(list, backend{n.scheme + net.JoinHostPort(ip.String(), port), weight})
	}
	return list, err
}

// service are the addresses of the servers of a service that come first. A weight of 0 is the least.
func (n *names) service(ctx context.Context, r *resolver) (list []backend, err error) {
	found, err := r.search(ctx, n.name, dns.TypeSRV)
	if err != nil {
		return nil, err
	}
	first, heaviest := uint16(1<<16-1), 1
	for _, rr := range found {
		first = min(first, rr.(*dns.SRV).Priority)
	}
	for _, rr := range found {
		if srv := rr.(*dns.SRV); srv.Priority == first {
			heaviest = max(heaviest, int(srv.Weight))
		}
	}
	var fault error
	answered := false
	for _, rr := range found {
		srv := rr.(*dns.SRV)
		if srv.Priority != first || srv.Target == "." { // RFC 2782: "." says that there is no such service
			continue
		}
		weight := int(srv.Weight)
		if heaviest > proxy.MaxWeight {
			weight = weight * proxy.MaxWeight / heaviest
		}
		of, err := n.host(ctx, r, srv.Target, strconv.Itoa(int(srv.Port)), max(1, weight))
		if err != nil {
			fault = err // others may have addresses
		}
		answered = answered || err == nil
		list = append(list, of...)
	}
	switch {
	case answered:
		return list, nil
	case fault != nil:
		return nil, fault
	}
	return nil, fmt.Errorf("the service %s has no server", n.name)
}

// A resolver asks the servers of a configuration.
type resolver struct {
	config  *dns.ClientConfig
	ttl     time.Duration         // the least of all answers; 0: a question has failed
	before  map[question][]dns.RR // answers that stay while their questions fail
	answers map[question][]dns.RR // those of now
}

// A question is one for records of a type.
type question struct {
	name string // full
	t    uint16
}

var errNoSuchName = errors.New("there is no such name")

// search asks for records of a name, with the search list of the configuration. No record is an error. Questions that fail have
// their answers of before; if no other has records, these come with an error.
func (r *resolver) search(ctx context.Context, name string, types ...uint16) (found []dns.RR, err error) {
	err = errNoSuchName
	for _, full := range r.config.NameList(name) {
		var fault error
		var kept []dns.RR
		missing := false
		for _, t := range types {
			records, err := r.ask(ctx, full, t)
			if errors.Is(err, errNoSuchName) {
				missing = true
			} else if err != nil {
				fault, r.ttl = err, 0
				records = r.before[question{full, t}]
				kept = append(kept, records...)
			} else {
				found = append(found, records...)
			}
			r.answers[question{full, t}] = records
		}
		switch {
		case len(found) > 0:
			return append(found, kept...), nil
		case fault != nil:
			return kept, fmt.Errorf("DNS: %s: %w", full, fault)
		case !missing:
			err = errors.New("the name has no such record")
		}
	}
	return nil, fmt.Errorf("DNS: %s: %w", name, err)
}

// ask asks the servers in turn for the records of a full name. A name without records is no error.
func (r *resolver) ask(ctx context.Context, full string, t uint16) (records []dns.RR, err error) {
	m := new(dns.Msg)
	m.SetQuestion(full, t)
	m.SetEdns0(1232, false) // bytes that a datagram has room for without fragments
	client := dns.Client{Timeout: time.Duration(r.config.Timeout) * time.Second}
	err = errors.New("no server is configured in /etc/resolv.conf")
	for range max(1, r.config.Attempts) {
		for _, server := range r.config.Servers {
			at := net.JoinHostPort(server, r.config.Port)
			var answer *dns.Msg
			client.Net = "udp"
			if answer, _, err = client.ExchangeContext(ctx, m, at); err == nil && answer.Truncated {
				client.Net = "tcp"
				answer, _, err = client.ExchangeContext(ctx, m, at)
			}
			switch {
			case ctx.Err() != nil:
				return nil, ctx.Err()
			case err != nil:
				continue
			case answer.Rcode == dns.RcodeNameError:
				return nil, errNoSuchName
			case answer.Rcode != dns.RcodeSuccess:
				err = fmt.Errorf("the server %s answers %s", at, dns.RcodeToString[answer.Rcode])
				continue
			}
			for _, rr := range answer.Answer { // names that stand for others come with the records
				r.ttl = min(r.ttl, time.Duration(rr.Header().Ttl)*time.Second)
				if rr.Header().Rrtype == t {
					records = append(records, rr)
				}
			}
			return records, nil
		}
	}
	return nil, err
}
