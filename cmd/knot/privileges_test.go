package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// publicDir is a folder that all users can read; where they can't come so far, the test is skipped.
func publicDir(t *testing.T) string {
	dir := t.TempDir()
	for _, one := range []string{dir, filepath.Dir(dir)} {
		testenv.Must(t, os.Chmod(one, 0o755))
	}
	for up := dir; up != "/"; {
		up = filepath.Dir(up)
		if info := testenv.Need(os.Stat(up))(t); info.Mode()&1 == 0 {
			t.Skip("other users than root can't search ", up)
		}
	}
	return dir
}

// TestUser: the port is open, and root's rights are gone.
func TestUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become somebody else")
	}
	public := publicDir(t)
	os.WriteFile(filepath.Join(public, "open.txt"), []byte("open"), 0o644)
	os.WriteFile(filepath.Join(public, "closed.txt"), []byte("closed"), 0o600)
	c := knotCommand(t, "-root", public, "-addr", "127.0.0.1:0", "-quiet", "-loops", "2", "-user", "65534:65534")
	p := startProcess(t, c).serves(t)
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.Process.Pid))
	for _, want := range []string{"Uid:\t65534\t65534\t65534\t65534", "Gid:\t65534\t65534\t65534\t65534", "Groups:\t65534"} {
		testenv.Contains(t, string(status), want)
	}
	for path, want := range map[string]int{"/open.txt": 200, "/closed.txt": 403} {
		resp, _ := testenv.Get(t, http.DefaultClient, "http://"+p.addr+path)
		testenv.Equal(t, resp.StatusCode, want, path)
	}
	http.DefaultClient.CloseIdleConnections()
	p.signal(t, syscall.SIGTERM)
	testenv.Check(t, c.Wait())
}

// TestUserWithoutACacheOfACME: what root may write is not asked, but what the user may.
func TestUserWithoutACacheOfACME(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become somebody else")
	}
	cache := publicDir(t)
	for dir, want := range map[string]string{cache: "write to " + cache, cache + "/new": "mkdir " + cache + "/new"} {
		out, err := knotCommand(t, "-root", sampleSite, "-addr", "127.0.0.1:0", "-user", "65534:65534", "-acme", "a.test", "-acme-cache", dir).CombinedOutput()
		if want = "knot: -acme-cache: " + want + ": permission denied\n"; err == nil || string(out) != want {
			t.Errorf("%v, %q; want %q", err, out, want)
		}
	}
}

func TestIdentities(t *testing.T) {
	for _, test := range []struct {
		text     string
		uid, gid int
		bad      bool
	}{
		{"root", 0, 0, false}, {"0", 0, 0, false}, {"54321", 54321, 54321, false}, {"54321:7", 54321, 7, false},
		{"nobody-of-this-name", 0, 0, true}, {"root:no-such-group", 0, 0, true}, {"-5", 0, 0, true}, {"", 0, 0, true},
		{"4294967296", 0, 0, true}, {"54321:4294967296", 0, 0, true},
	} {
		if got, err := identityOf(test.text); (err != nil) != test.bad || !test.bad && (got.uid != test.uid || got.gid != test.gid) {
			t.Errorf("%q: %v, %v", test.text, got, err)
		}
	}
}

// TestFurtherGroups: an account has those that name it, and its own group only if no other is asked for.
func TestFurtherGroups(t *testing.T) {
	web := &user.User{Uid: "33", Gid: "33", Username: "web"}
	members := func(u *user.User) ([]string, error) { return []string{u.Gid, "8", "7", "8", u.Gid}, nil }
	for gid, want := range map[int][]int{33: {8, 7}, 50: {8, 7}, 7: {8}} {
		if got, err := furtherGroups(web, gid, members); err != nil || !slices.Equal(got, want) {
			t.Errorf("in group %d: %v, %v; want %v", gid, got, err, want)
		}
	}
	testenv.Equal(t, web.Gid, "33", "the account has changed")
	for _, test := range []struct {
		ids  []string
		err  error
		want string
	}{
		{nil, &fs.PathError{Op: "open", Path: "/etc/group", Err: syscall.ENOENT}, ""},
		{nil, errors.New("too many"), `the groups of the user "web": too many`},
		{[]string{"x"}, nil, `the user "web" has a group "x"`},
	} {
		got, err := furtherGroups(web, 33, func(*user.User) ([]string, error) { return test.ids, test.err })
		if len(got) > 0 || (err != nil) != (test.want != "") || err != nil && err.Error() != test.want {
			t.Errorf("%v, %v; want %q", got, err, test.want)
		}
	}
	text, err := os.ReadFile("/etc/group")
	if err != nil {
		t.Skip(err)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) != 4 || fields[3] == "" {
			continue
		}
		member, _, _ := strings.Cut(fields[3], ",")
		gid, err := strconv.Atoi(fields[2])
		if _, unknown := user.Lookup(member); err != nil || unknown != nil {
			continue
		}
		if id, err := identityOf(member + ":54321"); err != nil || id.gid != 54321 || !slices.Contains(id.groups, gid) {
			t.Errorf("%s in %s: %+v, %v", member, fields[0], id, err)
		}
	}
}
