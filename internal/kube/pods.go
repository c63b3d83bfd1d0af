package kube

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"time"
)

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
	Namespace string
	Name      string
	Host      string // its address
	Absent    string // why it cannot be asked; empty: it can
}

// New makes Objects of the pods that a query chooses. It asks nothing yet.
func New(q Query, a Account, clock Clock, timeout time.Duration) (*Objects[Pod], error) {
	k := kind[Pod]{resource: "pods", list: "PodList", one: "pods", help: "docs/bgdump-fleet.md", agent: "bgdump", read: readPod}
	return newObjects(k, q.Namespace, q.Selector, a, clock, timeout)
}

func readPod(text []byte) (name string, p Pod, err error) {
	var o podObject
	err = json.Unmarshal(text, &o)
	p = o.pod()
	return p.Name, p, err
}

// A podObject is what matters of a pod.
type podObject struct {
	Metadata struct {
		Namespace         string  `json:"namespace"`
		Name              string  `json:"name"`
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
	out := Pod{Namespace: o.Metadata.Namespace, Name: o.Metadata.Name, Host: o.Status.PodIP}
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
