package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"

	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/certs"
	"github.com/capriccio-go/capriccio/task"
)

// tlsSettings is what the flags say about TLS.
type tlsSettings struct {
	certs, keys    list
	clientCA       string
	clientOptional bool
	min            string
	reload         time.Duration
	acmeHosts      list
	acmeCache      string
	acmeEmail      string
	acmeDirectory  string
	http2          bool
}

// A list is a flag that may be given several times, or with commas.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

func (l *list) Set(text string) error {
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			return errors.New("an empty name")
		}
		*l = append(*l, part)
	}
	return nil
}

func (t *tlsSettings) flags(flags *flag.FlagSet) {
	flags.Var(&t.certs, "tls-cert", "serve HTTPS with the certificate in this PEM `file`, chain included; several, separated by commas or in several flags, are chosen by the name that a client asks for")
	flags.Var(&t.keys, "tls-key", "PEM `file` with the private key of the certificate that has the same place in -tls-cert")
	flags.StringVar(&t.clientCA, "tls-client-ca", "", "have clients show a certificate that an authority in this PEM `file` has signed")
	flags.BoolVar(&t.clientOptional, "tls-client-optional", false, "let clients in that show no certificate, with -tls-client-ca")
	flags.BoolVar(&t.http2, "http2", true, "offer HTTP/2 to clients over HTTPS")
	flags.StringVar(&t.min, "tls-min", "1.2", "oldest `version` of TLS: 1.2 or 1.3")
	flags.DurationVar(&t.reload, "tls-reload", time.Minute, "how often to look whether certificates have changed; 0 means only on SIGHUP")
	flags.Var(&t.acmeHosts, "acme", "serve HTTPS with certificates for these `hosts`, separated by commas, from an authority by ACME, such as Let's Encrypt, whose terms you accept with this flag; it must reach -addr as port 443 of each host")
	flags.StringVar(&t.acmeCache, "acme-cache", "", "`folder` to keep account and certificates of ACME in (required with -acme)")
	flags.StringVar(&t.acmeEmail, "acme-email", "", "`address` that the authority may write to")
	flags.StringVar(&t.acmeDirectory, "acme-directory", "", "`URL` of the authority's ACME directory (default: that of Let's Encrypt)")
}

// check returns an error that names the flags that do not go together.
func (t *tlsSettings) check() error {
	var f faults
	f.note(len(t.certs) != len(t.keys), "files of -tls-cert: %d, of -tls-key: %d; each certificate has its key", len(t.certs), len(t.keys))
	f.note(t.min != "1.2" && t.min != "1.3", "-tls-min %q; want 1.2 or 1.3", t.min)
	f.note(t.reload < 0, "-tls-reload %v is negative", t.reload)
	f.note(t.clientCA != "" && len(t.certs) == 0, "-tls-client-ca needs -tls-cert and -tls-key")
	// The authority, which looks by TLS, has no such certificate.
	f.note(t.clientCA != "" && len(t.acmeHosts) > 0, "-tls-client-ca does not go with -acme")
	f.note(t.clientOptional && t.clientCA == "", "-tls-client-optional needs -tls-client-ca")
	f.note(len(t.acmeHosts) > 0 && t.acmeCache == "", "-acme needs -acme-cache, a folder for the certificates: authorities give only a few in a week")
	f.note(len(t.acmeHosts) == 0 && (t.acmeCache != "" || t.acmeEmail != "" || t.acmeDirectory != ""), "-acme-cache, -acme-email and -acme-directory need -acme")
	for _, host := range t.acmeHosts {
		if err := checkACMEHost(host); err != nil {
			f = append(f, err)
		}
	}
	return errors.Join(f...)
}

// checkACMEHost reports whether an authority that looks by TLS (RFC 8737) can give a certificate for host: not for a star, and
// autocert serves neither addresses nor names without a dot.
func checkACMEHost(host string) error {
	ip := net.ParseIP(host)
	if strings.Contains(host, "*") {
		return fmt.Errorf("-acme %q: authorities give certificates for a star only by DNS, which knot does not do; want the name of each host, as www.example.org", host)
	}
	if bare := strings.Trim(host, "."); ip != nil || !strings.Contains(bare, ".") || bare != host || strings.ContainsAny(host, "/\\:+@ ") {
		return fmt.Errorf("-acme %q is not the full name of a host; want one like www.example.org, without a port", host)
	}
	return nil
}

// isOn reports whether there is anything that HTTPS could be served with.
func (t *tlsSettings) isOn() bool { return len(t.certs) > 0 || len(t.acmeHosts) > 0 }

func (t *tlsSettings) version() uint16 {
	if t.min == "1.3" {
		return tls.VersionTLS13
	}
	return tls.VersionTLS12
}

// A secured is what a server has of TLS. The zero value is that of a server without.
type secured struct {
	from   tlsSettings
	config *tls.Config
	reload func()              // reads the files again; nil: there is none
	stop   func()              // ends what open has begun; nil: nothing
	prove  func() knot.Handler // answers what an authority asks by HTTP (HTTP-01); nil: no authority does
}

func (s *secured) close() {
	if s.stop != nil {
		s.stop()
	}
}

