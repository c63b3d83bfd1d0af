package main

import (
	"bytes"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// frontController says what an application of one script sees of a request: it finds the path in REQUEST_URI, without the
// name of the script, or in PATH_INFO.
const frontController = `<?php
$script = $_SERVER["SCRIPT_NAME"];
$path = strtok($_SERVER["REQUEST_URI"], "?");
if ($path === "/none") { http_response_code(404); echo "the script's page"; exit; }
if ($path === "/login") { header("Location: /admin/?from=" . urlencode($path), true, 303); exit; }
if ($path === "/upload") {
	$f = $_FILES["file"];
	echo $f["name"], " ", $f["size"], " ", md5_file($f["tmp_name"]), " ", $_POST["title"];
	exit;
}
foreach (["REQUEST_METHOD", "SCRIPT_NAME", "SCRIPT_FILENAME", "PATH_INFO", "REQUEST_URI", "QUERY_STRING", "DOCUMENT_ROOT", "HTTPS", "PHP_SELF"] as $name)
	echo $name === "SCRIPT_FILENAME" || $name === "DOCUMENT_ROOT" ? str_replace(realpath(__DIR__), "", realpath($_SERVER[$name])) : ($_SERVER[$name] ?? "-"), "|";
echo strlen(file_get_contents("php://input"));`

// TestPHPApplications: a site whose one script answers for everything that is no file, with a real php-fpm.
func TestPHPApplications(t *testing.T) {
	fpm := testenv.PHP(t)
	root := t.TempDir()
	for name, text := range map[string]string{
		"/index.php": frontController, "/style.css": "css", "/admin/index.php": `<?php echo "admin ", $_SERVER["SCRIPT_NAME"], " ", $_GET["a"] ?? "-";`,
		"/uploads/evil.jpg": `<?php echo "evil";`, "/old.php": `<?php echo "old ", $_GET["id"], " ", $_SERVER["REQUEST_URI"];`,
	} {
		testenv.Must(t, os.MkdirAll(filepath.Dir(root+name), 0o755))
		testenv.Must(t, os.WriteFile(root+name, []byte(text), 0o644))
	}
	crt, key := pair(t, t.TempDir(), "a.example", 1)
	file := configFile(t, `
tls-cert = %q
tls-key = %q
addr = "127.0.0.1:0"
[[site]]
root = %q
index = ["index.php", "index.html"]
try = ["$path", "$path/", "/index.php"]
[[site.rewrite]]
pattern = '^/item/(\d+)$'
to = "/old.php?id=$1"
[[site.proxy]]
match = "*.php"
to = [%q]
fastcgi = { root = %q }
[[site.proxy]]
match = "/index.php/**"
to = [%q]
fastcgi = { root = %q }
`, crt, key, root, fpm, root, fpm, root)
	p := startRun(t, "-config", file)
	base := httpURL.FindString(p.printed[0])
	client := clientOf(t, "")
	ask := func(method, target, ctype string, body io.Reader) (*http.Response, string) {
		t.Helper()
		req := testenv.Need(http.NewRequest(method, base+target, body))(t)
		req.URL.Opaque, req.URL.RawQuery = strings.TrimPrefix(base, "https:")+target, "" // as it is, behind the host
		req.Header.Set("Content-Type", ctype)
		resp := testenv.Need(client.Do(req))(t)
		defer resp.Body.Close()
		return resp, string(testenv.Need(io.ReadAll(resp.Body))(t))
	}
	chunked := func(n int) io.Reader { return io.MultiReader(strings.NewReader(strings.Repeat("x", n))) }
	for _, c := range []struct {
		method, target string
		body           io.Reader
		want           string
	}{
		{"GET", "/", nil, "200 GET|/index.php|/index.php|-|/||" + "|on|/index.php|0"},
		{"GET", "/2026/11/a%20post/?p=1&q=%2F", nil, "200 GET|/index.php|/index.php|-|/2026/11/a%20post/?p=1&q=%2F|p=1&q=%2F||on|/index.php|0"},
		{"GET", "/index.php/foo/b%20r%C3%A9?x", nil, "200 GET|/index.php|/index.php|/foo/b ré|/index.php/foo/b%20r%C3%A9?x|x||on|/index.php/foo/b ré|0"},
		{"HEAD", "/any", nil, "200 "},
		{"POST", "/api/x", strings.NewReader("abc"), "200 POST|/index.php|/index.php|-|/api/x|||on|/index.php|3"},
		{"POST", "/api/x", chunked(300_000), "200 POST|/index.php|/index.php|-|/api/x|||on|/index.php|300000"},
		{"PUT", "/api/%2Fx", chunked(7), "200 PUT|/index.php|/index.php|-|/api/%2Fx|||on|/index.php|7"},
		{"GET", "/none", nil, "404 the script's page"},
		{"GET", "/login", nil, "303 /admin/?from=%2Flogin"},
		{"GET", "/style.css", nil, "200 css"},
		{"GET", "/admin/?a=1", nil, "200 admin /admin/index.php 1"},
		{"GET", "/admin", nil, "301 /admin/"},
		{"GET", "/item/7?x", nil, "200 old 7 /item/7?x"},
		{"GET", "/uploads/evil.jpg", nil, `200 <?php echo "evil";`},
		{"GET", "/uploads/evil.jpg/x.php", nil, "404 "},
	} {
		resp, body := ask(c.method, c.target, "text/plain", c.body)
		got := fmt.Sprint(resp.StatusCode, " ", resp.Header.Get("Location"), body)
		if got != c.want && !((c.want == "404 " || resp.StatusCode == 301) && strings.HasPrefix(got, c.want)) {
			t.Errorf("%s %s: %s; want %s", c.method, c.target, got, c.want)
		}
	}
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	testenv.Must(t, w.WriteField("title", "a title"))
	part := testenv.Need(w.CreateFormFile("file", "p é.jpg"))(t)
	testenv.Need(part.Write(bytes.Repeat([]byte("0123456789"), 30_000)))(t)
	testenv.Must(t, w.Close())
	_, body := ask("POST", "/upload", w.FormDataContentType(), io.MultiReader(&form))
	testenv.Equal(t, body, "p é.jpg 300000 b9c683230a9e20ee0a15acf7f070f508 a title", "an upload")
	go io.Copy(io.Discard, p.out)
	client.CloseIdleConnections()
	p.end()
}
