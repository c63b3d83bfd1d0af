package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/filesd"
	"github.com/capriccio-go/capriccio/internal/kube"
)

// A target is a program to ask, by the name that the list of targets gives it.
type target struct {
	name   string
	at     *url.URL // nil: it is a pod that is not asked
	pod    string   // of a pod: NAMESPACE/NAME
	absent string   // why it is not asked; empty: it is
}

// same reports whether both are one program.
func (t target) same(other target) bool {
	if t.at == nil || other.at == nil {
		return t.at == other.at && t.pod == other.pod
	}
	return *t.at == *other.at
}

// source is where its graph comes from.
func (t target) source(sur *surroundings, set *settings) source {
	if t.absent != "" {
		return absentSource{t.pod, t.absent}
	}
	return newURLSource(t.at, sur, set)
}

// An absentSource is a program that is not asked.
type absentSource struct{ name, why string }

func (a absentSource) Name() string { return a.name }

func (a absentSource) Snapshot(context.Context) (*bgraph.Snapshot, error) {
	return nil, fmt.Errorf("%s: %s", a.name, a.why)
}

// nameLabels are the labels that name a target, the best first.
var nameLabels = []string{"pod", "__meta_kubernetes_pod_name", "instance"}

// A finder reads the lists of targets that the flag -targets names: files and URLs in the format of Prometheus, dns://HOST:PORT,
// which stands for all addresses of that host, and k8s:NAMESPACE/SELECTOR:PORT, which stands for pods.
type finder struct {
	lists []string
	sur   *surroundings
	set   *settings

	// Of a finder that is asked again and again:
	last    map[string][]target              // what was in a list when it could be had; nil: it is asked once
	watches map[string]*kube.Watch[kube.Pod] // of the pods
}

// follow prepares the finder for being asked again and again.
func (f *finder) follow() {
	f.last, f.watches = map[string][]target{}, map[string]*kube.Watch[kube.Pod]{}
}

// wait waits for the watches, whose context must have ended.
func (f *finder) wait() {
	for _, w := range f.watches {
		w.Wait()
	}
}

// find returns the targets in all lists. The second list has what is wrong: with elements that are no targets, and with lists
// that cannot be had.
func (f *finder) find(ctx context.Context) (found []target, bad []error) {
	for _, list := range f.lists {
		all, wrong := f.read(ctx, list)
		if len(all) == 0 && len(wrong) == 0 {
			wrong = []error{errors.New("there are no targets in the list")}
		}
		for _, err := range wrong {
			bad = append(bad, fmt.Errorf("-targets %s: %w", printable(redacted(list)), err))
		}
		for _, t := range all {
			if !slices.ContainsFunc(found, t.same) {
				found = append(found, t)
			}
		}
	}
	return found, bad
}

// read returns the targets in a list.
func (f *finder) read(ctx context.Context, list string) (found []target, bad []error) {
	var groups []filesd.Group
	var err error
	switch {
	case strings.HasPrefix(list, kube.Prefix):
		return f.pods(ctx, list)
	case strings.HasPrefix(list, "dns://"):
		groups, err = lookUp(ctx, list, f.sur, f.set)
	case strings.HasPrefix(list, "http://"), strings.HasPrefix(list, "https://"):
		groups, err = fetchTargets(ctx, list, f.sur, f.set)
	default:
		groups, err = filesd.Read(list)
		if err != nil {
			err = errors.New(printable(err.Error())) // with words of the file
		}
	}
	if err != nil {
		return f.last[list], []error{err}
	}
	for _, g := range groups {
		for _, address := range g.Targets {
			if t, err := targetAt(&g, address); err != nil {
				bad = append(bad, err)
			} else {
				found = append(found, t)
			}
		}
	}
	if f.last != nil {
		f.last[list] = found
	}
	return found, bad
}

