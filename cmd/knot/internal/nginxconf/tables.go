package nginxconf

import (
	"fmt"
	"strings"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/access"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/bodies"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/headers"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/limit"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/rule"
)

// tables are those of a site, in the order in which they are written.
type tables struct {
	redirects, rewrites, bodies, limits, access, passwords, headers, backend, proxies []table
	requests                                                                          []requestLines
}

// bound drops the tables beyond the number that Knot takes for a site, and returns a text that names them; "": there are none.
// If they are of a kind that protects the site, or decides where its requests go, the whole site is unsafe.
func (out *tables) bound(s *server) (over string) {
	for _, k := range []struct {
		all    *[]table
		most   int
		needed bool
	}{
		{&out.redirects, rule.Most, true}, {&out.rewrites, rule.Most, true}, {&out.access, access.Most, true}, {&out.backend, headers.Most, true},
		{&out.bodies, bodies.Most, false}, {&out.limits, limit.Most, false}, {&out.headers, headers.Most - len(out.backend), false},
	} {
		n, most := len(*k.all), max(0, k.most)
		if n <= most {
			continue
		}
		why := fmt.Sprintf("it would have %d tables %s, and Knot takes %d", n, (*k.all)[0].name, most)
		if k.needed {
			s.unsafe(s.d, "%s", why)
		}
		over += why + ": the last are left out. "
		*k.all = (*k.all)[:most]
	}
	return strings.TrimSuffix(over, ". ")
}
