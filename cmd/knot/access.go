package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/access"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/clientcert"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/config"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/forwardauth"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/requestid"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/site"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/proxy"
)

// addGuards adds what decides who may come to a site. The most expensive check comes last.
func (b *built) addGuards(s *site.Site, c *config.Site, ids *requestid.IDs, log *slog.Logger, wrong *mistakes) {
	rules, faults := access.New(c.Access)
	wrong.tables("access", faults)
	if len(rules) > 0 {
		s.Guards = append(s.Guards, rules)
	}
	if realms := realms(c.Passwords, wrong); len(realms) > 0 {
		s.Guards = append(s.Guards, realms)
	}
	asking, faults := forwardauth.New(c.ForwardAuths, func(i int, timeout time.Duration) (*proxy.Proxy, []site.Fault) {
		return b.openForwardAuth(&c.ForwardAuths[i], timeout, linesForBackends(nil, ids), log)
	})
	wrong.tables("forward-auth", faults)
	if len(c.ForwardAuths) > 0 {
		s.Steps = append(s.Steps, asking.Strip)
		s.Guards = append(s.Guards, asking)
	}
	switch c.Satisfy {
	case "", "all":
	case "any":
		s.AnyGuard = true
		if len(s.Guards) < 2 {
			wrong.add("satisfy", errors.New(`"any" is for sites with two kinds of access, password and forward-auth`))
		}
	default:
		wrong.add("satisfy", fmt.Errorf("%q; want all or any", c.Satisfy))
	}
}

// openForwardAuth makes what asks the backends of a table.
func (b *built) openForwardAuth(c *forwardauth.Config, timeout time.Duration, lines func(x *knot.Ctx) []knot.Header, log *slog.Logger) (p *proxy.Proxy, faults []site.Fault) {
	of := config.Proxy{To: c.To, Host: cmp.Or(c.Host, "backend")}
	if c.CA != "" || c.ServerName != "" {
		of.TLS = &config.TLS{CA: c.CA, ServerName: c.ServerName}
	}
	settings, finders, wrong := proxyConfig(&of, log)
	settings.TotalTimeout, settings.Header = timeout, lines
	for _, m := range wrong {
		key := strings.TrimPrefix(m.key, "tls.")
		if key == "tls" {
			key = "to"
		}
		faults = append(faults, site.Fault{Key: key, Err: errors.Unwrap(m.err)})
	}
	p, err := proxy.New(settings)
	for _, one := range each(err) {
		faults = append(faults, site.Fault{Key: "to", Err: one})
	}
	if p != nil {
		b.keep(p, finders)
	}
	return p, faults
}

// addClientCerts has the clients of a site show certificates.
func (set *settings) addClientCerts(s *site.Site, c *config.Site, wrong *mistakes) {
	if c.ClientCerts == nil {
		return
	}
	certs, faults := clientcert.New(*c.ClientCerts)
	add := func(err error) { faults = append(faults, site.Fault{Key: "ca", Err: err}) }
	if set.tls.clientCA != "" {
		add(errors.New("it does not go with -tls-client-ca, which is for all sites"))
	}
	for _, p := range set.points {
		if !p.TLS && serves(p, c) {
			add(fmt.Errorf("%s serves the site without TLS; want a [[listen]] with sites for that, without this one", p.Addr))
		}
	}
	wrong.faults("client-certificate", faults)
	s.Handshake = certs.Prepare
	s.Steps = append(s.Steps, certs.Check)
}

func realms(given []config.Password, wrong *mistakes) (all site.Realms) {
	users := make(map[string]*site.Users) // a file is read once
	for i := range given {
		p := &given[i]
		var of mistakes
		match, err := site.NewPattern(p.Match)
		of.add("match", err)
		if strings.ContainsFunc(p.Realm, func(r rune) bool { return r < 0x20 || r == 0x7f }) {
			of.add("realm", fmt.Errorf("%q has control characters", p.Realm))
		}
		if p.Users == "" {
			of.add("users", errors.New("say which file has the names and passwords"))
		} else if users[p.Users] == nil {
			users[p.Users], err = site.OpenUsers(p.Users)
			of.add("users", err)
		}
		wrong.within(fmt.Sprint("password.", i+1), of)
		all = append(all, site.Realm{Match: match, Name: p.Realm, Users: users[p.Users]})
	}
	return all
}
