//go:build knot_storage_s3

package sharedstore

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
)

func init() { openers["S3"] = openS3 }

// maxWatched limits the locks of other servers that are remembered.
const maxWatched = 1000

// An s3Store is a bucket with these objects:
//
//	PREFIX/values/KEY   the value
//	PREFIX/locks/NAME   token of the holder, new line, a text that each renewal changes. Without a token the lock is free.
//
// S3 ends no lock by itself, and its clock is not ours. A lock has ended when its ETag has stayed the same for a lease.
type s3Store struct {
	client *s3.Client
	http   *http.Client
	bucket string
	prefix string // "", or with a slash at its end
	now    func() time.Time

	mu      sync.Mutex
	watched map[string]watched // locks of others, by name; guarded by mu
	honours bool               // the server was seen to honour conditions; guarded by mu
}

// watched is a lock that another server has.
type watched struct {
	etag  string
	since time.Time
}

// openS3 takes s3://BUCKET/PREFIX?region=REGION&endpoint=URL. The AWS SDK looks for credentials in the environment,
// the files of the user, or the role of the pod or the machine.
func openS3(u *url.URL) (backend, error) {
	query := u.Query()
	region, endpoint := query.Get("region"), query.Get("endpoint")
	query.Del("region")
	query.Del("endpoint")
	e, err := url.Parse(endpoint)
	switch {
	case u.User != nil || err == nil && e.User != nil:
		return nil, errors.New("the URL of a bucket has no credentials; they belong in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY of the environment")
	case u.Host == "" || len(query) > 0:
		return nil, errors.New("want the URL of a bucket, as s3://BUCKET/PREFIX?region=REGION&endpoint=https://10.0.0.7:9000")
	case endpoint != "" && (err != nil || e.Host == "" || e.Scheme != "https" && e.Scheme != "http"):
		return nil, errors.New("the endpoint of a bucket is no URL; want one like https://10.0.0.7:9000")
	}
	region = cmp.Or(region, os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"), "us-east-1")
	set, err := config.LoadDefaultConfig(context.Background(), config.WithRegion(region), config.WithHTTPClient(awshttp.NewBuildableClient()),
		config.WithRetryer(func() aws.Retryer { return aws.NopRetryer{} }))
	if err != nil {
		return nil, fmt.Errorf("the settings of AWS: %w", err)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }} // that of another region says so
	if built, ok := set.HTTPClient.(*awshttp.BuildableClient); ok {                                                      // with AWS_CA_BUNDLE
		transport := built.GetTransport()
		transport.MaxConnsPerHost = connections
		client.Transport = transport
	}
	set.HTTPClient = client
	s := &s3Store{http: client, bucket: u.Host, now: time.Now, watched: make(map[string]watched)}
	if path := clean(u.Path); path != "" {
		s.prefix = path + "/"
	}
	s.client = s3.NewFromConfig(set, func(o *s3.Options) {
		if endpoint != "" {
			o.BaseEndpoint, o.UsePathStyle = &endpoint, true // the names of buckets need not be in its DNS
		}
		// Not every server knows the checksums of 2024.
		o.RequestChecksumCalculation, o.ResponseChecksumValidation = aws.RequestChecksumCalculationWhenRequired, aws.ResponseChecksumValidationWhenRequired
		o.DisableLogOutputChecksumValidationSkipped = true
	})
	return s, nil
}

func (s *s3Store) close() { s.http.CloseIdleConnections() }

func (s *s3Store) valueKey(key string) string { return s.prefix + "values/" + key }
func (s *s3Store) lockKey(name string) string { return s.prefix + "locks/" + name }

// answer is err, as that of a backend, and the HTTP status if there was an answer. Those of 5xx are of a server that is ill or has too much to do.
func answer(err error) (int, error) {
	var sending *url.Error
	if errors.As(err, &sending) {
		return 0, sending // without a list of what the answer would have said
	}
	var response *awshttp.ResponseError
	if !errors.As(err, &response) {
		return 0, err
	}
	var said smithy.APIError // err has the number of the request too: each time the log would have a line
	if status := response.HTTPStatusCode(); status < 500 && errors.As(err, &said) {
		return status, errRefused{fmt.Errorf("%s: %s", said.ErrorCode(), said.ErrorMessage())}
	}
	return 0, err
}

// read reads an object.
func (s *s3Store) read(ctx context.Context, key string) (value []byte, etag string, modified time.Time, err error) {
	o, err := s.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.bucket, Key: &key})
	if err != nil {
		if errors.As(err, new(*types.NoSuchKey)) {
			return nil, "", modified, errMissing
		}
		_, err = answer(err)
		return nil, "", modified, err
	}
	defer o.Body.Close()
	value, err = io.ReadAll(io.LimitReader(o.Body, mostBytes+1))
	return value, aws.ToString(o.ETag), aws.ToTime(o.LastModified), err
}

