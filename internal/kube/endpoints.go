package kube

import (
	"encoding/json"
	"net"
	"time"
)

// An Endpoints is an EndpointSlice: a part of the endpoints of a service.
type Endpoints struct {
	Hosts []string       // addresses of endpoints that are ready
	Ports map[string]int // by name; "" may be one
}

// NewEndpoints makes Objects of the EndpointSlices of a service; namespace "": that of the account. It asks nothing yet.
func NewEndpoints(namespace, service string, a Account, clock Clock, timeout time.Duration) (*Objects[Endpoints], error) {
	k := kind[Endpoints]{
		group: "discovery.k8s.io", resource: "endpointslices", list: "EndpointSliceList", one: "EndpointSlices",
		help: "docs/knot-discovery.md", agent: "knot", read: readEndpoints,
	}
	return newObjects(k, namespace, "kubernetes.io/service-name="+service, a, clock, timeout)
}

// readEndpoints reads what matters of an EndpointSlice. Without a condition an endpoint is ready.
func readEndpoints(text []byte) (name string, e Endpoints, err error) {
	var o struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Endpoints []struct {
			Addresses  []string `json:"addresses"`
			Conditions struct {
				Ready *bool `json:"ready"`
			} `json:"conditions"`
		} `json:"endpoints"`
		Ports []struct {
			Name string `json:"name"`
			Port int    `json:"port"`
		} `json:"ports"`
	}
	err = json.Unmarshal(text, &o)
	for _, one := range o.Endpoints {
		// Its addresses are of one endpoint; Kubernetes gives one of each.
		if len(one.Addresses) > 0 && net.ParseIP(one.Addresses[0]) != nil && (one.Conditions.Ready == nil || *one.Conditions.Ready) {
			e.Hosts = append(e.Hosts, one.Addresses[0])
		}
	}
	e.Ports = make(map[string]int)
	for _, p := range o.Ports {
		e.Ports[p.Name] = p.Port
	}
	return o.Metadata.Name, e, err
}
