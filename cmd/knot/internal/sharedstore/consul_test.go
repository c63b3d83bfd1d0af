//go:build knot_storage_consul

package sharedstore

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func init() { rigs["Consul"] = consulRig }

// consul runs an agent in memory until stop.
func consul(t *testing.T, addr string, settings string) (stop func()) {
	program := testenv.Program(t, "consul")
	_, port, _ := net.SplitHostPort(addr)
	_, serf, _ := net.SplitHostPort(freeAddr(t))
	_, rpc, _ := net.SplitHostPort(freeAddr(t))
	cmd := exec.Command(program, "agent", "-dev", "-bind=127.0.0.1", "-log-level=error", "-hcl", fmt.Sprintf(
		"ports { http = %s, server = %s, serf_lan = %s, serf_wan = -1, dns = -1, grpc = -1, grpc_tls = -1 }\n%s", port, rpc, serf, settings))
	testenv.Must(t, cmd.Start())
	stop = stops(t, cmd, addr)
	testenv.Until(t, "Consul has a leader", func() bool {
		answer, err := http.Get("http://" + addr + "/v1/status/leader")
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		return err == nil && answer.StatusCode == 200 && len(text) > len(`""`)
	})
	http.DefaultClient.CloseIdleConnections()
	return stop
}

func consulRig(t *testing.T) *rig {
	t.Setenv("CONSUL_HTTP_TOKEN", "topsecret")
	addr := freeAddr(t)
	store := func(n *node) *consulStore { return n.store.(*consulStore) }
	end := func(t *testing.T, n *node, l string) {
		pair, _, err := store(n).kv.Get(store(n).lockKey(l), nil)
		testenv.Must(t, err)
		if pair != nil {
			testenv.Must(t, testenv.Err(store(n).sessions.Destroy(pair.Session, nil)))
		}
	}
	return &rig{
		url: "consul://" + addr + "/a/b", other: "consul://" + addr,
		start: func(t *testing.T) func() { return consul(t, addr, "") },
		isHeld: func(t *testing.T, n *node, l string) bool {
			pair, _, err := store(n).kv.Get(store(n).lockKey(l), nil)
			testenv.Must(t, err)
			return pair != nil
		},
		lose: end, expire: end,
		refuses: func(t *testing.T, n *node) string {
			addr := freeAddr(t)
			consul(t, addr, `acl { enabled = true, default_policy = "deny" }`)
			return "consul://" + addr
		},
		refusal: "403",
	}
}

// TestSession: the session of a lock ends by itself, which frees the lock; it is renewed, and goes with the lock.
func TestSession(t *testing.T) {
	r := consulRig(t)
	r.start(t)
	n := newNode(t, r)
	store := n.store.(*consulStore)
	sessions := func() []*api.SessionEntry { all, _, err := store.sessions.List(nil); testenv.Must(t, err); return all }
	testenv.Must(t, n.Lock(t.Context(), "l"))
	one := sessions()[0]
	testenv.Equal(t, one.TTL, lease.String(), "the time to live")
	testenv.Equal(t, one.Behavior, api.SessionBehaviorDelete, "the behaviour")
	n.ticks[lease/3] <- time.Time{}
	n.ticks[lease/3] <- time.Time{} // the renewal of before has ended
	testenv.Equal(t, len(sessions()), 1, "sessions")
	other := newNode(t, r)
	testenv.Equal(t, testenv.Need(other.TryLock(t.Context(), "l"))(t), false, "the lock is free")
	testenv.Must(t, n.Unlock(t.Context(), "l"))
	testenv.Equal(t, len(sessions()), 0, "sessions after Unlock")
	testenv.Until(t, "the lock is free", func() bool { return testenv.Need(other.TryLock(t.Context(), "l"))(t) })
}
