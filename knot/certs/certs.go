// Package certs has the certificates of a server from files, and reads them anew while the server goes on: Load makes
// a Keyring, whose Config is what knot.Server.TLS takes. It knows nothing of connections or tasks: its methods read
// files the way goroutines do.
package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/internal/regular"
)

// Files says which files a server has its certificates from.
type Files struct {
	// Pairs are the server's certificates, at least one. A client gets the first that is for
	// the name it asks for and whose kind of key it can use; the first of all if there is
	// none, or if it names none.
	Pairs []Pair
	// ClientCA, if not "", has clients show a certificate that one of the authorities in this
	// PEM file has signed.
	ClientCA string
	// ClientOptional lets clients in that show no certificate. One that does not verify is
	// refused all the same.
	ClientOptional bool
	// MinVersion is the oldest version of TLS; 0: tls.VersionTLS12.
	MinVersion uint16
}

// A Pair names two PEM files: a certificate, followed by the certificates that lead to its
// authority, and its private key.
type Pair struct {
	Cert string // path of the file of the certificate
	Key  string // path of the file of the private key; may be the same file
}

// A Keyring holds the certificates that Files names, and can read them anew while the server goes on.
// Connections that have had their handshake keep what they had. Its methods may be called
// from any goroutine; they read files the way goroutines do, so in a task call Reload
// through task.Offload.
type Keyring struct {
	files   Files // fixed
	current atomic.Pointer[keySet]

	loading sync.Mutex
	read    [][]byte // what the files held; guarded by loading
}

// keySet is what one reading of the files gave. It does not change.
type keySet struct {
	all    []*tls.Certificate
	byName map[string][]*tls.Certificate
	config *tls.Config // for clients that must show a certificate, else nil
}

// Load reads the files. The error names the file that is wrong.
func Load(files Files) (*Keyring, error) {
	if len(files.Pairs) == 0 {
		return nil, errors.New("knot: TLS needs a certificate")
	}
	k := &Keyring{files: files}
	if _, err := k.Reload(); err != nil {
		return nil, err
	}
	return k, nil
}

// Config returns a value for Server.TLS. Session tickets are encrypted with keys that crypto/tls makes
// and replaces every day; a reload does not change them.
func (k *Keyring) Config() *tls.Config {
	config := k.base()
	config.GetCertificate = k.GetCertificate
	if k.files.ClientCA != "" {
		config.ClientAuth = k.clientAuth()
		config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return k.current.Load().config, nil }
	}
	return config
}

func (k *Keyring) base() *tls.Config { return &tls.Config{MinVersion: k.files.MinVersion} }

func (k *Keyring) clientAuth() tls.ClientAuthType {
	if k.files.ClientOptional {
		return tls.VerifyClientCertIfGiven
	}
	return tls.RequireAndVerifyClientCert
}

// Reload reads the files again, and reports whether the certificates have changed. After an error, which names the file
// that is wrong, the old ones stay in use.
func (k *Keyring) Reload() (changed bool, err error) {
	k.loading.Lock()
	defer k.loading.Unlock()
	var read [][]byte
	for _, p := range k.files.Pairs {
		for _, name := range [...]string{p.Cert, p.Key} {
			content, err := regular.Read(name)
			if err != nil {
				return false, fmt.Errorf("knot: %w", err)
			}
			read = append(read, content)
		}
	}
	if name := k.files.ClientCA; name != "" {
		content, err := regular.Read(name)
		if err != nil {
			return false, fmt.Errorf("knot: %w", err)
		}
		read = append(read, content)
	}
	if slices.EqualFunc(read, k.read, bytes.Equal) {
		return false, nil
	}
	keys, err := k.parse(read)
	if err != nil {
		return false, err
	}
	k.read = read
	k.current.Store(keys)
	return true, nil
}

func (k *Keyring) parse(read [][]byte) (*keySet, error) {
	keys := &keySet{byName: make(map[string][]*tls.Certificate)}
	for i, p := range k.files.Pairs {
		cert, err := tls.X509KeyPair(read[2*i], read[2*i+1])
		if err != nil {
			return nil, fmt.Errorf("knot: certificate %s with key %s: %w", p.Cert, p.Key, err)
		}
		keys.all = append(keys.all, &cert)
		names := cert.Leaf.DNSNames
		for _, ip := range cert.Leaf.IPAddresses {
			names = append(names, ip.String())
		}
		for _, name := range names {
			name = strings.ToLower(name)
			keys.byName[name] = append(keys.byName[name], &cert)
		}
	}
	if name := k.files.ClientCA; name != "" {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(read[len(read)-1]) {
			return nil, fmt.Errorf("knot: %s holds no certificate of an authority in PEM", name)
		}
		keys.config = k.base()
		keys.config.GetCertificate = keys.find
		keys.config.ClientAuth, keys.config.ClientCAs = k.clientAuth(), pool
	}
	return keys, nil
}

// GetCertificate is for tls.Config.
func (k *Keyring) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	return k.current.Load().find(hello)
}

// Knows reports whether one of the certificates is for this name.
func (k *Keyring) Knows(name string) bool { return len(k.current.Load().named(name)) > 0 }

// Expires is when the first of the certificates does.
func (k *Keyring) Expires() (first time.Time) {
	for _, c := range k.current.Load().all {
		if first.IsZero() || c.Leaf.NotAfter.Before(first) {
			first = c.Leaf.NotAfter
		}
	}
	return first
}

func (keys *keySet) find(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	candidates := keys.named(hello.ServerName)
	if len(candidates) == 0 {
		candidates = keys.all
	}
	for _, c := range candidates {
		if hello.SupportsCertificate(c) == nil {
			return c, nil
		}
	}
	return candidates[0], nil
}

// named are the certificates for a name, those for all names below its parent last.
func (keys *keySet) named(name string) []*tls.Certificate {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	exact := keys.byName[name]
	_, parent, ok := strings.Cut(name, ".")
	if !ok {
		return exact
	}
	if wild := keys.byName["*."+parent]; len(wild) > 0 {
		return append(exact[:len(exact):len(exact)], wild...)
	}
	return exact
}

// Watch calls Reload at that interval until ctx ends. It calls report with nil each time that something has changed,
// and with an error that is a new one. Call it on a goroutine of its own.
func (k *Keyring) Watch(ctx context.Context, every time.Duration, report func(error)) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	told := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		switch changed, err := k.Reload(); {
		case err != nil && err.Error() != told:
			told = err.Error()
			report(err)
		case changed:
			told = ""
			report(nil)
		case err == nil:
			told = ""
		}
	}
}
