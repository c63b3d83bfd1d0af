package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/acme"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/staple"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/tickets"
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
	acme           acme.Config
	http2          bool
	ocsp           bool
	tickets        string // folder of the keys of session tickets, or URL of a shared storage; "": each process has its own
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
	flags.StringVar(&t.clientCA, "tls-client-ca", "", "require certificates of clients, signed by an authority in this PEM `file`")
	flags.BoolVar(&t.clientOptional, "tls-client-optional", false, "accept clients without a certificate, with -tls-client-ca")
	flags.BoolVar(&t.http2, "http2", true, "offer HTTP/2 to clients over HTTPS")
	flags.BoolVar(&t.ocsp, "ocsp", false, "send the answer of the OCSP responder that a certificate from a file names with it; certificates that clients accept only with it (Must-Staple) have it in any case")
	flags.StringVar(&t.tickets, "tls-tickets", "", "`folder` that several servers share, or the URL of their storage as -acme-storage has it, for keys of session tickets with which a client resumes at any of them (default: keys of its own)")
	flags.StringVar(&t.min, "tls-min", "1.2", "oldest `version` of TLS: 1.2 or 1.3")
	flags.DurationVar(&t.reload, "tls-reload", time.Minute, "how often to look whether certificates have changed; 0 means only on SIGHUP")
	flags.Var((*list)(&t.acme.Hosts), "acme", "serve HTTPS with certificates for these `hosts`, separated by commas, from an authority by ACME, such as Let's Encrypt, whose terms you accept with this flag; it must reach -addr as port 443 of each host, unless -acme-dns proves the names")
	flags.StringVar(&t.acme.Folder, "acme-cache", "", "`folder` to keep account and certificates of ACME in (required with -acme, unless there is -acme-storage); several machines may share it")
	flags.StringVar(&t.acme.Storage, "acme-storage", "", "`URL` of a storage in which several servers keep account and certificates of ACME (default: the folder of -acme-cache): a Redis, as redis://:PASSWORD@10.0.0.7:6379, or, if knot was built with it, a bucket of S3, as s3://BUCKET/PREFIX?region=REGION, or a Consul, as consul://127.0.0.1:8500/PREFIX; if -acme-cache is given too, it has copies for when the storage is away")
	flags.StringVar(&t.acme.Email, "acme-email", "", "`address` that the authority may write to")
	flags.StringVar(&t.acme.Directory, "acme-directory", "", "`URL` of the authority's ACME directory (default: that of Let's Encrypt)")
	flags.StringVar(&t.acme.DNS, "acme-dns", "", "prove the hosts of -acme by DNS, so that they may have a star, with this `provider`: cloudflare or rfc2136, if knot was built with it")
	flags.StringVar(&t.acme.DNSFile, "acme-dns-file", "", "JSON `file` with the settings of that provider, such as its key")
	flags.Var((*list)(&t.acme.Resolvers), "acme-resolvers", "DNS `servers`, host:port, that are asked whether the record of -acme-dns can be seen (default: those of the system)")
	flags.StringVar(&t.acme.Ask, "acme-ask", "", "`URL` that is asked, with ?domain=NAME, whether a name that is not in -acme may have a certificate: it may if the answer is 200")
}

// check returns an error that names the flags that do not go together.
func (t *tlsSettings) check() error {
	var f faults
	f.addIf(len(t.certs) != len(t.keys), "files of -tls-cert: %d, of -tls-key: %d; each certificate has its key", len(t.certs), len(t.keys))
	f.addIf(t.min != "1.2" && t.min != "1.3", "-tls-min %q; want 1.2 or 1.3", t.min)
	f.addIf(t.reload < 0, "-tls-reload %v is negative", t.reload)
	f.addIf(t.clientCA != "" && len(t.certs) == 0, "-tls-client-ca needs -tls-cert and -tls-key")
	// The authority, which looks by TLS, has no such certificate.
	f.addIf(t.clientCA != "" && t.acme.IsOn(), "-tls-client-ca does not go with -acme")
	f.addIf(t.tickets != "" && !t.isOn(), "-tls-tickets needs -tls-cert and -tls-key, or -acme")
	keys, err := tickets.New(t.tickets, slog.New(slog.DiscardHandler))
	f.addIf(err != nil, "-tls-tickets: %v", err)
	if err == nil {
		keys.Close()
	}
	f.addIf(t.clientOptional && t.clientCA == "", "-tls-client-optional needs -tls-client-ca")
	return errors.Join(append(f, t.acme.Faults()...)...)
}

