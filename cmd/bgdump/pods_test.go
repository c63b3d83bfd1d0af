//go:build linux

package main

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/kube"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// inCluster is the account of a pod whose API server answers with h.
func inCluster(t *testing.T, h http.HandlerFunc) kube.Account {
	api := httptest.NewTLSServer(h)
	t.Cleanup(api.Close)
	at := testenv.Need(url.Parse(api.URL))(t)
	dir := t.TempDir()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw})
	for name, text := range map[string]string{"ca.crt": string(authority), "token": "secret", "namespace": "shop"} {
		testenv.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return kube.Account{Host: at.Hostname(), Port: at.Port(), Dir: dir}
}

func podJSON(name, ip, isReady string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q},"status":{"phase":"Running","podIP":%q,"conditions":[{"type":"Ready","status":%q,"reason":"Containers\u001bNotReady"}]}}`, name, ip, isReady)
}

func TestFleetOfPods(t *testing.T) {
	clk := newFakeClock()
	server := testenv.Need(url.Parse(serving(t, podFleet(t, func(i int) *bgraph.Snapshot { return podGraph(t, i, clk.Now()) }))))(t)
	account := inCluster(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer secret":
			http.Error(w, "who", http.StatusUnauthorized)
		case r.URL.Path == "/api/v1/namespaces/other/pods":
			w.WriteHeader(http.StatusForbidden)
			io.WriteString(w, `{"kind":"Status","message":"pods is forbidden\u001b[31m"}`)
		case r.URL.Query().Get("labelSelector") == "app=none":
			io.WriteString(w, `{"kind":"PodList","items":[]}`)
		case r.URL.Path == "/api/v1/namespaces/third/pods":
			text := strings.ReplaceAll(podJSON("shop-3", "", "False"), `{"name"`, `{"namespace":"third","name"`)
			fmt.Fprintf(w, `{"kind":"PodList","items":[%s]}`, text)
		default:
			fmt.Fprintf(w, `{"kind":"PodList","items":[%s,%s,%s,%s]}`, podJSON("shop-1", "127.0.0.1", "True"), podJSON("shop-2", "127.0.0.2", "True"),
				podJSON("shop-3", "127.0.0.3", "False"), podJSON("shop-4", "", "False"))
		}
	})
	bgdump := func(args ...string) result {
		return commandIn(t, context.Background(), &surroundings{clock: clk, account: account}, args...)
	}
	at := ":" + server.Port() + "/7/debug/bgraph/"
	r := bgdump("-targets", "k8s:shop/app=shop"+at)
	testenv.Equal(t, r.code, exitOK, r.errOut)
	for _, want := range []string{
		"bgdump: shop-3: the pod is not ready (Containers?NotReady)\n", "bgdump: shop-4: the pod has no address (Running)\n", "bgdump: shop-2: no program listens there",
	} {
		testenv.Contains(t, r.errOut, want)
	}
	testenv.Contains(t, r.out, "SOURCES: 4, 3 without a graph")
	testenv.Contains(t, r.out, "  shop-1 ")

	// A pod that two lists have is one, and pods of two namespaces with one name are two.
	r = bgdump("-targets", "k8s:shop/app=shop"+at, "-targets", "k8s:shop/app=shop"+at, "-targets", "k8s:third/app=shop"+at)
	testenv.Equal(t, r.code, exitOK, r.errOut)
	testenv.Contains(t, r.out, "SOURCES: 5, 4 without a graph")
	testenv.Contains(t, r.errOut, "bgdump: shop-4, shop-3 third/shop-3: the pod has no address (Running)\n")

	// A list that cannot be had is reported, and the others are shown.
	r = bgdump("-targets", "k8s:other/app=shop:1", "-targets", "k8s:/app=none:1", "-targets", filepath.Join(t.TempDir(), "missing.yml"), "-targets", "k8s:/app=shop"+at)
	testenv.Equal(t, r.code, exitOK, r.errOut)
	for _, want := range []string{
		"bgdump: -targets k8s:other/app=shop:1: the service account may not list pods in the namespace other (403 Forbidden: pods is forbidden?[31m). It needs a Role",
		`bgdump: -targets k8s:/app=none:1: the selector "app=none" chooses no pod`,
		"missing.yml: no such file or directory\n",
	} {
		testenv.Contains(t, r.errOut, want)
	}
	testenv.Contains(t, r.out, "SOURCES: 4, 3 without a graph")
	testenv.Equal(t, len(bgdump("-targets", "k8s:other/app=shop:1").out), 0, "output without any target")
	bgdump("-targets", "k8s:other/app=shop:1").fails(t, "403 Forbidden")
	bgdump("-targets", "k8s:shop:6060").fails(t, "-targets k8s:shop:6060: want k8s:NAMESPACE/SELECTOR:PORT")
	command(t, "-targets", "k8s:shop/app=web:6060").fails(t, "this is no pod of Kubernetes")
}
