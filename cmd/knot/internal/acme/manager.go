package acme

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/mholt/acmez/v3"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/sharedstore"
)

// Protocol is the one that an authority offers when it checks by TLS whether a name is ours (RFC 8737).
const Protocol = acmez.ACMETLS1Protocol

const (
	// loadPatience is how long the start waits for certificates to be read: an OCSP responder may be away.
	loadPatience = 5 * time.Second
	// mostInMemory limits the certificates in memory, some 10 KB each. Those beyond it are read from the storage again.
	mostInMemory = 10_000
)

func init() { certmagic.UserAgent = "knot" }

// A Manager has the certificates of a Config. Its methods may be called from anywhere but event loops.
type Manager struct {
	config Config
	log    *slog.Logger
	shared *sharedstore.Storage // nil: the folder is the storage
	cache  *certmagic.Cache
	named  *certmagic.Config // for the hosts of -acme
	asked  *certmagic.Config // for names of -acme-ask; nil: none
	demand *demand
	ctx    context.Context // ends with Close
	end    context.CancelFunc

	hosts map[string]bool // hosts with a certificate of the manager; does not change after Load

	begun   sync.Once   // Start
	started atomic.Bool // the authority may be asked: fields of issuers do not change any more
}

// New makes a Manager, which asks no authority before Start.
func New(c Config, log *slog.Logger) (*Manager, error) {
	m := &Manager{config: c, log: log, hosts: make(map[string]bool)}
	zap := zapLogger(log)
	m.cache = certmagic.NewCache(certmagic.CacheOptions{GetConfigForCert: m.configOf, Capacity: mostInMemory, Logger: zap})
	m.ctx, m.end = context.WithCancel(context.Background())
	storage, local, err := m.storages()
	if err != nil {
		m.Close()
		return nil, err
	}
	add := func(solver acmez.Solver, onDemand *certmagic.OnDemandConfig) *certmagic.Config {
		config := certmagic.New(m.cache, certmagic.Config{Storage: storage, LocalCache: local, Logger: zap, OnEvent: m.noteEvent, ShouldEmitFunc: isNoted, OnDemand: onDemand})
		config.Issuers = []certmagic.Issuer{certmagic.NewACMEIssuer(config, certmagic.ACMEIssuer{
			CA: cmp.Or(c.Directory, certmagic.LetsEncryptProductionCA), Email: c.Email, Agreed: true, DNS01Solver: solver, Logger: zap,
		})}
		return config
	}
	var solver acmez.Solver
	if c.DNS != "" {
		provider, err := c.provider()
		if err != nil {
			m.Close()
			return nil, err
		}
		solver = &certmagic.DNS01Solver{DNSManager: certmagic.DNSManager{DNSProvider: provider, Resolvers: c.Resolvers, Logger: zap}}
	}
	m.named = add(solver, nil)
	if c.Ask != "" {
		m.demand = newDemand(c.Ask)
		m.asked = add(nil, &certmagic.OnDemandConfig{DecisionFunc: m.demand.ask})
	}
	return m, nil
}

// storages are where certificates are kept, and where there are copies of them; nil: nowhere.
func (m *Manager) storages() (storage, local certmagic.Storage, err error) {
	if m.config.Folder != "" {
		local = &certmagic.FileStorage{Path: m.config.Folder}
	}
	if m.config.Storage == "" {
		return local, nil, nil
	}
	if m.shared, err = sharedstore.New(m.config.Storage, m.log); err != nil {
		return nil, nil, fmt.Errorf("-acme-storage: %w", err)
	}
	return m.shared, local, nil
}

// configOf is what certmagic maintains a certificate by.
func (m *Manager) configOf(cert certmagic.Certificate) (*certmagic.Config, error) {
	if m.asked != nil && !slices.ContainsFunc(cert.Names, func(name string) bool { return m.hosts[name] }) {
		return m.asked, nil
	}
	return m.named, nil
}

// covers reports whether name is one of the hosts, or a star among them stands for it.
func (m *Manager) covers(name string) bool {
	_, parent, _ := strings.Cut(name, ".")
	return m.hosts[name] || m.hosts["*."+parent]
}

// isNoted reports whether noteEvent has a word about such an event.
func isNoted(event string) bool { return event == "cert_obtained" }

func (m *Manager) noteEvent(_ context.Context, event string, data map[string]any) error {
	if isNoted(event) {
		m.log.Info("knot: a certificate by ACME was obtained", "host", data["identifier"], "renewal", data["renewal"])
	}
	return nil
}

