// Package kube finds pods of a Kubernetes cluster that a label selector chooses, and endpoints of a service. It asks the API server as
// the service account of the pod in which it runs, reads only, and needs to be allowed to list and watch them in one namespace.
package kube

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/internal/graphlimits"
)

// AccountDir is where Kubernetes mounts the service account of a pod.
const AccountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// An Account is how a pod reaches the API server of its cluster.
type Account struct {
	Host, Port string // KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT
	Dir        string // has the files token, ca.crt and namespace
}

// A Clock is where the time comes from.
type Clock interface {
	// After sends the time once d is over.
	After(d time.Duration) <-chan time.Time
}

// A kind is a kind of objects.
type kind[T any] struct {
	group, resource, list string // as discovery.k8s.io, endpointslices and EndpointSliceList
	one                   string // in errors: the name of several
	help                  string // what else the error about a missing Role says
	agent                 string // name of the program
	// read makes a T of an object's JSON.
	read func(text []byte) (name string, v T, err error)
}

// Objects are those of a kind that a selector chooses. Their methods may be called from one goroutine at a time.
type Objects[T any] struct {
	kind      kind[T]
	namespace string
	selector  string
	account   Account
	clock     Clock
	timeout   time.Duration // for an answer
	client    *http.Client  // nil: connect makes one
}

// newObjects makes Objects. namespace "": that of the account.
func newObjects[T any](k kind[T], namespace, selector string, a Account, clock Clock, timeout time.Duration) (*Objects[T], error) {
	if a.Host == "" || a.Port == "" {
		return nil, fmt.Errorf("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set, so this is no pod of Kubernetes: run %s in one, or write the addresses into a file", k.agent)
	}
	if namespace == "" {
		text, err := readFile(a.Dir, "namespace")
		if err != nil {
			return nil, err
		}
		namespace = text
	}
	return &Objects[T]{kind: k, namespace: namespace, selector: selector, account: a, clock: clock, timeout: timeout}, nil
}

// readFile reads a file of the service account. The kubelet replaces the token before it expires, so it is read for each request.
func readFile(dir, name string) (string, error) {
	file := filepath.Join(dir, name)
	text, err := os.ReadFile(file)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", fmt.Errorf("there is no file %s: the pod has no service account; automountServiceAccountToken: true in its spec mounts it", file)
	case err != nil:
		return "", err
	case len(strings.TrimSpace(string(text))) == 0:
		return "", fmt.Errorf("the file %s is empty", file)
	}
	return strings.TrimSpace(string(text)), nil
}

// connect makes a client that trusts the cluster's certificates as they are now.
func (p *Objects[T]) connect() error {
	text, err := readFile(p.account.Dir, "ca.crt")
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(text)) {
		return fmt.Errorf("the file %s has no certificate", filepath.Join(p.account.Dir, "ca.crt"))
	}
	p.Close()
	p.client = &http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}},
		// The token is for the API server only.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return nil
}

// Close closes the connections to the API server.
func (p *Objects[T]) Close() {
	if p.client != nil {
		p.client.CloseIdleConnections()
	}
}

// How much the API server may answer. An object in etcd has at most 1.5 MB.
const (
	pageLength = 500 // objects in a page of a list
	mostPage   = 256 << 20
	mostEvent  = 4 << 20
	mostStatus = 64 << 10
)

// errGone means that the API server does not remember that version or page any more.
var errGone = errors.New("410 Gone")

// get asks for objects. The answer has status 200, and its body must be closed.
func (p *Objects[T]) get(ctx context.Context, verb string, params url.Values) (*http.Response, error) {
	token, err := readFile(p.account.Dir, "token")
	if err != nil {
		return nil, err
	}
	params.Set("labelSelector", p.selector)
	at := url.URL{Scheme: "https", Host: net.JoinHostPort(p.account.Host, p.account.Port), Path: p.path(), RawQuery: params.Encode()}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", p.kind.agent)
	resp, err := p.client.Do(req)
	if err != nil {
		return nil, p.failed(ctx, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, p.refused(verb, resp)
}

// path is that of the objects in the API.
func (p *Objects[T]) path() string {
	api := "/api/v1"
	if p.kind.group != "" {
		api = "/apis/" + p.kind.group + "/v1"
	}
	return api + "/namespaces/" + p.namespace + "/" + p.kind.resource
}

// failed is why there was no answer, without the address, which is named before.
func (p *Objects[T]) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("the API server %s: %w", p.account.Host, context.Cause(ctx))
	}
	var request *url.Error
	if errors.As(err, &request) {
		err = request.Err
	}
	var unverified *tls.CertificateVerificationError
	if errors.As(err, &unverified) {
		return fmt.Errorf("the API server %s: its certificate is not of the cluster's authority in %s: %w", p.account.Host, filepath.Join(p.account.Dir, "ca.crt"), err)
	}
	return fmt.Errorf("the API server %s: %w", p.account.Host, err)
}

