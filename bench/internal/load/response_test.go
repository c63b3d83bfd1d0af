package load

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestHeadsAreReadWhole(t *testing.T) {
	const served = "HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 5\r\n\r\nhello"
	const refused = "HTTP/1.1 503 Service Unavailable\r\nretry-after: 2\r\nConnection: close\r\ncontent-length: 0\r\n\r\n"
	for _, c := range []struct {
		data string
		want response
	}{
		{served, response{status: 200, length: int64(len(served)), body: 5}},
		{refused, response{503, 2 * time.Second, true, int64(len(refused)), 0}},
	} {
		head := len(c.data) - int(c.want.body)
		for n := range head {
			if _, length, err := parseHead([]byte(c.data[:n])); length != 0 || err != nil {
				t.Errorf("%q: length %d, error %v", c.data[:n], length, err)
			}
		}
		got, length, err := parseHead([]byte(c.data + "HTTP/1.1 "))
		if got != c.want || length != head || err != nil {
			t.Errorf("%q: got %+v, %d, %v", c.data, got, length, err)
		}
	}
}

func TestResponsesThatAreNotUnderstood(t *testing.T) {
	for _, data := range []string{
		"SSH-2.0-OpenSSH\r\n\r\n",
		"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 2x0 OK\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 100 Continue\r\n\r\n",
		"HTTP/1.1 200 OK\r\n\r\n",
		"HTTP/1.1\r\n\r\n",
		"\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 503 No\r\nRetry-After: soon\r\nContent-Length: 0\r\n\r\n",
		strings.Repeat("x", maxHead+1),
	} {
		if got, length, err := parseHead([]byte(data)); err == nil {
			t.Errorf("%.60q: got %+v, %d", data, got, length)
		}
	}
}

// Whatever net/http writes, it is read as it was meant.
func TestResponsesOfNetHTTP(t *testing.T) {
	for _, status := range []int{200, 404, 429, 503} {
		w := httptest.NewRecorder()
		w.Header().Set("Retry-After", "1")
		http.Error(w, "text", status)
		r := w.Result()
		r.ContentLength = int64(w.Body.Len())
		var wire bytes.Buffer
		testenv.Must(t, r.Write(&wire))
		got, length, err := parseHead(wire.Bytes())
		if got.status != status || got.retryAfter != time.Second || length+int(r.ContentLength) != wire.Len() || err != nil {
			t.Errorf("%d: got %+v, %d of %d, %v", status, got, length, wire.Len(), err)
		}
	}
}

func FuzzParseHead(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"))
	f.Add([]byte("HTTP/1.1 503 X\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, length, err := parseHead(data)
		if length < 0 || length > len(data) || err != nil && length != 0 {
			t.Fatalf("length %d of %d, error %v", length, len(data), err)
		}
		if length == 0 {
			return
		}
		if again, same, err := parseHead(data[:length]); again != r || same != length || err != nil {
			t.Fatalf("without what follows: %+v, %d, %v; with it %+v, %d", again, same, err, r, length)
		}
		if r.status < 200 || !bytes.HasPrefix(data, fmt.Appendf(nil, "HTTP/1.1 %d", r.status)) {
			t.Fatalf("status %d of %q", r.status, data)
		}
	})
}