func (s *s3Store) get(ctx context.Context, key string) (value []byte, modified time.Time, err error) {
	value, _, modified, err = s.read(ctx, s.valueKey(key))
	return value, modified, err
}

func (s *s3Store) put(ctx context.Context, key string, value []byte) error {
	key = s.valueKey(key)
	_, err := s.client.PutObject(ctx, &s3.PutObjectInput{Bucket: &s.bucket, Key: &key, Body: bytes.NewReader(value)})
	_, err = answer(err)
	return err
}

func (s *s3Store) remove(ctx context.Context, key string) error {
	keys, err := s.list(ctx, key, -1)
	for _, one := range append(keys, key) {
		if err == nil {
			one = s.valueKey(one)
			_, err = s.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &s.bucket, Key: &one})
			_, err = answer(err)
		}
	}
	return err
}

func (s *s3Store) list(ctx context.Context, folder string, most int) (keys []string, err error) {
	root := s.valueKey("")
	in := s3.ListObjectsV2Input{Bucket: &s.bucket, Prefix: &root}
	if folder != "" {
		in.Prefix = aws.String(root + folder + "/")
	}
	if most > 0 {
		in.MaxKeys = aws.Int32(int32(most))
	}
	for {
		page, err := s.client.ListObjectsV2(ctx, &in)
		if err != nil {
			_, err = answer(err)
			return nil, err
		}
		for _, o := range page.Contents {
			keys = append(keys, strings.TrimPrefix(aws.ToString(o.Key), root))
		}
		if in.ContinuationToken = page.NextContinuationToken; !aws.ToBool(page.IsTruncated) || most > 0 {
			return slices.DeleteFunc(keys, func(key string) bool { return key == "" }), nil
		}
	}
}

// writeLock makes token the holder of a lock if the object has that ETag; "": if there is none. It reports whether it did.
func (s *s3Store) writeLock(ctx context.Context, name, token, etag string) (done bool, err error) {
	key := s.lockKey(name)
	in := s3.PutObjectInput{Bucket: &s.bucket, Key: &key, Body: strings.NewReader(token + "\n" + rand.Text())}
	if in.IfMatch = &etag; etag == "" {
		in.IfMatch, in.IfNoneMatch = nil, aws.String("*")
	}
	_, err = s.client.PutObject(ctx, &in)
	switch status, err := answer(err); {
	case status == http.StatusPreconditionFailed || status == http.StatusConflict || status == http.StatusNotFound && etag != "": // 409: another write is under way
		return false, nil
	default:
		return err == nil, err
	}
}

// readLock returns the holder of a lock and the object's ETag; "": there is none.
func (s *s3Store) readLock(ctx context.Context, name string) (holder, etag string, err error) {
	text, etag, _, err := s.read(ctx, s.lockKey(name))
	if err == errMissing {
		return "", "", nil
	}
	holder, _, _ = strings.Cut(string(text), "\n")
	return holder, etag, err
}

func (s *s3Store) acquire(ctx context.Context, name string, lease time.Duration) (token string, err error) {
	holder, etag, err := s.readLock(ctx, name)
	if err != nil || holder != "" && !s.isOver(name, etag, lease) {
		return "", err
	}
	token = rand.Text()
	done, err := s.writeLock(ctx, name, token, etag)
	if err != nil || !done {
		return "", err
	}
	s.mu.Lock()
	delete(s.watched, name)
	honours := s.honours
	s.mu.Unlock()
	if !honours {
		if err = s.tryConditions(ctx, name); err != nil {
			return "", err
		}
	}
	return token, nil
}

// isOver reports whether a lock of another server was not renewed for a lease.
func (s *s3Store) isOver(name, etag string, lease time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if w := s.watched[name]; w.etag == etag {
		return now.Sub(w.since) >= lease
	}
	if len(s.watched) >= maxWatched {
		clear(s.watched)
	}
	s.watched[name] = watched{etag, now}
	return false
}

// tryConditions reports an error if the server makes an object that is there already: with such a server two would have a lock.
func (s *s3Store) tryConditions(ctx context.Context, name string) error {
	done, err := s.writeLock(ctx, name, "", "")
	if err == nil && done {
		err = errRefused{errors.New("the server ignores If-None-Match, so that locks are not possible in it")}
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.honours = true
	s.mu.Unlock()
	return nil
}

func (s *s3Store) renew(ctx context.Context, name, token string, _ time.Duration) (next string, err error) {
	holder, etag, err := s.readLock(ctx, name)
	if err != nil || holder != token && holder != "" {
		return "", err
	}
	done, err := s.writeLock(ctx, name, token, etag)
	if err != nil || !done {
		return "", err
	}
	return token, nil
}

// release leaves an object without a holder: not every server deletes by condition, and another may have the lock by now.
func (s *s3Store) release(ctx context.Context, name, token string) error {
	holder, etag, err := s.readLock(ctx, name)
	if err == nil && holder == token {
		_, err = s.writeLock(ctx, name, "", etag)
	}
	return err
}
