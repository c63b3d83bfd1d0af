package acme

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/capriccio-go/capriccio/internal/logwriter"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestDemandLimits: a name that got none waits, names are forgotten when there are too many, and only so many are got at a time.
func TestDemandLimits(t *testing.T) {
	d := newDemand("http://127.0.0.1:1/")
	now := time.Now()
	d.now = func() time.Time { return now }
	tries := 0
	try := func(name string) error {
		_, err := d.get(t.Context(), name, func(context.Context) (*tls.Certificate, error) {
			tries++
			return nil, errors.New("none")
		})
		return err
	}
	testenv.ErrorSays(t, try("a.test"), "none")
	testenv.ErrorSays(t, try("a.test"), "got no certificate less than 1m0s ago")
	testenv.Equal(t, tries, 1, "tries")
	now = now.Add(refusedFor)
	testenv.ErrorSays(t, try("a.test"), "none")
	for i := range mostRefused {
		d.refuse(fmt.Sprint(i))
	}
	testenv.Equal(t, len(d.refused), 1, "names that are remembered")
	for range mostDemands {
		d.slots <- struct{}{}
	}
	testenv.ErrorSays(t, try("b.test"), "certificates for 16 names are being got")
}

// TestAskFails: the error says what has failed, without the token of the URL.
func TestAskFails(t *testing.T) {
	d := newDemand("http://knot:hush@a.test/?key=hush")
	d.client.Transport = &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no route") }}
	testenv.Equal(t, fmt.Sprint(d.ask(t.Context(), "b.test")), `-acme-ask does not answer for "b.test": no route`)
}

// TestLog: warnings of certmagic are lines of ours, and of the same ones only some.
func TestLog(t *testing.T) {
	var out bytes.Buffer
	log := zapLogger(logwriter.NewLogger(&out))
	log.Info("nothing to worry about")
	log.With(zap.String("host", "a.test")).Warn("odd", zap.Error(errors.New("two\nlines")))
	testenv.Contains(t, out.String(), `level=WARN msg="knot: ACME: odd" host=a.test error="two; lines"`)
	for range 3 * sameMost {
		log.Error("again")
	}
	if lines := strings.Count(out.String(), "\n"); lines != 1+sameMost {
		t.Errorf("%d lines: %s", lines, &out)
	}
}
