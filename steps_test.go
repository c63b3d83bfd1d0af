package capriccio_test

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestFullHasWhatTriesMore: a step runs all tests that try more with CAPRICCIO_TEST=full: test_full by FULL, simulate those of internal/simserver.
func TestFullHasWhatTriesMore(t *testing.T) {
	_, full, _ := strings.Cut(read(t, ".ci/steps.sh"), "\nexport FULL=\"")
	full, _, _ = strings.Cut(full, "\"\n")
	run := append(strings.Fields(full), "./internal/simserver")
	triesMore := regexp.MustCompile(`testenv\.(NeedsFull|Full|Rounds)\(|enginetest\.EachLoops\(`)
	found := 0
	testenv.Must(t, filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") || !triesMore.MatchString(read(t, path)) {
			return err
		}
		found++
		if !slices.ContainsFunc(run, func(pattern string) bool {
			folder, below := strings.CutSuffix(pattern, "/...")
			folder, dir := filepath.Clean(folder), filepath.Dir(path)
			return dir == folder || below && strings.HasPrefix(dir, folder+"/")
		}) {
			t.Errorf("no step runs %s with CAPRICCIO_TEST=full", path)
		}
		return nil
	}))
	testenv.AtLeast(t, found, 50, "files of tests that try more")
}