// pods returns the pods that a query chooses.
func (f *finder) pods(ctx context.Context, list string) (found []target, bad []error) {
	query, err := kube.Parse(list)
	if err != nil {
		return nil, []error{err}
	}
	all, err := f.query(ctx, list, query)
	if err != nil && ctx.Err() == nil {
		err = errors.New(printable(err.Error())) // with words of the API server
	}
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("the selector %q chooses no pod of that namespace", printable(query.Selector))
	}
	if err != nil {
		bad = []error{err}
	}
	for _, pod := range all {
		t := target{name: printable(pod.Name), pod: printable(pod.Namespace + "/" + pod.Name), absent: printable(pod.Absent)}
		if pod.Absent == "" { // an absent pod has no address to be known by
			t.at = &url.URL{Scheme: "http", Host: net.JoinHostPort(pod.Host, query.Port), Path: query.Path}
		}
		found = append(found, t)
	}
	return found, bad
}

// query asks the API server, or the watch that goes on until ctx ends, for pods. What a watch knows comes with an error if it may
// be out of date.
func (f *finder) query(ctx context.Context, list string, query kube.Query) ([]kube.Pod, error) {
	if w := f.watches[list]; w != nil {
		return w.Now()
	}
	pods, err := kube.New(query, f.sur.account, f.sur.clock, f.set.timeout)
	if err != nil {
		return nil, err
	}
	if f.watches == nil {
		defer pods.Close()
		return pods.List(ctx)
	}
	w := pods.Watch(ctx)
	f.watches[list] = w
	return w.Now()
}

func redacted(list string) string {
	if u, err := url.Parse(list); err == nil {
		return u.Redacted()
	}
	return list
}

// targetAt is the program at an address of g, HOST:PORT or a URL.
func targetAt(g *filesd.Group, address string) (t target, err error) {
	full := address
	if !strings.Contains(address, "://") {
		full = cmp.Or(g.Labels["__scheme__"], "http") + "://" + address
	}
	at, isURL, err := asURL(full)
	if err != nil || !isURL || at.Port() == "" && !strings.Contains(address, "://") {
		return t, fmt.Errorf("the target %q is no HOST:PORT", printable(address))
	}
	t = target{name: printable(at.Redacted()), at: at}
	for _, label := range nameLabels {
		if name := g.Labels[label]; name != "" {
			t.name = printable(name)
			if len(g.Targets) > 1 {
				t.name += " " + at.Host
			}
			break
		}
	}
	return t, nil
}

// fetchTargets asks a server of http_sd.
func fetchTargets(ctx context.Context, list string, sur *surroundings, set *settings) ([]filesd.Group, error) {
	at, _, err := asURL(list)
	if err != nil {
		return nil, err
	}
	asked := newURLSource(at, sur, set)
	defer asked.transport.CloseIdleConnections()
	ctx, cancel := withTimeout(ctx, sur.clock, set.timeout)
	defer cancel()
	resp, err := asked.ask(ctx, at)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if kind := mediaType(resp); kind != "application/json" {
		return nil, fmt.Errorf("the answer is %q; want a list of targets, application/json", printable(kind))
	}
	text, err := filesd.ReadAll(resp.Body)
	if err != nil {
		return nil, asked.requestError(ctx, err)
	}
	return filesd.DecodeJSON(text)
}

// lookUp makes a target of each address of a host.
func lookUp(ctx context.Context, list string, sur *surroundings, set *settings) ([]filesd.Group, error) {
	u, err := url.Parse(list)
	if err != nil || u.Port() == "" || u.Hostname() == "" {
		return nil, errors.New("want dns://HOST:PORT")
	}
	ctx, cancel := withTimeout(ctx, sur.clock, set.timeout)
	defer cancel()
	addresses, err := sur.resolver.LookupHost(ctx, u.Hostname())
	if err != nil && errors.As(context.Cause(ctx), new(noAnswer)) {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	var g filesd.Group
	for _, address := range addresses {
		g.Targets = append(g.Targets, "http://"+net.JoinHostPort(address, u.Port())+u.Path)
	}
	return []filesd.Group{g}, nil
}
