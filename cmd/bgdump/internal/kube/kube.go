// Package kube finds the pods of a Kubernetes cluster that a label selector chooses. It asks the API server as the service
// account of the pod in which it runs, reads only, and needs to be allowed to list and watch pods of one namespace.
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
	"regexp"
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

// A Query chooses pods, and says where each of them listens.
type Query struct {
	Namespace string // empty: that of the account
	Selector  string // of labels
	Port      string
	Path      string // empty, or begins with a slash
}

// Prefix is what a query begins with.
const Prefix = "k8s:"

// A selector has no colon, so the last one is in front of the port.
var form = regexp.MustCompile(`^k8s:([a-z0-9-]*)/([^:]+):([0-9]+)(/.*)?$`)

// Parse reads a query: k8s:NAMESPACE/SELECTOR:PORT, with a path behind it or none.
func Parse(text string) (q Query, err error) {
	m := form.FindStringSubmatch(text)
	if m == nil {
		return q, errors.New("want k8s:NAMESPACE/SELECTOR:PORT, like k8s:shop/app=web:6060; without a name before the slash the namespace is that of this pod")
	}
	if port, err := strconv.ParseUint(m[3], 10, 16); err != nil || port == 0 {
		return q, fmt.Errorf("%s is no port; want 1 to 65535", m[3])
	}
	return Query{m[1], m[2], m[3], m[4]}, nil
}

// A Pod is a pod that the selector chooses.
type Pod struct {
	Name   string
	Host   string // its address
	Absent string // why it cannot be asked; empty: it can
}

// A Clock is where the time comes from.
type Clock interface {
	// After sends the time once d is over.
	After(d time.Duration) <-chan time.Time
}

// Pods are the pods that a query chooses. Its methods may be called from one goroutine at a time.
type Pods struct {
	query   Query
	account Account
	clock   Clock
	timeout time.Duration // for an answer
	client  *http.Client  // nil: connect makes one
}

