package proxy

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/capriccio-go/capriccio/internal/balance"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/internal/h1"
)

// A Sticky has clients come back to the backend that has answered them first, by a cookie of the proxy's own: HttpOnly,
// SameSite=Lax, until the browser ends, and Secure if the client has asked over TLS. Its value is a keyed hash of the
// backend's address. A client whose backend is out gets another one, and the cookie for that.
type Sticky struct {
	Cookie string // its name
	// Secret is the key of the hash, of 16 bytes or more. Servers that share clients need the same; "": one that the process
	// makes up, so that after its end clients are led anew.
	Secret string
}

// A Canary is a second group of backends, for a part of the requests. A request that none of it can take goes to the first
// group.
type Canary struct {
	Backends []string // addresses, as Config.Backends
	Weights  []int    // as Config.Weights
	// Discover is as Config.Discover. While it has found no backend, the first group gets all requests.
	Discover func(ctx context.Context, set func(backends []string, weights []int) error)
	Share    float64 // of the requests, from 0 to 1; clients that stick, by cookie or key, count as a whole
	// Header and Cookie send a request there in any case: "Name: value", or "Name" with whatever value; "name=value", or
	// "name". "": none does.
	Header, Cookie string
}

// processSecret is the key of cookies without Sticky.Secret; a reload does not change it.
var processSecret = sync.OnceValue(func() []byte { return []byte(rand.Text()) })

// token is the value of the cookie that leads to b.
func (s *Sticky) token(b *backend) string {
	secret := []byte(s.Secret)
	if s.Secret == "" {
		secret = processSecret()
	}
	sum := hmac.New(sha256.New, secret)
	sum.Write([]byte(b.network + " " + b.address))
	return base64.RawURLEncoding.EncodeToString(sum.Sum(nil)[:12])
}

func (s *Sticky) faults() (errs []error) {
	if !h1.IsToken(s.Cookie) {
		errs = append(errs, &FieldError{"Sticky.Cookie", fmt.Errorf("%q is not the name of a cookie", s.Cookie)})
	}
	if s.Secret != "" && len(s.Secret) < 16 {
		errs = append(errs, &FieldError{"Sticky.Secret", fmt.Errorf("it has %d bytes; want 16 at least", len(s.Secret))})
	}
	return errs
}

// A named is a header line or a cookie that a request may have. The zero value matches none.
type named struct {
	name  string // a header's in lower case
	value string // "": whatever it is
}

// parse returns the header line and the cookie that send a request to the canary, and what is wrong with the fields of c.
func (c *Canary) parse() (header, cookie named, errs []error) {
	name, value, _ := strings.Cut(c.Header, ":")
	header = named{strings.ToLower(name), strings.Trim(value, " \t")}
	cookie.name, cookie.value, _ = strings.Cut(c.Cookie, "=")
	if c.Header != "" && (!h1.IsToken(name) || knot.CheckHeader("X-Value", header.value) != nil) {
		errs = append(errs, &FieldError{"Canary.Header", fmt.Errorf("%q is neither the name of a header nor one with a value, as \"X-Canary: yes\"", c.Header)})
	}
	if c.Cookie != "" && (!h1.IsToken(cookie.name) || strings.ContainsAny(cookie.value, "; \t\r\n")) {
		errs = append(errs, &FieldError{"Canary.Cookie", fmt.Errorf("%q is neither the name of a cookie nor one with a value, as \"canary=1\"", c.Cookie)})
	}
	if !(c.Share >= 0 && c.Share <= 1) {
		errs = append(errs, &FieldError{"Canary.Share", fmt.Errorf("%v is not from 0 to 1", c.Share)})
	}
	if c.Share == 0 && c.Header == "" && c.Cookie == "" {
		errs = append(errs, &FieldError{"Canary.Share", errors.New("nothing goes there; want a share, a header or a cookie")})
	}
	return header, cookie, errs
}

// eachCookie calls fn with the cookies of a request, from all lines (HTTP/2 has several), until it returns false.
func eachCookie(x *knot.Ctx, fn func(name, value []byte) bool) {
	x.EachHeader(func(line, list []byte) bool {
		if !h1.TextIs(line, "cookie") {
			return true
		}
		for len(list) > 0 {
			var one []byte
			one, list, _ = bytes.Cut(list, []byte(";"))
			name, value, _ := bytes.Cut(bytes.Trim(one, " \t"), []byte("="))
			if !fn(name, value) {
				return false
			}
		}
		return true
	})
}

