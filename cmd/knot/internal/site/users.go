package site

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/crypto/bcrypt"

	"github.com/capriccio-go/capriccio/internal/regular"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/task"
)

const (
	// maxVerified is how many passwords that were right are remembered for each Users: another
	// request with one of them costs no bcrypt.
	maxVerified = 10_000
	// maxPassword is what bcrypt takes of a password, in bytes.
	maxPassword = 72
)

// A Realm asks for a name and a password by the Basic scheme (RFC 7617). Passwords cross the network
// unprotected unless TLS does that.
type Realm struct {
	Match Pattern
	// Name is shown to the user.
	Name  string
	Users *Users
}

// Realms are those of a site; the first one that matches counts.
type Realms []Realm

// Find implements Guard.
func (rs Realms) Find(_ *knot.Ctx, path []byte) int {
	return slices.IndexFunc(rs, func(r Realm) bool { return r.Match.MatchBytes(path) })
}

// Admit implements Guard: the request needs the name and password of a user.
func (rs Realms) Admit(x *knot.Ctx, rule int) error { return rs[rule].admit(x) }

// admit lets the request pass if it has the name and password of a user. It may park.
func (r *Realm) admit(x *knot.Ctx) error {
	name, password, ok := basic(x.HeaderBytes("Authorization"))
	if ok {
		right, err := r.Users.check(request{x}, name, password)
		if err != nil {
			return err
		}
		if right {
			x.SetUser(name)
			return nil
		}
	}
	return &Refusal{401, func(x *knot.Ctx) error {
		x.AddHeader("WWW-Authenticate", `Basic realm="`+strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(r.Name)+`", charset="UTF-8"`)
		return x.SendError(401)
	}}
}

// basic reads the credentials of an Authorization header.
func basic(value []byte) (name, password string, ok bool) {
	const scheme = "basic "
	if len(value) < len(scheme) || !strings.EqualFold(string(value[:len(scheme)]), scheme) {
		return "", "", false
	}
	text, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(value[len(scheme):])))
	if err != nil {
		return "", "", false
	}
	return strings.Cut(string(text), ":")
}

// Users are names with bcrypt hashes of passwords. Safe from anywhere.
type Users struct {
	hashes map[string][]byte // fixed
	dummy  []byte            // the dearest hash, compared with for users that there are not; fixed
	key    [32]byte          // fixed

	turns       *turns                            // in which passwords are checked; fixed
	compareHash func(hash, password []byte) error // that of bcrypt but in tests; fixed

	mu       sync.Mutex
	verified map[[sha256.Size]byte]struct{} // guarded by mu
}

// OpenUsers reads a regular file as htpasswd -B writes it: lines of a name, a colon and a bcrypt hash. Empty
// lines and lines that begin with # are passed over.
func OpenUsers(path string) (*Users, error) {
	file, err := regular.Open(os.OpenFile, path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	u, err := ReadUsers(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return u, nil
}

// ReadUsers is OpenUsers for what r holds.
func ReadUsers(r io.Reader) (*Users, error) {
	u := &Users{
		hashes: make(map[string][]byte), verified: make(map[[sha256.Size]byte]struct{}),
		turns: checking, compareHash: bcrypt.CompareHashAndPassword,
	}
	rand.Read(u.key[:])
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		name, hash, ok := strings.Cut(line, ":")
		if !ok || name == "" {
			return nil, fmt.Errorf("line %d: want a name, a colon and a bcrypt hash", n)
		}
		cost, err := bcrypt.Cost([]byte(hash))
		if err != nil {
			return nil, fmt.Errorf("line %d: the hash of %q is not one of bcrypt; make one by knot hash, or htpasswd -B", n, name)
		}
		if _, known := u.hashes[name]; known {
			return nil, fmt.Errorf("line %d: %q is there twice", n, name)
		}
		u.hashes[name] = []byte(hash)
		if dearest, _ := bcrypt.Cost(u.dummy); u.dummy == nil || cost > dearest {
			u.dummy = u.hashes[name]
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(u.hashes) == 0 {
		return nil, errors.New("there are no users in it")
	}
	return u, nil
}

// check reports whether password is that of the user. The error is 503 if too many wait for an
// answer, or the client has left. It parks if the password is not one that was right before.
func (u *Users) check(v visitor, name, password string) (right bool, err error) {
	sum := u.sum(name, password)
	u.mu.Lock()
	_, right = u.verified[sum]
	u.mu.Unlock()
	if right {
		return true, nil
	}
	if err := u.turns.take(v); err != nil {
		return false, err
	}
	defer u.turns.end()
	task.Offload(func() { right = u.compare(name, password) })
	if right {
		u.remember(sum)
	}
	return right, nil
}

// compare computes whether password is that of the user. That it is not takes as long for every name, be it known or not:
// as long as the dearest hash.
func (u *Users) compare(name, password string) bool {
	hash, known := u.hashes[name]
	if !known {
		hash = u.dummy
	}
	if len(password) > maxPassword {
		known = false // bcrypt would refuse it at once
		password = password[:maxPassword]
	}
	right := u.compareHash(hash, []byte(password)) == nil && known
	if !right {
		cost, _ := bcrypt.Cost(hash)
		dearest, _ := bcrypt.Cost(u.dummy)
		for ; cost < dearest; cost++ { // each step takes twice as long as the one before: together the difference
			u.compareHash(withCost(u.dummy, cost), []byte(password))
		}
	}
	return right
}

// withCost is hash with another cost, which no password fits but by chance.
func withCost(hash []byte, cost int) []byte {
	parts := bytes.SplitN(hash, []byte{'$'}, 4) // "", version, cost, salt and the rest
	return fmt.Appendf(nil, "$%s$%02d$%s", parts[1], cost, parts[3])
}

// sum stands for a name and a password in memory.
func (u *Users) sum(name, password string) (sum [sha256.Size]byte) {
	mac := hmac.New(sha256.New, u.key[:])
	fmt.Fprintf(mac, "%d:%s%s", len(name), name, password)
	mac.Sum(sum[:0])
	return sum
}

func (u *Users) remember(sum [sha256.Size]byte) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.verified) >= maxVerified {
		clear(u.verified)
	}
	u.verified[sum] = struct{}{}
}

// HashPassword is the line of a file of users: name, colon, bcrypt hash.
func HashPassword(name string, password []byte) (string, error) {
	if name == "" || strings.ContainsAny(name, ":\r\n") || name[0] == '#' || name != strings.TrimSpace(name) {
		return "", fmt.Errorf("%q can't be the name of a user", name)
	}
	if len(password) == 0 {
		return "", errors.New("the password is empty")
	}
	hash, err := bcrypt.GenerateFromPassword(password, bcrypt.DefaultCost)
	if err != nil {
		return "", err
	}
	return name + ":" + string(hash), nil
}