// New makes Pods of the query. It asks nothing yet.
func New(q Query, a Account, clock Clock, timeout time.Duration) (*Pods, error) {
	if a.Host == "" || a.Port == "" {
		return nil, errors.New("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set, so this is no pod of Kubernetes: run bgdump in one, or write the addresses of the pods into a file")
	}
	if q.Namespace == "" {
		text, err := readFile(a.Dir, "namespace")
		if err != nil {
			return nil, err
		}
		q.Namespace = text
	}
	return &Pods{query: q, account: a, clock: clock, timeout: timeout}, nil
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
func (p *Pods) connect() error {
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
func (p *Pods) Close() {
	if p.client != nil {
		p.client.CloseIdleConnections()
	}
}

// How much the API server may answer. An object in etcd has at most 1.5 MB.
const (
	pageLength = 500 // pods in a page of a list
	mostPage   = 256 << 20
	mostEvent  = 4 << 20
	mostStatus = 64 << 10
)

// errGone means that the API server does not remember that version or page any more.
var errGone = errors.New("410 Gone")

// get asks for pods. The answer has status 200, and its body must be closed.
func (p *Pods) get(ctx context.Context, verb string, params url.Values) (*http.Response, error) {
	token, err := readFile(p.account.Dir, "token")
	if err != nil {
		return nil, err
	}
	params.Set("labelSelector", p.query.Selector)
	at := url.URL{Scheme: "https", Host: net.JoinHostPort(p.account.Host, p.account.Port), Path: "/api/v1/namespaces/" + p.query.Namespace + "/pods", RawQuery: params.Encode()}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "bgdump")
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

// failed is why there was no answer, without the address, which is named before.
func (p *Pods) failed(ctx context.Context, err error) error {
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
func (p *Pods) refused(verb string, resp *http.Response) error {
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
		return fmt.Errorf(`the service account may not %s pods in the namespace %s (403 Forbidden%s). It needs a Role there with apiGroups: [""], resources: ["pods"], verbs: ["list", "watch"], and a RoleBinding; docs/bgdump-fleet.md has both`, verb, p.query.Namespace, told)
	}
	return fmt.Errorf("the API server answers %s%s", cmp.Or(resp.Status, strconv.Itoa(resp.StatusCode)), told)
}

// A podList is a page of a list.
type podList struct {
	Kind     string `json:"kind"`
	Metadata struct {
		ResourceVersion string `json:"resourceVersion"`
		Continue        string `json:"continue"`
	} `json:"metadata"`
	Items []podObject `json:"items"`
}

// A podObject is what matters of a pod.
type podObject struct {
	Metadata struct {
		Name              string  `json:"name"`
		ResourceVersion   string  `json:"resourceVersion"`
		DeletionTimestamp *string `json:"deletionTimestamp"`
	} `json:"metadata"`
	Status struct {
		Phase      string `json:"phase"`
		Reason     string `json:"reason"`
		PodIP      string `json:"podIP"`
		Conditions []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
			Reason string `json:"reason"`
		} `json:"conditions"`
	} `json:"status"`
}

// pod says whether the object can be asked, and where.
func (o *podObject) pod() Pod {
	because := func(text, reason string) string {
		if reason != "" {
			text += " (" + reason + ")"
		}
		return text
	}
	out := Pod{Name: o.Metadata.Name, Host: o.Status.PodIP}
	switch s := &o.Status; {
	case s.Phase == "Succeeded" || s.Phase == "Failed":
		out.Absent = because("the pod has ended", cmp.Or(s.Reason, s.Phase))
	case o.Metadata.DeletionTimestamp != nil:
		out.Absent = "the pod is being deleted"
	case net.ParseIP(s.PodIP) == nil:
		out.Absent = because("the pod has no address", cmp.Or(s.Reason, s.Phase))
	default:
		out.Absent = "the pod is not ready"
		for _, c := range s.Conditions {
			if c.Type == "Ready" && c.Status == "True" {
				out.Absent = ""
			} else if c.Type == "Ready" {
				out.Absent = because(out.Absent, c.Reason)
			}
		}
	}
	return out
}

// mostRestarts is how often a list begins anew, if the API server forgets its later pages meanwhile.
const mostRestarts = 3

// list asks for all pods, and for the version to watch from.
func (p *Pods) list(ctx context.Context) (all map[string]Pod, version string, err error) {
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

func (p *Pods) listOnce(ctx context.Context) (all map[string]Pod, version string, err error) {
	all = map[string]Pod{}
	for next := ""; ; {
		params := url.Values{"limit": {strconv.Itoa(pageLength)}}
		if next != "" {
			params.Set("continue", next)
		}
		page, err := p.page(ctx, params)
		if err != nil {
			return nil, "", err
		}
		for i := range page.Items {
			pod := page.Items[i].pod()
			all[pod.Name] = pod
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

func (p *Pods) tooMany() error {
	return fmt.Errorf("%q chooses more than %d pods; want a narrower selector", p.query.Selector, graphlimits.Sources)
}

// page reads a page of a list.
func (p *Pods) page(ctx context.Context, params url.Values) (*podList, error) {
	ctx, cancel := p.within(ctx, p.timeout)
	defer cancel()
	resp, err := p.get(ctx, "list", params)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	out := new(podList)
	if err := json.NewDecoder(io.LimitReader(resp.Body, mostPage)).Decode(out); err != nil {
		if ctx.Err() != nil {
			return nil, p.failed(ctx, err)
		}
		return nil, fmt.Errorf("the API server %s: the list of pods cannot be read: %w", p.account.Host, err)
	}
	if out.Kind != "PodList" {
		return nil, fmt.Errorf("the API server %s answers with a %q; want a PodList", p.account.Host, out.Kind)
	}
	return out, nil
}

// within ends the context after d.
func (p *Pods) within(ctx context.Context, d time.Duration) (context.Context, func()) {
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
