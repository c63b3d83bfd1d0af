package headers

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/site"
	"github.com/capriccio-go/capriccio/knot"
)

// mostAge is how long browsers remember the answer to a preflight at most.
const mostAge = 24 * time.Hour

// A CORS is a table [[site.cors]]: which pages of other sites may use this one (Fetch Standard, 3.2).
type CORS struct {
	Match       string   `toml:"match"`
	Origins     []string `toml:"origins"`
	Methods     []string `toml:"methods"`
	Headers     []string `toml:"headers"`
	Expose      []string `toml:"expose"`
	Credentials bool     `toml:"credentials"`
	MaxAge      string   `toml:"max-age"`
}

// A corsRule is a CORS that was read, and a knot.Filter. It is fixed.
type corsRule struct {
	match                    site.Pattern
	any                      bool // every origin may
	origins                  []string
	methods, headers, expose string
	anyHeader                bool
	credentials              bool
	maxAge                   string // in seconds; "": not said
}

// CrossOrigin are the rules of a site. They are fixed.
type CrossOrigin []*corsRule

// NewCrossOrigin reads the tables of a site. wrong has what is wrong with each table, by its index.
func NewCrossOrigin(tables []CORS) (rules CrossOrigin, wrong map[int][]site.Fault) {
	wrong = site.ReadTables(len(tables), Most, "match", "tables of CORS", func(i int) []site.Fault {
		r, faults := readCORS(&tables[i])
		rules = append(rules, r)
		return faults
	})
	return rules, wrong
}

func readCORS(c *CORS) (r *corsRule, wrong []site.Fault) {
	note := func(key, format string, args ...any) {
		wrong = append(wrong, site.Fault{Key: key, Err: fmt.Errorf(format, args...)})
	}
	r = &corsRule{match: everywhere, credentials: c.Credentials}
	if c.Match != "" {
		var err error
		if r.match, err = site.NewPattern(c.Match); err != nil {
			note("match", "%w", err)
		}
	}
	if len(c.Origins) == 0 {
		note("origins", `say which pages may ask, as ["https://app.example.org"], or ["*"] for all`)
	}
	for _, o := range c.Origins {
		if o == "*" {
			r.any = true
		} else if err := checkOrigin(o); err != nil {
			note("origins", "%q: %w", o, err)
		}
		r.origins = append(r.origins, strings.ToLower(o))
	}
	if r.any && len(c.Origins) > 1 {
		note("origins", `"*" stands for all; want it alone`)
	}
	if r.any && c.Credentials {
		note("credentials", `with origins = ["*"] every page in the world could act in the name of whoever looks at it, and browsers refuse that; want a list of origins`)
	}
	names := func(key string, list, standard []string) string {
		if len(list) == 0 {
			list = standard
		}
		for _, one := range list {
			if knot.CheckHeader("X-"+one, "") != nil {
				note(key, "%q is not a name", one)
			}
		}
		return strings.Join(list, ", ")
	}
	r.methods = names("methods", c.Methods, []string{"GET", "HEAD", "POST"})
	for _, m := range c.Methods {
		if m != strings.ToUpper(m) {
			note("methods", "%q; methods are compared letter by letter: want %s", m, strings.ToUpper(m))
		}
	}
	r.anyHeader = slices.Contains(c.Headers, "*")
	r.headers = names("headers", c.Headers, []string{"Content-Type"})
	r.expose = names("expose", c.Expose, nil)
	if c.MaxAge != "" {
		d, err := time.ParseDuration(c.MaxAge)
		if err != nil || d < 0 || d > mostAge {
			note("max-age", `%q; want a time from "0s" to "24h", as "10m"`, c.MaxAge)
		}
		r.maxAge = strconv.Itoa(int(d / time.Second))
	}
	return r, wrong
}

