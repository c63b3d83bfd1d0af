package funcname

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestOfStandardLibrary(t *testing.T) {
	for function, want := range map[string]bool{
		"net/http.(*conn).serve": true, "sync.(*Mutex).Lock": true, "runtime.main": true, "internal/poll.(*FD).Read": true, "vendor/golang.org/x/net/idna.f": true,
		"pthread_create": true, "a function without a frame": true, "": true,
		"main.main": false, "shop_test.TestX": false, "example.com/shop.Get": false, "go.opentelemetry.io/otel.F": false,
		"shop.Get": false, "shop/db.(*Conn).Query": false, "gopkg.in/yaml%2ev3.Unmarshal": false, // of modules called shop and gopkg.in
	} {
		testenv.Equal(t, OfStandardLibrary(function), want, function)
	}
}

// TestStandardFolders: each folder of this release's standard library counts.
func TestStandardFolders(t *testing.T) {
	root := testenv.Need(exec.Command("go", "env", "GOROOT").Output())(t)
	files := testenv.Need(filepath.Glob(filepath.Join(strings.TrimSpace(string(root)), "src", "*", "*.go")))(t)
	testenv.AtLeast(t, len(files), 100, "files of the standard library")
	for _, file := range files {
		if folder := filepath.Base(filepath.Dir(file)); !standard[folder] {
			t.Errorf("%s is not known", folder)
		}
	}
}