// Start has the authority asked for the certificates that are not in the storage. The authority finds the server at secure,
// and by HTTP at plain; nil: there is no such address. Only the first call counts.
func (m *Manager) Start(secure, plain net.Addr) {
	m.begun.Do(func() { m.start(secure, plain) })
}

func (m *Manager) start(secure, plain net.Addr) {
	for _, config := range []*certmagic.Config{m.named, m.asked} {
		if config == nil {
			continue
		}
		// Where it finds the addresses in use, certmagic takes it that its challenges are answered there.
		issuer := config.Issuers[0].(*certmagic.ACMEIssuer)
		if tcp, ok := secure.(*net.TCPAddr); ok {
			issuer.AltTLSALPNPort = tcp.Port
			if !tcp.IP.IsUnspecified() {
				issuer.ListenHost = tcp.IP.String()
			}
		}
		tcp, ok := plain.(*net.TCPAddr)
		issuer.DisableHTTPChallenge = !ok
		if ok {
			issuer.AltHTTPPort = tcp.Port
		}
	}
	m.started.Store(true)
	for host := range m.hosts {
		m.begin(host)
	}
}

// Load takes certificates for these hosts that are in the storage into memory. It must be called once, before Start and
// handshakes.
func (m *Manager) Load(hosts []string) {
	ctx, cancel := context.WithTimeout(m.ctx, loadPatience)
	defer cancel()
	var all sync.WaitGroup
	for _, host := range hosts {
		host = canonical(host)
		m.hosts[host] = true
		all.Go(func() { m.named.CacheManagedCertificate(ctx, host) }) // certmagic says in begin what is wrong with it
	}
	loaded := make(chan struct{})
	go func() {
		all.Wait()
		close(loaded)
	}()
	select {
	case <-loaded:
	case <-ctx.Done():
	}
}

// begin gets the certificate of host if it is not there or is to be renewed. certmagic tries again by itself, but where its
// storage fails.
func (m *Manager) begin(host string) {
	ctx := sharedstore.Patient(m.ctx)
	if had := m.cache.AllMatchingCertificates(host); len(had) > 0 && had[0].NeedsRenewal(m.named) {
		go m.renew(ctx, host, had[0])
	}
	if err := m.named.ManageAsync(ctx, []string{host}); err != nil {
		m.log.Error("knot: no certificate by ACME", "host", host, "error", err)
	}
}

// renew replaces a certificate that was due when the server started. Later certmagic looks for such ones every ten minutes.
func (m *Manager) renew(ctx context.Context, host string, old certmagic.Certificate) {
	if err := m.named.RenewCertAsync(ctx, host, false); err != nil {
		return // the log has it
	}
	if cert, err := m.named.CacheManagedCertificate(ctx, host); err == nil && cert.Hash() != old.Hash() {
		m.cache.Remove([]string{old.Hash()})
	}
}

// GetCertificate is that of a tls.Config. It may wait long for names on demand.
func (m *Manager) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	name := strings.ToLower(hello.ServerName)
	switch {
	case isChallenge(hello) || m.covers(name): // the challenge may be that of another machine
		return m.named.GetCertificate(hello)
	case m.asked == nil || !fullName(name):
		return nil, fmt.Errorf("no certificate is got by ACME for %q", hello.ServerName)
	case m.hasValid(name):
		return m.asked.GetCertificate(hello)
	case !m.started.Load():
		return nil, fmt.Errorf("the server has only begun; no certificate is got yet for %q", name)
	}
	return m.demand.get(hello.Context(), name, func(ctx context.Context) (*tls.Certificate, error) {
		return m.asked.GetCertificateWithContext(ctx, hello)
	})
}

// hasValid reports whether a certificate for name is in memory that has not expired.
func (m *Manager) hasValid(name string) bool {
	now := time.Now()
	return slices.ContainsFunc(m.cache.AllMatchingCertificates(name), func(c certmagic.Certificate) bool { return now.Before(c.Leaf.NotAfter) })
}

// isChallenge reports whether an authority looks whether the name is ours.
func isChallenge(hello *tls.ClientHelloInfo) bool {
	return len(hello.SupportedProtos) == 1 && hello.SupportedProtos[0] == Protocol
}

// ServeHTTP answers an authority that looks by HTTP (HTTP-01).
func (m *Manager) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if m.started.Load() {
		for _, config := range []*certmagic.Config{m.named, m.asked} {
			if config != nil && config.Issuers[0].(*certmagic.ACMEIssuer).HandleHTTPChallenge(w, r) {
				return
			}
		}
	}
	http.NotFound(w, r)
}

// Close ends what is under way with the authority, and the renewals.
func (m *Manager) Close() {
	m.end()
	m.cache.Stop()
	if m.shared != nil {
		m.shared.Close()
	}
}
