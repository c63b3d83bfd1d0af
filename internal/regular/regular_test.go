package regular

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestOpen opens no file that may keep its reader waiting, by a name or below a root.
func TestOpen(t *testing.T) {
	dir := t.TempDir()
	root := testenv.Need(os.OpenRoot(dir))(t)
	defer root.Close()
	testenv.Must(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	testenv.Must(t, os.Symlink("fifo", filepath.Join(dir, "link")))
	testenv.Must(t, os.Mkdir(filepath.Join(dir, "folder"), 0o700))
	testenv.Must(t, os.WriteFile(filepath.Join(dir, "file"), []byte("text"), 0o600))
	for name, want := range map[string]string{"fifo": "fifo is not a regular file", "link": "link is not a regular file", "folder": "folder is not a regular file", "none": "no such file"} {
		testenv.ErrorSays(t, testenv.Err(Read(filepath.Join(dir, name))), want)
		testenv.ErrorSays(t, testenv.Err(Open(root.OpenFile, name)), want, "below a root")
	}
	testenv.Equal(t, string(testenv.Need(Read(filepath.Join(dir, "file")))(t)), "text", "content")
}
