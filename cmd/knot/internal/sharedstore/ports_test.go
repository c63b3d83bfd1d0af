//go:build knot_storage_s3 || knot_storage_consul

package sharedstore

import (
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// freeAddr is an address on which nothing listens.
func freeAddr(t *testing.T) string {
	ln := testenv.Listen(t)
	defer ln.Close()
	return ln.Addr().String()
}
