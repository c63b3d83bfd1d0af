package plan

import (
	"os"
	"testing"
)

// Programs in testdata are modules of their own, which the workspace does not have.
func TestMain(m *testing.M) {
	os.Setenv("GOWORK", "off")
	os.Exit(m.Run())
}
