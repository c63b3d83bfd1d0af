package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
)

// soakSites is the configuration of a soak of sites. In capitals is what one configuration differs in from the next. Time-outs are
// long: on a busy machine a backend that gets no processor for some seconds is no fault of knot.
const soakSites = `admin = 'ADMIN'
log = 'FOLDER/access.log'
grace = '10s'
idle-timeout = 'IDLE'
tls-cert = 'cert.pem'
tls-key = 'key.pem'

[[listen]]
addr = 'PLAIN'
tls = false

[[listen]]
addr = 'TLS'
http3 = true

[[listen]]
addr = 'PROXIED'
tls = false
proxy-protocol = ['127.0.0.0/8']
SPARE
[[site]]
hosts = ['files.test']
root = 'FOLDER/site'
try = ['$path', '$path/', '/page.html']
error-pages = { 4xx = '/sorry.html' }
hsts = 'max-age=63072000'
csp = "default-src 'self'"
log = 'FOLDER/files.log'
log-format = 'json'

[[site.header]]
match = '/**'
add = { X-Config = 'VARIANT' }
remove = ['Server']

[[site.redirect]]
prefix = '/old'
to = '/new'

[[site.rewrite]]
pattern = '^/item/(\d+)$'
to = '/small.txt?item=$1'

[[site.access]]
match = '/secret/**'
not-from = ['10.0.0.0/8']
action = 'deny'

[[site.password]]
match = '/intern/**'
realm = 'soak'
users = 'FOLDER/users'

[[site.limit]]
name = 'few'
match = '/limited/**'
key = ['client', 'path']
rate = '2/s'

[[site]]
hosts = ['app.test']
root = 'FOLDER/site'
error-pages = { 418 = '/sorry.html' }
max-body = '16MB'
log = 'FOLDER/app.log'

[[site.cors]]
match = '/api/**'
origins = ['https://page.test']

[[site.body]]
match = '/api/tiny'
max = '1KB'

[[site.rewrite]]
prefix = '/moved'
to = '/api/moved'

[[site.header]]
match = '/**'
set = { X-Config = 'VARIANT' }
backend-set = { X-Tenant = 'VARIANT' }

[[site.forward-auth]]
match = '/auth/**'
to = ['http://BACKEND1']
path = '/verify'
copy = ['Remote-User']
timeout = '20s'

[[site.proxy]]
match = '/api/**'
to = ['http://BACKEND1', 'http://BACKEND2']
weights = [WEIGHT, 1]
slow-start = '2s'
compress = {}
intercept = ['418']
connect-timeout = '20s'
check = { path = '/healthz', every = '1s', timeout = '20s' }
sticky = { cookie = 'to', secret = 'a secret of the soak' }
mirror = { to = ['http://BACKEND3'], share = 0.2 }

[[site.proxy]]
match = '/auth/**'
to = ['http://BACKEND1']
connect-timeout = '20s'
canary = { to = ['http://BACKEND2'], share = 0.2, header = 'X-Canary' }

[[site.proxy]]
match = '/ws'
to = ['http://BACKEND1', 'http://BACKEND2']
balance = 'hash client'

[[site]]
hosts = ['kept.test']

[[site.cache]]
match = '/kept/b/**'
memory = 'MEMORY'
ignore-query = ['utm_*']

[[site.cache]]
memory = '4MB'
folder = 'FOLDER/cache'
disk = '16MB'
stale-while-revalidate = '2s'
stale-if-error = '1m'

[[site.proxy]]
to = ['http://BACKEND1', 'http://BACKEND2']
compress = {}

[[site]]
hosts = ['off.test']
root = 'FOLDER/site'
error-pages = { 503 = '/sorry.html' }
maintenance = { file = 'FOLDER/off' }
`

// configure writes a configuration, which differs from the one before.
func (s *sitesSoak) configure(n int) error {
	variant, weight, idle, memory, spare := "a", "1", "60s", "4MB", ""
	if n%2 == 1 {
		variant, weight, idle, memory, spare = "b", "3", "50s", "5MB", "[[listen]]\naddr = '"+s.spare+"'\n"
	}
	text := strings.NewReplacer("ADMIN", s.admin, "PLAIN", s.plain, "TLS", s.tls, "PROXIED", s.proxied, "SPARE", spare, "VARIANT", variant, "WEIGHT", weight,
		"IDLE", idle, "MEMORY", memory, "BACKEND1", s.backends[0], "BACKEND2", s.backends[1], "BACKEND3", s.backends[2], "FOLDER", s.folder).Replace(soakSites)
	path := filepath.Join(s.folder, "knot.toml")
	if err := os.WriteFile(path+".new", []byte(text), 0o666); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// writeFolder writes the files of the sites, with a certificate.
func (s *sitesSoak) writeFolder() error {
	config, err := selfSigned()
	if err != nil {
		return err
	}
	key, err := x509.MarshalECPrivateKey(config.Certificates[0].PrivateKey.(*ecdsa.PrivateKey))
	if err != nil {
		return err
	}
	text := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	return writeAll(s.folder, map[string][]byte{
		"cert.pem":          pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: config.Certificates[0].Certificate[0]}),
		"key.pem":           pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: key}),
		"users":             []byte("alice:$2a$04$Dl49AyinWXvm9MYDLPVnf.jf8Z5Jk99kxc4AvjHGWSMA7TEVEHzFO\n"), // soak
		"site/small.txt":    text[:1<<10],
		"site/style.css":    text[:64<<10],
		"site/large.bin":    text,
		"site/page.html":    []byte("<p>the page</p>"),
		"site/sorry.html":   []byte("<p>sorry</p>"),
		"site/intern/x.txt": []byte("intern"),
		"site/limited/x":    []byte("limited"),
		"site/secret/x":     []byte("secret"),
	})
}