// open loads the certificates. Files are read again when they change, until close is called.
func (t *tlsSettings) open(errorLog *slog.Logger) (s secured, err error) {
	s.from = *t
	var keyring *certs.Keyring
	if len(t.certs) > 0 {
		files := certs.Files{ClientCA: t.clientCA, ClientOptional: t.clientOptional, MinVersion: t.version()}
		for i := range t.certs {
			files.Pairs = append(files.Pairs, certs.Pair{Cert: t.certs[i], Key: t.keys[i]})
		}
		if keyring, err = certs.Load(files); err != nil {
			return secured{}, err
		}
		s.config = keyring.Config()
		s.reload, s.stop = t.keepFresh(keyring, errorLog)
	}
	if len(t.acmeHosts) > 0 {
		s.config, s.prove = t.withACME(s.config, keyring, errorLog)
	}
	if s.config != nil && !t.http2 {
		s.config.NextProtos = slices.DeleteFunc(append(knot.Protocols(), s.config.NextProtos...), func(p string) bool { return p == "h2" })
	}
	return s, nil
}

// keepFresh reads the files again from time to time, until stop is called, and on reload.
func (t *tlsSettings) keepFresh(keyring *certs.Keyring, errorLog *slog.Logger) (reload, stop func()) {
	expiry := &expiryLog{expires: keyring.Expires, log: errorLog}
	expiry.look(time.Now(), true)
	report := func(err error) {
		if err != nil {
			errorLog.Error("knot: the certificates can't be read again; the old ones stay in use", "error", err)
			return
		}
		errorLog.Info("knot: the certificates have changed")
		expiry.look(time.Now(), true)
	}
	reload = func() {
		if changed, err := keyring.Reload(); changed || err != nil {
			report(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	tick := time.NewTicker(expiryEvery)
	var all sync.WaitGroup
	all.Go(func() { expiry.watch(ctx, tick.C) })
	if t.reload > 0 {
		all.Go(func() { keyring.Watch(ctx, t.reload, report) })
	}
	return reload, func() {
		cancel()
		tick.Stop()
		all.Wait()
	}
}

const (
	// acmeErrorsApart is how long after an error of ACME no other is logged: each client has its own.
	acmeErrorsApart = 10 * time.Second
	// overdueApart is the same for certificates that were not renewed.
	overdueApart = time.Hour
)

// overdue reports whether a certificate should have been renewed long ago: autocert begins when a third of its
// life is left, or 30 days, tries again every hour, and says nothing.
func overdue(leaf *x509.Certificate) bool {
	life := leaf.NotAfter.Sub(leaf.NotBefore)
	return time.Until(leaf.NotAfter) < min(life/6, 15*24*time.Hour)
}

// withACME adds certificates that an authority gives. Those of files go before.
func (t *tlsSettings) withACME(config *tls.Config, keyring *certs.Keyring, errorLog *slog.Logger) (with *tls.Config, prove func() knot.Handler) {
	manager := &autocert.Manager{
		Prompt: autocert.AcceptTOS, HostPolicy: autocert.HostWhitelist(t.acmeHosts...),
		Cache: autocert.DirCache(t.acmeCache), Email: t.acmeEmail,
	}
	manager.Client = &acme.Client{
		DirectoryURL: cmp.Or(t.acmeDirectory, autocert.DefaultACMEDirectory), UserAgent: "knot",
		HTTPClient: &http.Client{Transport: &orderTracker{orders: make(map[string]string)}},
	}
	if config == nil {
		config = &tls.Config{MinVersion: t.version()}
	}
	config.NextProtos = append(knot.Protocols(), acme.ALPNProto)
	began := time.Now()
	var told, warned atomic.Int64 // when an error was logged, in ns since began; 0: none
	due := func(at *atomic.Int64, apart time.Duration) bool {
		now, last := int64(time.Since(began)), at.Load()
		return (last == 0 || now-last >= int64(apart)) && at.CompareAndSwap(last, now)
	}
	config.GetCertificate = func(hello *tls.ClientHelloInfo) (cert *tls.Certificate, err error) {
		challenge := len(hello.SupportedProtos) == 1 && hello.SupportedProtos[0] == acme.ALPNProto
		if keyring != nil && !challenge && keyring.Knows(hello.ServerName) {
			return keyring.GetCertificate(hello)
		}
		// It reads files, and asks the authority if it has to.
		task.Offload(func() { cert, err = manager.GetCertificate(hello) })
		switch {
		case challenge:
		case err != nil:
			if slices.Contains(t.acmeHosts, hello.ServerName) && due(&told, acmeErrorsApart) {
				errorLog.Error("knot: no certificate by ACME", "host", hello.ServerName, "error", err)
			}
		case overdue(cert.Leaf) && due(&warned, overdueApart):
			errorLog.Error("knot: a certificate by ACME could not be renewed", "host", hello.ServerName, "expires", cert.Leaf.NotAfter)
		}
		return cert, err
	}
	return config, func() knot.Handler { // from then on it offers the authority HTTP-01 too
		return knot.AdaptHTTP(knot.OffloadHTTP(manager.HTTPHandler(http.NotFoundHandler())))
	}
}
