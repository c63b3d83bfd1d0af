//go:build knot_storage_consul

package sharedstore

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"
)

func init() { openers["Consul"] = openConsul }

// A consulStore is a Consul with these keys:
//
//	PREFIX/values/KEY   the value; its flags are the time of the change in ms
//	PREFIX/locks/NAME   exists while a session holds it, whose ID is the token
type consulStore struct {
	kv        *api.KV
	sessions  *api.Session
	transport *http.Transport
	prefix    string
}

// openConsul takes consul://HOST:PORT/PREFIX, or consul+https:// with TLS. The rest is in the environment, as the command consul has it:
// CONSUL_HTTP_TOKEN, CONSUL_CACERT and so on.
func openConsul(u *url.URL) (backend, error) {
	if u.User != nil {
		return nil, errors.New("the URL of a Consul has no credentials; the token belongs in CONSUL_HTTP_TOKEN of the environment")
	}
	if u.Host == "" || u.RawQuery != "" {
		return nil, errors.New("want the URL of a Consul, as consul://127.0.0.1:8500/PREFIX")
	}
	set := api.DefaultConfig()
	set.Address, set.Scheme = u.Host, "http"
	if u.Scheme == "consul+https" {
		set.Scheme = "https"
	}
	set.Transport.MaxConnsPerHost = connections
	client, err := api.NewClient(set)
	if err != nil {
		return nil, err
	}
	return &consulStore{client.KV(), client.Session(), set.Transport, cmp.Or(clean(u.Path), "knot") + "/"}, nil
}

func (s *consulStore) close() { s.transport.CloseIdleConnections() }

func (s *consulStore) valueKey(key string) string { return s.prefix + "values/" + key }
func (s *consulStore) lockKey(name string) string { return s.prefix + "locks/" + name }

func reading(ctx context.Context) *api.QueryOptions { return new(api.QueryOptions).WithContext(ctx) }
func writing(ctx context.Context) *api.WriteOptions { return new(api.WriteOptions).WithContext(ctx) }

// told is err, as that of a backend. Answers of 5xx are of a Consul without a leader.
func told(err error) error {
	var status api.StatusError
	if errors.As(err, &status) && status.Code < 500 {
		return errRefused{err}
	}
	return err
}

func (s *consulStore) get(ctx context.Context, key string) (value []byte, modified time.Time, err error) {
	pair, _, err := s.kv.Get(s.valueKey(key), reading(ctx))
	switch {
	case err != nil:
		return nil, modified, told(err)
	case pair == nil:
		return nil, modified, errMissing
	}
	return pair.Value, time.UnixMilli(int64(pair.Flags)), nil
}

func (s *consulStore) put(ctx context.Context, key string, value []byte) error {
	_, err := s.kv.Put(&api.KVPair{Key: s.valueKey(key), Value: value, Flags: uint64(time.Now().UnixMilli())}, writing(ctx))
	return told(err)
}

func (s *consulStore) remove(ctx context.Context, key string) error {
	_, err := s.kv.Delete(s.valueKey(key), writing(ctx))
	if err == nil {
		_, err = s.kv.DeleteTree(s.valueKey(key)+"/", writing(ctx))
	}
	return told(err)
}

// list returns all keys of a folder: Consul has no limit.
func (s *consulStore) list(ctx context.Context, folder string, _ int) ([]string, error) {
	root := s.valueKey("")
	below := root
	if folder != "" {
		below += folder + "/"
	}
	keys, _, err := s.kv.Keys(below, "", reading(ctx))
	for i, key := range keys {
		keys[i] = strings.TrimPrefix(key, root)
	}
	return keys, told(err)
}

// acquire makes a session, which deletes the key at its end. Consul ends it between one and two leases after its last renewal.
func (s *consulStore) acquire(ctx context.Context, name string, lease time.Duration) (token string, err error) {
	if pair, _, err := s.kv.Get(s.lockKey(name), reading(ctx)); err != nil || pair != nil && pair.Session != "" {
		return "", told(err)
	}
	token, _, err = s.sessions.CreateNoChecks(&api.SessionEntry{
		Name: "knot: " + name, TTL: lease.String(), Behavior: api.SessionBehaviorDelete, LockDelay: time.Millisecond, // 0 would be 15 s
	}, writing(ctx))
	if err != nil {
		return "", told(err)
	}
	return s.hold(ctx, name, token)
}

// hold takes the lock for a session, which may have it already, or ends the session.
func (s *consulStore) hold(ctx context.Context, name, token string) (string, error) {
	done, _, err := s.kv.Acquire(&api.KVPair{Key: s.lockKey(name), Session: token}, writing(ctx))
	if err != nil || done {
		return token, told(err)
	}
	return "", s.release(ctx, name, token)
}

func (s *consulStore) renew(ctx context.Context, name, token string, lease time.Duration) (next string, err error) {
	session, _, err := s.sessions.Renew(token, writing(ctx))
	switch {
	case err != nil:
		return "", told(err)
	case session == nil:
		return s.acquire(ctx, name, lease)
	}
	return s.hold(ctx, name, token)
}

func (s *consulStore) release(ctx context.Context, _, token string) error {
	_, err := s.sessions.Destroy(token, writing(ctx))
	return told(err)
}
