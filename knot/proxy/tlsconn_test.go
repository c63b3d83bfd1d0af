package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// Deadlines of a connection to a backend over TLS are those of the connection below.
func TestDeadlinesOfSecureBackends(t *testing.T) {
	cert, _ := testenv.SelfSigned()
	addr := testenv.Serve(t, func(nc net.Conn) {
		testenv.Echo(tls.Server(nc, &tls.Config{Certificates: []tls.Certificate{cert}}))
	})
	p := testenv.Need(New(Config{Backends: []string{"https://" + addr}, TLS: &tls.Config{InsecureSkipVerify: true}, Dial: net.DialTimeout}))(t)
	defer p.Close()
	b := p.backends[0]
	for what, late := range map[string]func(c net.Conn) error{
		"SetWriteDeadline": func(c net.Conn) error { return c.SetWriteDeadline(time.Unix(1, 0)) },
		"SetDeadline":      func(c net.Conn) error { return c.SetDeadline(time.Unix(1, 0)) },
	} {
		c := testenv.Need(b.dial(context.Background()))(t)
		testenv.Must(t, c.SetDeadline(time.Unix(1, 0)))
		testenv.Must(t, c.SetWriteDeadline(time.Now().Add(time.Hour)))
		testenv.Must(t, testenv.Err(c.Write([]byte("in time"))))
		testenv.Must(t, late(c))
		if _, err := c.Write([]byte("late")); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("after %s: %v, want the deadline", what, err)
		}
		c.Close()
	}
}
