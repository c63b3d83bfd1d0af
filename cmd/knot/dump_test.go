package main

import (
	"bytes"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestDumpIsReadAgain to the same configuration, whose dump is the same.
func TestDumpIsReadAgain(t *testing.T) {
	text := string(testenv.Need(os.ReadFile("../../docs/knot-config.md"))(t))
	_, text, _ = strings.Cut(text, "```toml\n")
	text, _, _ = strings.Cut(text, "```")
	for _, text := range []string{text, "root = '/srv'\nlisting = true\ncompress = false\ncache = '0'\nidle-timeout = '0s'\nmax-conns = -1\ntrust = ['10.0.0.0/8', 'unix:']\n", `
max-body = "0"
[[listen]]
addr = ":80"
tls = false
sites = ["a"]
[[site]]
name = "a"
try = ["$path", "/index.php"]
root = "/srv"
compress = false
[[site.header]]
match = "/**"
set = { X-A = "\"quoted\"\u00e9" }
[[site.proxy]]
match = "/api/**"
to = ["http://127.0.0.1:1", "http://127.0.0.1:2"]
weights = [1, 0]
balance = "hash client"
sticky = { cookie = "back" }
tls = { insecure = true }
`} {
		first := settingsOf(t, configFile(t, "%s", text))
		var dump, again bytes.Buffer
		testenv.Must(t, first.writeDump(&dump))
		second := settingsOf(t, configFile(t, "%s", dump.String()))
		testenv.Must(t, second.writeDump(&again))
		testenv.Equal(t, again.String(), dump.String(), "the dump of a dump")
		if !reflect.DeepEqual(first.sites, second.sites) || !reflect.DeepEqual(first.listens, second.listens) || !reflect.DeepEqual(first.server, second.server) ||
			!reflect.DeepEqual(first.files, second.files) || !reflect.DeepEqual(first.tls, second.tls) {
			t.Errorf("%s\nis not the same as\n%s", dump.String(), text)
		}
		testenv.Contains(t, dump.String(), "write-timeout = '30s'")
	}
}

// TestDumpHasNoSecrets: they are masked by something that is no secret that Knot takes.
func TestDumpHasNoSecrets(t *testing.T) {
	const secret = "hush-hush-hush-hush"
	file := configFile(t, `acme = 'a.test'
acme-storage = 'redis://:%[1]s@h:1'
acme-ask = 'https://knot:%[1]s@ask/allowed?key=%[1]s'
[[site]]
[[site.access]]
match = '/**'
action = 'allow'
headers = { X-Key = %[1]q }
cookies = { seen = %[1]q }
[[site.header]]
match = '/**'
always = true
set = { X-Plain = 'plain' }
[[site.header]]
match = '/**'
backend-set = { X-Auth = %[1]q }
[[site.proxy]]
match = '*.php'
to = ['unix:/run/php.sock']
fastcgi = { root = '/srv', set = { DATABASE_URL = %[1]q } }
[[site.proxy]]
to = ['http://127.0.0.1:1']
sticky = { cookie = 'back', secret = %[1]q }
`, secret)
	var out, errs, again bytes.Buffer
	testenv.Equal(t, checkCommand([]string{"-dump", file}, nil, &out, &errs), exitOK, "%s", &errs)
	testenv.True(t, !strings.Contains(out.String(), "hush"), "%s", &out)
	testenv.Equal(t, strings.Count(out.String(), masked), 5, "secrets that are masked")
	testenv.Contains(t, out.String(), "plain")
	testenv.Contains(t, out.String(), "acme-storage = 'redis://:xxxxx@h:1'")
	testenv.Contains(t, out.String(), "acme-ask = 'https://knot:xxxxx@ask/allowed?xxxxx'")
	testenv.Contains(t, out.String(), "cookie = 'back'")
	testenv.Equal(t, checkCommand([]string{configFile(t, "%s", out.String())}, nil, &again, &errs), exitFailed, "a masked secret")
	testenv.Contains(t, errs.String(), "secret")
}