// inHeader reports whether the request has a header line with the name and value of n.
func (n named) inHeader(x *knot.Ctx) (is bool) {
	if n.name != "" {
		x.EachHeader(func(name, value []byte) bool {
			is = h1.TextIs(name, n.name) && (n.value == "" || string(value) == n.value)
			return !is
		})
	}
	return is
}

// inCookies reports whether the request has a cookie with the name and value of n.
func (n named) inCookies(x *knot.Ctx) (is bool) {
	if n.name != "" {
		eachCookie(x, func(name, value []byte) bool {
			is = string(name) == n.name && (n.value == "" || string(value) == n.value)
			return !is
		})
	}
	return is
}

// A key says what requests are hashed by; of a zero key they are not.
type key struct{ kind, name string }

// parseBalance takes Config.Balance apart.
func parseBalance(text string) (k key, err error) {
	words := strings.Fields(text)
	switch {
	case text == "" || text == "least" || text == "prequal":
		return k, nil
	case len(words) == 2 && words[0] == "hash" && (words[1] == "client" || words[1] == "path"):
		return key{kind: words[1]}, nil
	case len(words) == 3 && words[0] == "hash" && (words[1] == "header" || words[1] == "cookie") && h1.IsToken(words[2]):
		k = key{words[1], words[2]}
		if k.kind == "header" {
			k.name = strings.ToLower(k.name)
		}
		return k, nil
	}
	return k, fmt.Errorf("%q is unknown; want least, prequal, hash client, hash path, hash header NAME or hash cookie NAME", text)
}

// of is the hash of the value that x has for k, and whether it has one. Of several lines or cookies of a name the first counts.
func (k key) of(x *knot.Ctx) (hash uint64, has bool) {
	first := func(name, value []byte) bool {
		if len(value) > 0 && (k.kind == "header" && h1.TextIs(name, k.name) || k.kind == "cookie" && string(name) == k.name) {
			hash, has = balance.Hash(value), true
		}
		return !has
	}
	switch k.kind {
	case "path":
		return balance.Hash(x.PathBytes()), true
	case "client":
		addr := x.ClientAddr()
		if !addr.IsValid() { // on a Unix socket
			return 0, false
		}
		if addr = addr.Unmap(); addr.Is6() { // one client has 64 bits of addresses
			prefix, _ := addr.WithZone("").Prefix(64)
			addr = prefix.Addr()
		}
		text := addr.As16()
		return balance.Hash(text[:]), true
	case "header":
		x.EachHeader(first)
	case "cookie":
		eachCookie(x, first)
	}
	return hash, has
}

// findAffinity finds out which group and backend the request is for, if that is not for the balance alone.
func (e *exchange) findAffinity() {
	p, x := e.p, e.x
	e.key, e.keyed = p.key.of(x)
	if p.Sticky != nil {
		eachCookie(x, func(name, value []byte) bool {
			if string(name) == p.Sticky.Cookie {
				e.home = (*p.byToken.Load())[string(value)]
			}
			return e.home == nil
		})
	}
	switch {
	case p.Canary == nil:
	case p.canaryHeader.inHeader(x) || p.canaryCookie.inCookies(x):
		e.group = &p.canary
	case e.home != nil:
		e.group = e.home.group
	case e.keyed && balance.Fraction(balance.Mix(e.key+1)) < p.Canary.Share, !e.keyed && balance.Spread(p.newcomers.Add(1)) < p.Canary.Share:
		e.group = &p.canary
	}
	if e.home != nil && e.home.group != e.group {
		e.home = nil
	}
}

// stickyCookie returns the cookie that leads the client back to the backend that has answered; "": the client has it already, or
// needs none.
func (e *exchange) stickyCookie() string {
	if e.p.Sticky == nil || e.b == e.home {
		return ""
	}
	secure := ""
	if e.scheme() == "https" {
		secure = "; Secure"
	}
	return e.p.Sticky.Cookie + "=" + e.b.token + "; Path=/; HttpOnly; SameSite=Lax" + secure
}
