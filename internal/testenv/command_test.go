package testenv

import (
	"path/filepath"
	"testing"
)

// A user's PATH may lack /usr/sbin, where Debian has nginx.
func TestProgramInSbin(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var found string
	t.Run("look", func(t *testing.T) { found = Program(t, "*") })
	Equal(t, filepath.Dir(found), "/usr/sbin")
}
