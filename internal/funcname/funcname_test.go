package funcname

import (
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestShortFunction(t *testing.T) {
	for function, want := range map[string]string{
		"main.main":              "main.main",
		"net/http.(*conn).serve": "http.(*conn).serve",
		"github.com/caddyserver/caddy/v2.trapSignals":      "caddy.trapSignals",
		"github.com/caddyserver/caddy/v2/cmd.cmdRun":       "cmd.cmdRun",
		"example.com/v2.(*T[go.shape.struct { a/b.C }]).F": "example.com.(*T[go.shape.struct { a/b.C }]).F",
		"example.com/list.Map[example.com/v2.T]":           "list.Map[example.com/v2.T]",
		"v2.F":                                             "v2.F",
		"github.com/nats-io/nats%2ego.(*Conn).readLoop":    "nats.go.(*Conn).readLoop",
		"example.com/vat.F":                                "vat.F",
		"example.com/v.F":                                  "v.F",
		"":                                                 "",
	} {
		testenv.Equal(t, Short(function), want, function)
	}
}
