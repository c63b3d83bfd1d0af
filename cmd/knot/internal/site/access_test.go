package site

import (
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
)

func TestPasswords(t *testing.T) {
	file := "# comment\n\nalice:" + hashOf(t, "päss:word", bcrypt.MinCost) + "\n"
	users := testenv.Need(ReadUsers(strings.NewReader(file)))(t)
	root := lay(t, map[string]string{"index.html": "open", "private/index.html": "secret"})
	addr := serve(t, only(&Site{Files: open(t, root), Guards: []Guard{Realms{{pattern(t, "/private/**"), `The "vault"`, users}}}}))
	askAs := func(credentials string) answer {
		return ask(t, addr, "GET", "/private/", "Authorization: "+credentials)
	}
	for range 2 { // the second time from memory
		testenv.Equal(t, askAs("Basic YWxpY2U6cMOkc3M6d29yZA==").body, "secret")
	}
	testenv.Equal(t, users.remembered(), 1, "passwords are remembered")
	for _, credentials := range []string{"Basic YWxpY2U6d3Jvbmc=", "Basic Ym9iOnDDpHNzOndvcmQ=", "Basic ###", "Basic", "Bearer YWxpY2U6cMOkc3M6d29yZA==", "Basic YWxpY2U="} {
		a := askAs(credentials)
		if a.status != 401 || a.header.Get("WWW-Authenticate") != `Basic realm="The \"vault\"", charset="UTF-8"` || strings.Contains(a.body, "secret") {
			t.Errorf("%q: %+v", credentials, a)
		}
	}
	// Nothing follows the refusal.
	nc := testenv.Dial(t, addr)
	io.WriteString(nc, "GET /private/ HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
	if all, err := io.ReadAll(nc); err != nil || strings.Contains(string(all), "secret") || strings.Count(string(all), "HTTP/1.1 ") != 1 {
		t.Errorf("%q, %v", all, err)
	}
	for target, want := range map[string]int{"/": 200, "/private/": 401, "/%70rivate/": 401, "//private//": 401, "/x/../private/": 401, "/private": 301} {
		testenv.Equal(t, ask(t, addr, "GET", target).status, want, target)
	}
	for i := range maxVerified + 10 {
		users.remember(users.sum("u", fmt.Sprint(i)))
	}
	testenv.AtMost(t, users.remembered(), maxVerified, "passwords are remembered")
	users = testenv.Need(ReadUsers(strings.NewReader(file)))(t)
	users.turns = newTurns(0, 0)
	addr = serve(t, only(&Site{Files: open(t, root), Guards: []Guard{Realms{{pattern(t, "/private/**"), "vault", users}}}}))
	a := askAs("Basic YWxpY2U6d3Jvbmc=")
	testenv.Equal(t, a.status, 503, "too many wait")
	testenv.Equal(t, a.header.Get("Retry-After") != "", true, "it says when to come back")
	testenv.Equal(t, askAs("Basic YWxpY2U6cMOkc3M6d29yZA==").status, 503, "the right one was not checked before")
}

// TestPasswordsForBackends: a path that a backend may see as another one needs the passwords of both.
func TestPasswordsForBackends(t *testing.T) {
	s := &Site{Guards: []Guard{Realms{
		{pattern(t, "/users/*/secret"), "a", usersOf(t, "alice")}, {pattern(t, "/*/admin"), "a", usersOf(t, "alice")}, {pattern(t, "/users/x/**"), "b", usersOf(t, "bob")},
	}}, Routes: []Route{{Match: pattern(t, "/**"), Handler: func(x *knot.Ctx) error { return x.SendString(200, "", "secret") }}}}
	addr := serve(t, only(s))
	for _, test := range []struct {
		target                string
		nobody, alice, bobbed int
	}{
		{"/users/y/secret", 401, 200, 401}, {"/users/y%2Fz/secret", 401, 200, 401}, {"/users/y%2fz/secret", 401, 200, 401}, {"/users//secret", 401, 200, 401},
		{"//admin", 401, 200, 401}, {"/%2Fadmin", 200, 200, 200}, {"/users/y/z/secret", 200, 200, 200},
		{"/users/x%2Fz/secret", 401, 401, 401}, // bob's by the clean path, alice's by the other one
		{"/users/x/z", 401, 401, 200}, {"/users%2Fx%2Fz", 401, 401, 200}, {"/users/y/../x/z", 401, 401, 200},
	} {
		for credentials, want := range map[string]int{"X-None: 1": test.nobody, "Authorization: Basic YWxpY2U6cA==": test.alice, "Authorization: Basic Ym9iOnA=": test.bobbed} {
			testenv.Equal(t, ask(t, addr, "GET", test.target, credentials).status, want, "%s, %s", test.target, credentials)
		}
	}
}

func TestUsersFile(t *testing.T) {
	line := testenv.Need(HashPassword("alice", []byte("secret")))(t)
	u := testenv.Need(ReadUsers(strings.NewReader(line)))(t)
	if right, err := u.check(new(guest), "alice", "secret"); !right || err != nil {
		t.Error(right, err)
	}
	if right, err := u.check(new(guest), "alice", "secret"+strings.Repeat("x", 100)); right || err != nil {
		t.Error("a long password", right, err)
	}
	for _, bad := range []string{"", "# nobody", "alice", ":x", "alice:{SHA}xxx", "alice:$apr1$x", line + "\n" + line} {
		testenv.Fails(t, testenv.Err(ReadUsers(strings.NewReader(bad))), "%q is taken", bad)
	}
	for _, bad := range []string{"", "a:b", " a", "#a", "a\nb"} {
		testenv.Fails(t, testenv.Err(HashPassword(bad, []byte("x"))), "%q is taken", bad)
	}
	testenv.Fails(t, testenv.Err(HashPassword("a", nil)), "an empty password is taken")
}

// TestRate: a site's rate reaches its files.
func TestRate(t *testing.T) {
	root := lay(t, map[string]string{"f.bin": strings.Repeat("x", 3000)})
	addr := serve(t, only(&Site{Files: open(t, root), Rate: 10_000, RateAfter: 1000}))
	began := time.Now()
	if a := ask(t, addr, "GET", "/f.bin"); len(a.body) != 3000 || time.Since(began) < 50*time.Millisecond {
		t.Errorf("%d bytes after %v", len(a.body), time.Since(began))
	}
}

func TestCurlWithAPassword(t *testing.T) {
	curl := testenv.Program(t, "curl")
	users := usersOf(t, "alice")
	addr := serve(t, only(&Site{Files: open(t, lay(t, map[string]string{"a.txt": "text"})), Guards: []Guard{Realms{{pattern(t, "/**"), "r", users}}}}))
	var all sync.WaitGroup
	for _, test := range []struct{ user, want string }{{"alice:p", "text200"}, {"alice:wrong", "401"}} {
		all.Go(func() {
			out, err := exec.Command(curl, "-sS", "--max-time", "60", "--basic", "-u", test.user, "-w", "%{http_code}", "http://"+addr+"/a.txt").CombinedOutput()
			if err != nil || !strings.HasSuffix(string(out), test.want) {
				t.Errorf("%s: %q, %v", test.user, out, err)
			}
		})
	}
	all.Wait()
}

// remembered is how many passwords need not be hashed again.
func (u *Users) remembered() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.verified)
}
