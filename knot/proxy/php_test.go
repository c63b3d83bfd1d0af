package proxy

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// phpFPM starts a php-fpm with two processes and returns its socket.
func phpFPM(t *testing.T) string {
	program, err := exec.LookPath("php-fpm")
	if found, _ := filepath.Glob("/usr/sbin/php-fpm*"); err != nil && len(found) > 0 {
		program, err = found[0], nil
	}
	if err != nil {
		t.Skip("there is no php-fpm on this machine:", err)
	}
	dir := t.TempDir()
	socket, config := dir+"/php.sock", dir+"/fpm.conf"
	testenv.Must(t, os.WriteFile(config, fmt.Appendf(nil, "[global]\nerror_log = /dev/null\n[www]\nlisten = %s\nuser = %d\npm = static\npm.max_children = 2\n", socket, os.Getuid()), 0o644))
	cmd := exec.Command(program, "-n", "-F", "-R", "-y", config)
	var said testenv.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	testenv.Must(t, cmd.Start())
	ended := make(chan bool)
	go func() {
		cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		<-ended
	})
	testenv.Until(t, "php-fpm", func() bool {
		select {
		case <-ended:
			t.Fatalf("php-fpm has ended: %s", said.String())
		default:
		}
		c, err := net.Dial("unix", socket)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return "unix:" + socket
}

// TestPHP: what PHP makes of requests.
func TestPHP(t *testing.T) {
	backend := phpFPM(t)
	root := t.TempDir()
	testenv.Must(t, os.MkdirAll(root+"/up", 0o755))
	for name, text := range map[string]string{
		"/index.php":    `<?php echo $_SERVER["REQUEST_METHOD"], " ", $_SERVER["PATH_INFO"] ?? "-", " ", $_COOKIE["a"] ?? "-", " ", $_SERVER["SERVER_NAME"], " ", strlen(file_get_contents("php://input"));`,
		"/form.php":     `<?php http_response_code(201); echo $_POST["x"], " ", $_SERVER["CONTENT_LENGTH"];`,
		"/more.php":     `<?php header("Content-Length: 3"); echo "hello";`,
		"/loud.php":     `<?php error_log("PHP complains"); echo "ok";`,
		"/moved.php":    `<?php header("Location: /x");`,
		"/up/evil.jpg":  `<?php echo "evil";`,
		"/up/hints.php": `<?php for ($i = 0; $i < 300; $i++) header("X-Line: $i", false); echo "many";`,
	} {
		testenv.Must(t, os.WriteFile(root+name, []byte(text), 0o644))
	}
	f := serve(t, Config{Backends: []string{backend}, FastCGI: &FastCGI{Root: root}}, 1)
	large := strings.Repeat("x", 300_000)
	const form = "Content-Type: application/x-www-form-urlencoded"
	for _, test := range []struct {
		method, target, body, line string
		chunked                    bool
		want                       string
	}{
		{"GET", "/", "", `Cookie: a=x, y`, false, "200 GET - x, y [::1] 0"},
		{"GET", "/any/thing", "", "", false, "200 GET /any/thing - [::1] 0"},
		{"GET", "/index.php/info", "", "", false, "200 GET /info - [::1] 0"},
		{"POST", "/", large, "", false, "200 POST - - [::1] 300000"},
		{"POST", "/", large, "", true, "200 POST - - [::1] 300000"},
		{"POST", "/form.php", "x=1", form, true, "201 1 3"},
		{"GET", "/more.php", "", "", false, "200 hel"},
		{"GET", "/loud.php", "", "", false, "200 ok"},
		{"GET", "/moved.php", "", "", false, "302 "},
		{"GET", "/up/evil.jpg/x.php", "", "", false, "404 "},
		{"GET", "/up/hints.php", "", "", false, "200 many"},
	} {
		req := f.request(test.method, test.target, test.body, "Host: [::1]:8080")
		if name, value, ok := strings.Cut(test.line, ": "); ok {
			req.Header.Set(name, value)
		}
		if test.chunked {
			req.ContentLength = -1
		}
		resp := testenv.Need(http.DefaultTransport.RoundTrip(req))(t)
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if got := fmt.Sprintf("%d %s", resp.StatusCode, body); err != nil || got != test.want && !(resp.StatusCode == 404 && strings.HasPrefix(got, test.want)) {
			t.Errorf("%s %s: %.100s, %v; want %s", test.method, test.target, got, err, test.want)
		}
	}
	testenv.Until(t, "the log", func() bool { return strings.Contains(f.log.String(), "PHP complains") })
	testenv.Contains(t, f.log.String(), "more than its Content-Length", "the log")
}
