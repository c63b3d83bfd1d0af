package knot

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// layReleases makes two folders with the same files, and a link to the first.
func layReleases(t *testing.T) (top, current string) {
	t.Helper()
	top = publicDir(t)
	writeFile(t, filepath.Join(top, "1/f"), "release 1")
	writeFile(t, filepath.Join(top, "2/f"), "release 2")
	current = filepath.Join(top, "current")
	testenv.Must(t, os.Symlink("1", current))
	return top, current
}

// switchLink makes the link current lead to target in one step.
func switchLink(t *testing.T, current, target string) {
	t.Helper()
	fresh := current + ".new"
	testenv.Must(t, errors.Join(os.Symlink(target, fresh), os.Rename(fresh, current)))
}

// TestRootIsLookedUpAnew: what its name leads to is served, as soon as a change of a file would
// show, however files are kept and found.
func TestRootIsLookedUpAnew(t *testing.T) {
	const old, fresh = "release 1", "release 2"
	for _, kept := range keepings {
		for _, walks := range []bool{false, true} {
			for _, change := range []struct {
				name, want, says string
				do               func(t *testing.T, top, current string)
			}{
				{"nothing", old, "", func(*testing.T, string, string) {}},
				{"a link is switched", fresh, "", func(t *testing.T, top, current string) { switchLink(t, current, "2") }},
				{"a link becomes a folder", fresh, "", func(t *testing.T, top, current string) {
					testenv.Must(t, errors.Join(os.Remove(current), os.Rename(filepath.Join(top, "2"), current)))
				}},
				{"the link is gone", old, "no such file", func(t *testing.T, top, current string) { os.Remove(current) }},
				{"it leads to a file", old, "not a directory", func(t *testing.T, top, current string) { switchLink(t, current, "2/f") }},
				{"it leads to a folder that is forbidden", old, "permission denied", func(t *testing.T, top, current string) {
					testenv.Must(t, os.Chmod(filepath.Join(top, "2"), 0))
					switchLink(t, current, "2")
				}},
			} {
				t.Run(fmt.Sprint(kept.name, "/walks=", walks, "/", change.name), func(t *testing.T) {
					top, current := layReleases(t)
					f := openWith(t, current, kept.config)
					f.store.Walks = f.store.Walks || walks
					now := int64(1)
					setClock(f, &now)
					fds := countFDs()
					log := new(testenv.Buffer)
					s := &Server{Handler: f.Handle, ErrorLog: textLog(log)}
					ask := func() string { return bodyOf(answerTo(s, req("GET /f", "Connection: close"))) }
					testenv.MustEqual(t, ask(), old, "at first")
					change.do(t, top, current)
					asNobody(func() {
						now += int64(time.Second) - 1
						testenv.Equal(t, ask(), old, "before it was looked up")
						now++
						for range 3 {
							testenv.Equal(t, ask(), change.want)
							now += int64(time.Second)
						}
					})
					if said := log.String(); strings.Count(said, "\n") != min(1, len(change.says)) || !strings.Contains(said, change.says) {
						t.Errorf("it says %q, want one line with %q", said, change.says)
					}
					testenv.AtMost(t, countFDs(), fds+1, "descriptors, before %d", fds)
				})
			}
		}
	}
}

// TestRootAtEveryRequest, if that is what Revalidate says.
func TestRootAtEveryRequest(t *testing.T) {
	_, current := layReleases(t)
	f := openWith(t, current, FilesConfig{Revalidate: -1})
	for _, release := range []string{"1", "2", "1", "2"} {
		switchLink(t, current, release)
		testenv.Equal(t, askBody(t, f, "/f"), "release "+release, "after a switch to %s", release)
	}
}

// TestFileOpenedBeforeTheSwitch: an entry that was compared a moment before the root was switched is
// not served for as long again.
func TestFileOpenedBeforeTheSwitch(t *testing.T) {
	_, current := layReleases(t)
	f := openWith(t, current, FilesConfig{})
	now := int64(1)
	setClock(f, &now)
	now += int64(time.Second) - 10
	askBody(t, f, "/f") // good until almost two seconds
	switchLink(t, current, "2")
	now += 10
	testenv.Equal(t, askBody(t, f, "/f"), "release 2", "after the root was looked up")
}

func TestRootThatCannotBeUsed(t *testing.T) {
	top, current := layReleases(t)
	testenv.Must(t, os.Chmod(filepath.Join(top, "2"), 0))
	for name, want := range map[string]error{
		filepath.Join(top, "none"): unix.ENOENT,
		filepath.Join(top, "1/f"):  unix.ENOTDIR,
		filepath.Join(top, "2"):    unix.EACCES,
		"":                         unix.ENOENT,
	} {
		asNobody(func() {
			fds := countFDs()
			f, err := OpenFiles(name, FilesConfig{})
			if path := (*os.PathError)(nil); !errors.Is(err, want) || !errors.As(err, &path) || path.Path != name {
				t.Errorf("%s: %v, want %v", name, err, want)
			}
			if err == nil {
				f.Close()
			}
			testenv.AtMost(t, countFDs(), fds, "%s: N descriptors, before %d", name, fds)
		})
	}
	openWith(t, current, FilesConfig{})
}