// A status is how the API server explains an error.
type status struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// refused is the error of an answer with another status than 200.
func (p *Objects[T]) refused(verb string, resp *http.Response) error {
	var s status
	text, _ := io.ReadAll(io.LimitReader(resp.Body, mostStatus))
	if json.Unmarshal(text, &s) != nil {
		s.Message = "" // of a proxy in between
	}
	told := ""
	if s.Message != "" {
		told = ": " + s.Message
	}
	switch resp.StatusCode {
	case http.StatusGone:
		return errGone
	case http.StatusUnauthorized:
		return fmt.Errorf("the API server does not accept the token in %s (401 Unauthorized%s); it has expired, or is of another cluster. The kubelet renews the file", filepath.Join(p.account.Dir, "token"), told)
	case http.StatusForbidden:
		return fmt.Errorf(`the service account may not %s %s in the namespace %s (403 Forbidden%s). It needs a Role there with apiGroups: [%q], resources: [%q], verbs: ["list", "watch"], and a RoleBinding; %s has both`, verb, p.kind.one, p.namespace, told, p.kind.group, p.kind.resource, p.kind.help)
	}
	return fmt.Errorf("the API server answers %s%s", cmp.Or(resp.Status, strconv.Itoa(resp.StatusCode)), told)
}

// A page is a page of a list.
type page struct {
	Kind     string `json:"kind"`
	Metadata struct {
		ResourceVersion string `json:"resourceVersion"`
		Continue        string `json:"continue"`
	} `json:"metadata"`
	Items []json.RawMessage `json:"items"`
}

// mostRestarts is how often a list begins anew, if the API server forgets its later pages meanwhile.
const mostRestarts = 3

// list asks for all objects, and for the version to watch from.
func (p *Objects[T]) list(ctx context.Context) (all map[string]T, version string, err error) {
	if err := p.connect(); err != nil {
		return nil, "", err
	}
	for range mostRestarts {
		if all, version, err = p.listOnce(ctx); !errors.Is(err, errGone) {
			return all, version, err
		}
	}
	return nil, "", fmt.Errorf("the API server forgets pages of its list before they are read (410 Gone), %d times", mostRestarts)
}

func (p *Objects[T]) listOnce(ctx context.Context) (all map[string]T, version string, err error) {
	all = map[string]T{}
	for next := ""; ; {
		params := url.Values{"limit": {strconv.Itoa(pageLength)}}
		if next != "" {
			params.Set("continue", next)
		}
		page, err := p.page(ctx, params)
		if err != nil {
			return nil, "", err
		}
		for _, text := range page.Items {
			name, v, err := p.kind.read(text)
			if err != nil {
				return nil, "", p.unreadable(err)
			}
			all[name] = v
		}
		if len(all) > graphlimits.Sources {
			return nil, "", p.tooMany()
		}
		if page.Metadata.Continue == next {
			next = "" // the server repeats itself
		} else {
			next = page.Metadata.Continue
		}
		if next == "" {
			return all, page.Metadata.ResourceVersion, nil
		}
	}
}

func (p *Objects[T]) tooMany() error {
	return fmt.Errorf("%q chooses more than %d %s; want a narrower selector", p.selector, graphlimits.Sources, p.kind.one)
}

func (p *Objects[T]) unreadable(err error) error {
	return fmt.Errorf("the API server %s: the list of %s cannot be read: %w", p.account.Host, p.kind.one, err)
}

// page reads a page of a list.
func (p *Objects[T]) page(ctx context.Context, params url.Values) (*page, error) {
	ctx, cancel := p.within(ctx, p.timeout)
	defer cancel()
	resp, err := p.get(ctx, "list", params)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	out := new(page)
	if err := json.NewDecoder(io.LimitReader(resp.Body, mostPage)).Decode(out); err != nil {
		if ctx.Err() != nil {
			return nil, p.failed(ctx, err)
		}
		return nil, p.unreadable(err)
	}
	if out.Kind != p.kind.list {
		return nil, fmt.Errorf("the API server %s answers with a %q; want %s", p.account.Host, out.Kind, p.kind.list)
	}
	return out, nil
}

// within ends the context after d.
func (p *Objects[T]) within(ctx context.Context, d time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	over := p.clock.After(d)
	go func() {
		select {
		case <-over:
			cancel(fmt.Errorf("no answer within %s", d))
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}
