package main

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/httpcases"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// seenByPHP answers the cases of package httpcases as its Handler does.
const seenByPHP = `<?php
function quoted($text) {
	$out = "";
	foreach (str_split($text === "" ? " " : $text) as $b) {
		$n = ord($b);
		$out .= $text === "" ? "" : ($b === '"' || $b === "\\" ? "\\" . $b : ($b === "\n" ? "\\n" : ($b === "\r" ? "\\r" : ($b === "\t" ? "\\t" : ($n < 32 || $n > 126 ? sprintf("\\x%02x", $n) : $b)))));
	}
	return '"' . $out . '"';
}
$path = parse_url($_SERVER["REQUEST_URI"], PHP_URL_PATH) ?: "/";
header("Seen: " . $_SERVER["REQUEST_METHOD"] . " " . quoted($path) . " " . quoted(substr(file_get_contents("php://input"), 0, 80)));
if ($path === "/204") { http_response_code(204); exit; }
echo "seen\n";`

// TestConformanceOfPHP runs the table of raw requests against a script of PHP that answers all of them.
func TestConformanceOfPHP(t *testing.T) {
	fpm := testenv.PHP(t)
	root := t.TempDir()
	write(t, filepath.Join(root, "index.php"), seenByPHP)
	p := start(t, "-config", configFile(t, "[[site]]\nroot = %q\ntry = ['/index.php']\n[[site.proxy]]\nmatch = '*.php'\nto = [%q]\nfastcgi = { root = %q }\n", root, fpm, root))
	addr := strings.TrimPrefix(p.url, "http://")
	c := &httpcases.Client{Patience: time.Minute, Dial: func() (net.Conn, error) { return net.Dial("tcp", addr) }}
	for _, k := range httpcases.Cases {
		if strings.HasPrefix(k.Send, "OPTIONS * ") {
			continue // Knot answers these itself, with 204
		}
		if got, fault := c.Run(&k); fault != "" || !httpcases.Allowed(got, k.Want) {
			t.Errorf("%s (RFC %s): %s, want %s; %s\n%.300q", k.Name, k.Section, got, k.Want, fault, k.Send)
		}
	}
	p.end()
}

// TestHTTP3Conformance has the cases that other versions of HTTP can say answered by files and a backend, over HTTP/2 and HTTP/3.
func TestHTTP3Conformance(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, httpcases.FilePath)
	testenv.Must(t, os.WriteFile(file, []byte(httpcases.File), 0o644))
	old := time.Now().Add(-time.Hour)
	testenv.Must(t, os.Chtimes(file, old, old))
	ln := testenv.Listen(t)
	go http.Serve(ln, http.HandlerFunc(httpcases.Handler))
	addr := freePort(t)
	p := quicRun(t, configFile(t, quicSite(t, addr)+"[[site]]\nroot = %q\n[[site.proxy]]\nmatch = '/**'\nexcept = [%q]\nto = ['http://%s']\n", "max-head = 65536\n", root, httpcases.FilePath, ln.Addr()))
	over2 := clientOf(t, "")
	over2.Transport.(*http.Transport).ForceAttemptHTTP2 = true
	for name, client := range map[string]*http.Client{"HTTP/2.0": over2, "HTTP/3.0": over3(t)} {
		t.Run(name, func(t *testing.T) {
			c := &httpcases.Client{}
			resp, _ := send(t, client, "HEAD", "https://"+addr+httpcases.FilePath, nil)
			testenv.Equal(t, resp.Proto, name)
			c.Tag, c.Modified = resp.Header.Get("ETag"), resp.Header.Get("Last-Modified")
			tried := 0
			for _, k := range append(httpcases.Cases[:len(httpcases.Cases):len(httpcases.Cases)], httpcases.FileCases...) {
				fault, applies := c.Over(&k, func(r *http.Request) (*http.Response, error) {
					r.URL.Host = addr // that of the connection; the request's is in Host
					return client.Do(r)
				})
				if applies {
					tried++
				}
				if fault != "" {
					t.Errorf("%s (RFC %s): %s\n%.300q", k.Name, k.Section, fault, k.Send)
				}
			}
			testenv.AtLeast(t, tried, 100, "cases")
		})
	}
	over2.CloseIdleConnections()
	p.end()
}
