package sharedstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/redisclient"
)

// The scripts have the hash and the set as keys, or the lock.
var (
	store = redis.NewScript(`
local t = redis.call('TIME')
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000)) .. '\n' .. ARGV[2])
redis.call('ZADD', KEYS[2], 0, ARGV[1])
return 1`)
	remove = redis.NewScript(`
local names = redis.call('ZRANGEBYLEX', KEYS[2], ARGV[2], ARGV[3])
names[#names + 1] = ARGV[1]
for _, name in ipairs(names) do
	redis.call('HDEL', KEYS[1], name)
	redis.call('ZREM', KEYS[2], name)
end
return 1`)
	renew = redis.NewScript(`
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`)
	release = redis.NewScript(`
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1`)
)

// A redisStore is a Redis with these keys:
//
//	{PREFIX}:values     hash: key → time of the change in ms, new line, value
//	{PREFIX}:names      sorted set of the same keys, by which folders are listed
//	{PREFIX}:lock:NAME  token of the holder; expires unless it is renewed
type redisStore struct {
	client                *redis.Client
	values, names, prefix string
}

// openRedis takes a URL as redisclient has it, which may have ?prefix=NAME for the names of keys.
func openRedis(u *url.URL) (backend, error) {
	query := u.Query()
	prefix := "{" + cmp.Or(query.Get("prefix"), "knot") + "}:" // one node of a cluster has them all
	query.Del("prefix")
	u.RawQuery = query.Encode()
	client, err := redisclient.New(u.String(), connections, patience)
	if err != nil {
		return nil, err
	}
	return &redisStore{client, prefix + "values", prefix + "names", prefix}, nil
}

func (s *redisStore) close() { s.client.Close() }

// answered is err, as that of a backend.
func answered(err error) error {
	var reply redis.Error
	if errors.As(err, &reply) && !errors.Is(err, redis.Nil) {
		return errRefused{err}
	}
	return err
}

// below are the bounds of the keys in a folder.
func below(folder string) (from, to string) {
	if folder == "" {
		return "-", "+"
	}
	return "[" + folder + "/", "(" + folder + "0" // behind the slash comes 0
}

func (s *redisStore) get(ctx context.Context, key string) (value []byte, modified time.Time, err error) {
	text, err := s.client.HGet(ctx, s.values, key).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return nil, modified, errMissing
	case err != nil:
		return nil, modified, answered(err)
	}
	at, rest, ok := strings.Cut(text, "\n")
	ms, err := strconv.ParseInt(at, 10, 64)
	if !ok || err != nil {
		return nil, modified, errOdd(key)
	}
	return []byte(rest), time.UnixMilli(ms), nil
}

func (s *redisStore) put(ctx context.Context, key string, value []byte) error {
	return answered(store.Run(ctx, s.client, []string{s.values, s.names}, key, value).Err())
}

func (s *redisStore) remove(ctx context.Context, key string) error {
	from, to := below(key)
	return answered(remove.Run(ctx, s.client, []string{s.values, s.names}, key, from, to).Err())
}

func (s *redisStore) list(ctx context.Context, folder string, most int) ([]string, error) {
	from, to := below(folder)
	names, err := s.client.ZRangeArgs(ctx, redis.ZRangeArgs{Key: s.names, Start: from, Stop: to, ByLex: true, Count: int64(most)}).Result()
	return names, answered(err)
}

func (s *redisStore) lockKey(name string) string { return s.prefix + "lock:" + name }

func (s *redisStore) acquire(ctx context.Context, name string, lease time.Duration) (token string, err error) {
	token = rand.Text()
	switch err = s.client.SetArgs(ctx, s.lockKey(name), token, redis.SetArgs{Mode: "NX", TTL: lease}).Err(); {
	case errors.Is(err, redis.Nil):
		return "", nil
	case err != nil:
		return "", answered(err)
	}
	return token, nil
}

func (s *redisStore) renew(ctx context.Context, name, token string, lease time.Duration) (next string, err error) {
	mine, err := renew.Run(ctx, s.client, []string{s.lockKey(name)}, token, lease.Milliseconds()).Bool()
	if err != nil || !mine {
		return "", answered(err)
	}
	return token, nil
}

func (s *redisStore) release(ctx context.Context, name, token string) error {
	return answered(release.Run(ctx, s.client, []string{s.lockKey(name)}, token).Err())
}