// checkOrigin reports what is wrong with an origin of the configuration.
func checkOrigin(text string) error {
	u, err := url.Parse(strings.Replace(text, "://*.", "://", 1))
	switch {
	case text == "null":
		return errors.New("every page can make itself one of this origin")
	case err != nil || u.Scheme == "" || u.Host == "" || u.Opaque != "":
		return errors.New("want a scheme and a host, as https://app.example.org")
	case u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil || strings.HasSuffix(text, "#") || strings.HasSuffix(text, "?"):
		return fmt.Errorf("an origin has no path; want %s://%s", u.Scheme, u.Host)
	case strings.ContainsAny(u.Host, "* "):
		return errors.New("a star may stand only for all before a name, as https://*.example.org")
	case u.Scheme == "http" && u.Port() == "80" || u.Scheme == "https" && u.Port() == "443":
		return fmt.Errorf("browsers leave that port out; want %s://%s", u.Scheme, u.Hostname())
	}
	return nil
}

// allows reports whether pages of an origin may ask.
func (r *corsRule) allows(origin string) bool {
	if r.any {
		return true
	}
	return slices.ContainsFunc(r.origins, func(one string) bool {
		if scheme, name, ok := strings.Cut(one, "*"); ok { // https://*.example.org
			rest, ok := strings.CutPrefix(origin, scheme)
			sub, ended := strings.CutSuffix(rest, name)
			return ok && ended && sub != "" && !strings.ContainsFunc(sub, func(c rune) bool {
				return c != '.' && c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z')
			})
		}
		return one == origin
	})
}

func (rules CrossOrigin) find(x *knot.Ctx) *corsRule {
	for _, r := range rules {
		if r.match.MatchBytes(x.PathBytes()) {
			return r
		}
	}
	return nil
}

// Prepare has the response to a request say who may read it.
func (rules CrossOrigin) Prepare(x *knot.Ctx) {
	if r := rules.find(x); r != nil {
		x.Filter(r)
	}
}

// FilterHead implements knot.Filter. It removes what a backend says of CORS: browsers refuse a response with two answers.
func (r *corsRule) FilterHead(x *knot.Ctx, h knot.ResponseHead) {
	h.Del("Access-Control-Allow-Origin")
	h.Del("Access-Control-Allow-Credentials")
	h.Del("Access-Control-Expose-Headers")
	origin := x.Header("Origin")
	if r.any {
		origin = "*"
	} else if vary := h.Get("Vary"); vary == "" {
		h.Add("Vary", "Origin")
	} else if !slices.ContainsFunc(strings.Split(vary, ","), func(one string) bool { return strings.EqualFold(strings.TrimSpace(one), "Origin") }) {
		h.Set("Vary", vary+", Origin")
	}
	if origin == "" || !r.allows(origin) {
		return
	}
	h.Set("Access-Control-Allow-Origin", origin)
	if r.credentials {
		h.Set("Access-Control-Allow-Credentials", "true")
	}
	if r.expose != "" {
		h.Set("Access-Control-Expose-Headers", r.expose)
	}
}

// Handle is a site.Step: it answers preflights, which ask whether a request may be sent. They carry no password, and a redirect
// would end them.
func (rules CrossOrigin) Handle(x *knot.Ctx) (answered bool, err error) {
	if x.Method() != "OPTIONS" || x.HeaderBytes("Origin") == nil || x.HeaderBytes("Access-Control-Request-Method") == nil {
		return false, nil
	}
	r := rules.find(x)
	if r == nil {
		return false, nil
	}
	if !r.allows(x.Header("Origin")) {
		return true, x.SendError(403)
	}
	x.AddHeader("Access-Control-Allow-Methods", r.methods)
	headers := r.headers
	if r.anyHeader {
		x.AddHeader("Vary", "Access-Control-Request-Headers")
		headers = x.Header("Access-Control-Request-Headers") // a star would leave Authorization out
	}
	if headers != "" {
		x.AddHeader("Access-Control-Allow-Headers", headers)
	}
	if r.maxAge != "" {
		x.AddHeader("Access-Control-Max-Age", r.maxAge)
	}
	return true, x.Send(204, "", nil)
}
