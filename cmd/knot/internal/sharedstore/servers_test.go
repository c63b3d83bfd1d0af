//go:build knot_storage_s3 || knot_storage_consul

package sharedstore

import (
	"net"
	"os/exec"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// freeAddr is an address on which nothing listens.
func freeAddr(t *testing.T) string {
	ln := testenv.Listen(t)
	defer ln.Close()
	return ln.Addr().String()
}

// stops waits until cmd listens, and returns what ends it.
func stops(t *testing.T, cmd *exec.Cmd, addr string) (stop func()) {
	stop = func() {
		if cmd.ProcessState == nil {
			cmd.Process.Kill()
			cmd.Wait()
		}
	}
	t.Cleanup(stop)
	testenv.Until(t, "the server listens", func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return stop
}
