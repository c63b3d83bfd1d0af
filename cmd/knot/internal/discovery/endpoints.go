package discovery

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/internal/kube"
)

// endpoints are the pods of a service of Kubernetes that are ready.
type endpoints struct {
	sur                              Surroundings
	scheme, service, namespace, port string        // namespace "": that of this pod
	every                            time.Duration // between two tries to find the account
}

// endpoints makes a source.
func (f *Finder) endpoints(scheme, address string, refresh time.Duration) (source, string, error) {
	host, port, err := net.SplitHostPort(address)
	service, namespace, _ := strings.Cut(host, ".")
	bad := func(name string) bool { return strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" }
	if err != nil || service == "" || port == "" || bad(service) || bad(namespace) || bad(port) {
		return nil, "", errors.New("want k8s+http://SERVICE.NAMESPACE:PORT, like k8s+http://api.shop:http; the port is the name of one of the service, or the number that its pods listen on")
	}
	return &endpoints{f.sur, scheme, service, namespace, port, refresh}, "", nil
}

func (e *endpoints) follow(ctx context.Context, tell func([]backend, error)) {
	objects, err := kube.NewEndpoints(e.namespace, e.service, e.sur.Account, e.sur.Clock, answerTime)
	for err != nil { // it runs elsewhere, or its account is not mounted yet
		tell(nil, err)
		if !wait(ctx, e.sur.Clock, e.every) {
			return
		}
		objects, err = kube.NewEndpoints(e.namespace, e.service, e.sur.Account, e.sur.Clock, answerTime)
	}
	watch := objects.Watch(ctx)
	defer watch.Wait()
	for {
		select {
		case <-watch.Changes():
		case <-ctx.Done():
			return
		}
		if slices, err := watch.Now(); err != nil {
			tell(nil, err)
		} else {
			tell(e.backends(slices))
		}
	}
}

// backends are those of a service's slices. A service without slices is none; one without pods that are ready has no backend.
func (e *endpoints) backends(slices []kube.Endpoints) (list []backend, err error) {
	if len(slices) == 0 {
		return nil, fmt.Errorf("the service %s has no EndpointSlice", e.service)
	}
	for _, s := range slices {
		port, err := strconv.Atoi(e.port)
		if err != nil {
			if port = s.Ports[e.port]; port == 0 {
				if len(s.Hosts) > 0 {
					return nil, fmt.Errorf("the service %s has no port called %s", e.service, e.port)
				}
				continue
			}
		}
		for _, host := range s.Hosts {
			list = append(list, backend{e.scheme + net.JoinHostPort(host, strconv.Itoa(port)), 1})
		}
	}
	return list, nil
}