// shareTickets has the tickets of n made with shared keys, until stop is called.
func (t *tlsSettings) shareTickets(n *tlsNow, errorLog *slog.Logger) (stop func()) {
	if t.tickets == "" {
		return func() {}
	}
	keys, err := tickets.New(t.tickets, errorLog)
	if err != nil {
		return func() {} // check has told
	}
	n.tickets = new(tls.Config)
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { keys.Run(ctx, n.tickets) })
	return func() {
		cancel()
		all.Wait()
		keys.Close()
	}
}

// isOn reports whether there is anything that HTTPS could be served with.
func (t *tlsSettings) isOn() bool { return len(t.certs) > 0 || t.acme.IsOn() }

func (t *tlsSettings) version() uint16 {
	if t.min == "1.3" {
		return tls.VersionTLS13
	}
	return tls.VersionTLS12
}

// A secured is what a server has of TLS. The zero value is that of a server without.
type secured struct {
	from    tlsSettings
	config  *tls.Config
	reload  func()          // reads the files again; nil: there is none
	stop    func()          // ends what open has begun; nil: nothing
	keyring *certs.Keyring  // of certificates from files; nil: there are none
	staples *staple.Staples // of them
	acme    *acme.Manager   // nil: no authority gives certificates
}

func (s *secured) close() {
	if s.stop != nil {
		s.stop()
		s.staples.Close()
	}
	if s.acme != nil {
		s.acme.Close()
	}
}

// load takes certificates of the authority that are in the folder into memory, but for hosts that have one from a file.
func (s *secured) load() {
	if s.acme != nil {
		s.acme.Load(slices.DeleteFunc(slices.Clone(s.from.acme.Hosts), func(host string) bool { return s.keyring != nil && s.keyring.Knows(host) }))
	}
}

// open loads the certificates. Files are read again when they change, until close is called.
func (t *tlsSettings) open(errorLog *slog.Logger) (s secured, err error) {
	s.from = *t
	if len(t.certs) > 0 {
		files := certs.Files{ClientCA: t.clientCA, ClientOptional: t.clientOptional, MinVersion: t.version()}
		for i := range t.certs {
			files.Pairs = append(files.Pairs, certs.Pair{Cert: t.certs[i], Key: t.keys[i]})
		}
		if s.keyring, err = certs.Load(files); err != nil {
			return secured{}, err
		}
		s.config = s.keyring.Config()
		s.addStaples(t.ocsp, errorLog)
		s.reload, s.stop = t.keepFresh(s.keyring, errorLog)
	}
	if t.acme.IsOn() {
		if s.acme, err = acme.New(t.acme, errorLog); err != nil {
			s.close()
			return secured{}, err
		}
		if s.config == nil {
			s.config = &tls.Config{MinVersion: t.version()}
		}
		s.addACME()
	}
	if s.config != nil && !t.http2 {
		s.config.NextProtos = slices.DeleteFunc(append(protocols(), s.config.NextProtos...), func(p string) bool { return p == "h2" })
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

// addStaples adds what responders say to the certificates from files.
func (s *secured) addStaples(all bool, errorLog *slog.Logger) {
	s.staples = staple.New(all, errorLog)
	s.config.GetCertificate = s.staples.Before(s.keyring.GetCertificate)
	if special := s.config.GetConfigForClient; special != nil { // for clients that have to show certificates
		s.config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			config, err := special(hello)
			if config != nil {
				config = config.Clone()
				config.GetCertificate = s.staples.Before(config.GetCertificate)
			}
			return config, err
		}
	}
}

// protocols are the versions of HTTP that Knot speaks over TLS, the best first.
func protocols() []string { return []string{"h2", "http/1.1", "http/1.0"} }

// addACME adds certificates that an authority gives. Those of files go before.
func (s *secured) addACME() {
	manager, keyring, get := s.acme, s.keyring, s.config.GetCertificate
	s.config.NextProtos = append(protocols(), acme.Protocol)
	s.config.GetCertificate = func(hello *tls.ClientHelloInfo) (cert *tls.Certificate, err error) {
		if keyring != nil && !slices.Equal(hello.SupportedProtos, []string{acme.Protocol}) && keyring.Knows(hello.ServerName) {
			return get(hello)
		}
		// It reads files, and asks the authority if it has to.
		task.Offload(func() { cert, err = manager.GetCertificate(hello) })
		return cert, err
	}
}
