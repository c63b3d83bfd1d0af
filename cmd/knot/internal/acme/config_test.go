package acme

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/caddyserver/certmagic"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestSettingsInAFIFO: a reload does not wait for its writer.
func TestSettingsInAFIFO(t *testing.T) {
	providers["test"] = func() certmagic.DNSProvider { return nil }
	defer delete(providers, "test")
	fifo := filepath.Join(t.TempDir(), "fifo")
	testenv.Must(t, syscall.Mkfifo(fifo, 0o600))
	c := Config{DNS: "test", DNSFile: fifo}
	testenv.ErrorSays(t, testenv.Err(c.provider()), "fifo is not a regular file")
}
