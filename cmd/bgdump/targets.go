package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v2"
)

// mostTargets is how many bytes a list of targets may have.
const mostTargets = 16 << 20

// A target is a program to ask, by the name that the list of targets gives it.
type target struct {
	name string
	at   *url.URL
}

// A targetGroup is an element of a list of targets, as Prometheus has them for file_sd and http_sd.
type targetGroup struct {
	Targets []string          `json:"targets" yaml:"targets"`
	Labels  map[string]string `json:"labels" yaml:"labels"`
}

// nameLabels are the labels that name a target, the best first.
var nameLabels = []string{"pod", "__meta_kubernetes_pod_name", "instance"}

// findTargets reads the lists of targets that the flag -targets names: files and URLs in the format of Prometheus, and
// dns://HOST:PORT, which stands for all addresses of that host. The second list has the elements that are no targets.
func findTargets(ctx context.Context, lists []string, sur *surroundings, set *settings) (found []target, bad []error, err error) {
	for _, list := range lists {
		var groups []targetGroup
		switch {
		case strings.HasPrefix(list, "dns://"):
			groups, err = lookUp(ctx, list, sur, set)
		case strings.HasPrefix(list, "http://"), strings.HasPrefix(list, "https://"):
			groups, err = fetchTargets(ctx, list, sur, set)
		default:
			groups, err = readTargets(list)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("-targets %s: %w", printable(redacted(list)), err)
		}
		for _, g := range groups {
			for _, address := range g.Targets {
				t, err := g.target(address)
				if err != nil {
					bad = append(bad, fmt.Errorf("-targets %s: %w", printable(redacted(list)), err))
				} else if !slices.ContainsFunc(found, func(other target) bool { return *other.at == *t.at }) {
					found = append(found, t)
				}
			}
		}
	}
	if len(found) == 0 && len(bad) == 0 {
		return nil, nil, errors.New("-targets: there are no targets in the list")
	}
	return found, bad, nil
}

func redacted(list string) string {
	if u, err := url.Parse(list); err == nil {
		return u.Redacted()
	}
	return list
}

// target is the program at an address, HOST:PORT or a URL.
func (g *targetGroup) target(address string) (t target, err error) {
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

// readTargets reads a file of file_sd: JSON if its name ends so, else YAML.
func readTargets(file string) ([]targetGroup, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	defer f.Close()
	text, err := readAtMost(f)
	if err != nil {
		return nil, err
	}
	if filepath.Ext(file) == ".json" {
		return decodeTargets(text)
	}
	var groups []targetGroup
	if err := yaml.UnmarshalStrict(text, &groups); err != nil {
		return nil, fmt.Errorf("this is no list of targets as Prometheus has them for file_sd: %s", printable(strings.Join(strings.Fields(err.Error()), " ")))
	}
	return groups, nil
}

func readAtMost(r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, mostTargets+1))
	if err == nil && len(text) > mostTargets {
		err = fmt.Errorf("the list has more than %d bytes", mostTargets)
	}
	return text, err
}

func decodeTargets(text []byte) ([]targetGroup, error) {
	var groups []targetGroup
	if err := json.Unmarshal(text, &groups); err != nil {
		return nil, fmt.Errorf(`this is no list of targets as Prometheus has them, [{"targets": ["HOST:PORT"], "labels": {}}]: %w`, err)
	}
	return groups, nil
}

// fetchTargets asks a server of http_sd.
func fetchTargets(ctx context.Context, list string, sur *surroundings, set *settings) ([]targetGroup, error) {
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
	text, err := readAtMost(resp.Body)
	if err != nil {
		return nil, asked.requestError(ctx, err)
	}
	return decodeTargets(text)
}

// lookUp makes a target of each address of a host.
func lookUp(ctx context.Context, list string, sur *surroundings, set *settings) ([]targetGroup, error) {
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
	var g targetGroup
	for _, address := range addresses {
		g.Targets = append(g.Targets, "http://"+net.JoinHostPort(address, u.Port())+u.Path)
	}
	return []targetGroup{g}, nil
}
