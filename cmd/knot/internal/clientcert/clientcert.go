// Package clientcert has the clients of a site show certificates, as the table [site.client-certificate] of command knot says.
package clientcert

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/site"
	"github.com/capriccio-go/capriccio/internal/ownctx"
	"github.com/capriccio-go/capriccio/internal/regular"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/proxy"
)

// A Config is a table [site.client-certificate].
type Config struct {
	// CA is a PEM file with the authorities that have signed the certificates.
	CA string `toml:"ca"`
	// Mode is "require", or "ask" for clients that may have none; "": "require".
	Mode string `toml:"mode"`
	// SubjectHeader is the name of the line in which backends get the subject; "": none do.
	SubjectHeader string `toml:"subject-header"`
}

// Certs are the certificates that a site takes. They are fixed.
type Certs struct {
	pool     *x509.CertPool
	roots    map[string]bool // by their bytes
	required bool
	header   string
}

// New reads a table.
func New(c Config) (cs *Certs, wrong []site.Fault) {
	cs = &Certs{pool: x509.NewCertPool(), roots: make(map[string]bool), required: c.Mode != "ask", header: c.SubjectHeader}
	note := site.NoteIn(&wrong)
	if c.CA == "" {
		note("ca", errors.New("say which file has the authorities of the certificates"))
	} else {
		note("ca", cs.read(c.CA))
	}
	if c.Mode != "" && c.Mode != "require" && c.Mode != "ask" {
		note("mode", fmt.Errorf("%q; want require or ask", c.Mode))
	}
	if c.SubjectHeader != "" {
		note("subject-header", proxy.CheckHeader(c.SubjectHeader, ""))
	}
	return cs, wrong
}

// read takes the certificates in a file.
func (cs *Certs) read(name string) error {
	text, err := regular.Read(name)
	for err == nil {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		var cert *x509.Certificate
		if cert, err = x509.ParseCertificate(block.Bytes); err == nil {
			cs.pool.AddCert(cert)
			cs.roots[string(cert.Raw)] = true
		}
	}
	if err == nil && len(cs.roots) == 0 {
		err = fmt.Errorf("%s has no certificate in PEM form", name)
	}
	return err
}

// Prepare has a handshake ask for a certificate. It is site.Site.Handshake.
func (cs *Certs) Prepare(c *tls.Config) {
	c.ClientCAs, c.ClientAuth = cs.pool, tls.VerifyClientCertIfGiven
	if cs.required {
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
}

// Check looks at the certificate once more: the connection may be older than the configuration, or go on with a session of
// another site. It is a site.Step.
func (cs *Certs) Check(x *knot.Ctx) (answered bool, err error) {
	state := x.TLS()
	known := false
	for _, chain := range state.VerifiedChains {
		known = known || cs.roots[string(chain[len(chain)-1].Raw)]
	}
	if !known && (cs.required || len(state.PeerCertificates) > 0) {
		x.CloseAfter() // the next handshake asks anew
		return true, knot.Status(421)
	}
	if cs.header != "" {
		subject := ""
		if known {
			subject = ascii(state.PeerCertificates[0].Subject.String())
		}
		ownctx.Of(x).(interface{ PassHeader(name, value string) }).PassHeader(cs.header, subject)
	}
	return false, nil
}

// ascii is a distinguished name (RFC 4514) whose bytes that are not printable ASCII are escaped as that says.
func ascii(name string) string {
	var out strings.Builder
	for i := range len(name) {
		if ch := name[i]; ch < ' ' || ch > '~' {
			fmt.Fprintf(&out, `\%02X`, ch)
		} else {
			out.WriteByte(ch)
		}
	}
	return out.String()
}
