package flaghelp

import (
	"runtime/debug"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestVersion(t *testing.T) {
	const commit = "0123456789abcdef"
	info := &debug.BuildInfo{GoVersion: "go1.2", Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: commit}, {Key: "vcs.modified", Value: "true"},
	}}
	for version, want := range map[string]string{
		"v1.2.3": "knot v1.2.3 (commit 0123456789ab, changed), go1.2 ",
		"":       "knot (devel) (commit 0123456789ab, changed), go1.2 ",
		"v0.0.0-20261128170537-0123456789ab+dirty": "knot v0.0.0-20261128170537-0123456789ab+dirty, go1.2 ",
	} {
		info.Main.Version = version
		if got := versionOf("knot", info); !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q…", got, want)
		}
	}
}

func TestWords(t *testing.T) {
	for args, want := range map[string]string{"help": "-help", "help all": "-help all", "version": "-version", "-x help": "-x help", "": ""} {
		if got := strings.Join(Flagged(strings.Fields(args)), " "); got != want {
			t.Errorf("%q: %q, want %q", args, got, want)
		}
	}
	for args, want := range map[string]bool{"-help": false, "-help all": true, "-x -h all": true, "all": false, "-help more all": false} {
		if WantsAll(strings.Fields(args)) != want {
			t.Errorf("%q: want %v", args, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"abc", "axc", 1}, {"kitten", "sitting", 3}} {
		testenv.Equal(t, distance(test.a, test.b), test.want, "%q, %q", test.a, test.b)
	}
}
