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

func TestResponsesAreReadWhole(t *testing.T) {
	const served = "HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 5\r\n\r\nhello"
	const refused = "HTTP/1.1 503 Service Unavailable\r\nretry-after: 2\r\nConnection: close\r\ncontent-length: 0\r\n\r\n"
	for _, c := range []struct {
		data string
		want response
	}{
		{served, response{status: 200}},
		{refused, response{503, 2 * time.Second, true}},
	} {
		for n := range len(c.data) {
			if _, length, err := parseResponse([]byte(c.data[:n])); length != 0 || err != nil {
				t.Errorf("%q: length %d, error %v", c.data[:n], length, err)
			}
		}
		got, length, err := parseResponse([]byte(c.data + "HTTP/1.1 "))
		if got != c.want || length != len(c.data) || err != nil {
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
		"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 503 No\r\nRetry-After: soon\r\nContent-Length: 0\r\n\r\n",
		strings.Repeat("x", maxResponse+1),
	} {
		if got, length, err := parseResponse([]byte(data)); err == nil {
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
		got, length, err := parseResponse(wire.Bytes())
		if got.status != status || got.retryAfter != time.Second || length != wire.Len() || err != nil {
			t.Errorf("%d: got %+v, %d of %d, %v", status, got, length, wire.Len(), err)
		}
	}
}

func FuzzParseResponse(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"))
	f.Add([]byte("HTTP/1.1 503 X\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, length, err := parseResponse(data)
		if length < 0 || length > len(data) || err != nil && length != 0 {
			t.Fatalf("length %d of %d, error %v", length, len(data), err)
		}
		if length == 0 {
			return
		}
		if again, same, err := parseResponse(data[:length]); again != r || same != length || err != nil {
			t.Fatalf("without what follows: %+v, %d, %v; with it %+v, %d", again, same, err, r, length)
		}
		if r.status < 200 || !bytes.HasPrefix(data, fmt.Appendf(nil, "HTTP/1.1 %d", r.status)) {
			t.Fatalf("status %d of %q", r.status, data)
		}
	})
}
