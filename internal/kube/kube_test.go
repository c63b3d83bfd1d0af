package kube

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/graphlimits"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A hurriedClock lets no pause be one; longer times are never over.
type hurriedClock struct{ over time.Duration }

func (c hurriedClock) After(d time.Duration) <-chan time.Time {
	ch := make(chan time.Time, 1)
	if d <= max(again, c.over) {
		ch <- time.Time{}
	}
	return ch
}

const timeout = 10 * time.Minute

// An apiServer is a scripted API server; the test answers each request.
type apiServer struct {
	t       *testing.T
	server  *httptest.Server
	account Account
	calls   chan *call
}

// A call is a request and its answer, which ends with end.
type call struct {
	*http.Request
	w     http.ResponseWriter
	ended chan bool
}

func newAPIServer(t *testing.T) *apiServer {
	a := &apiServer{t: t, calls: make(chan *call)}
	a.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &call{r, w, make(chan bool)}
		select {
		case a.calls <- c:
			<-c.ended
		case <-r.Context().Done():
		}
	}))
	a.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	a.server.StartTLS()
	t.Cleanup(a.server.Close)
	u := testenv.Need(url.Parse(a.server.URL))(t)
	a.account = Account{u.Hostname(), u.Port(), t.TempDir()}
	a.file("ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.server.Certificate().Raw})))
	a.file("token", "first\n")
	a.file("namespace", "shop")
	return a
}

func (a *apiServer) file(name, text string) {
	testenv.Must(a.t, os.WriteFile(filepath.Join(a.account.Dir, name), []byte(text), 0o600))
}

func (a *apiServer) pods(clock Clock) *Objects[Pod] {
	p := testenv.Need(New(Query{Selector: "app=web,tier in (a,b)", Port: "6060"}, a.account, clock, timeout))(a.t)
	a.t.Cleanup(p.Close)
	return p
}

// next is the next request, which must have the token and these parameters.
func (a *apiServer) next(token, params string) *call {
	a.t.Helper()
	c := <-a.calls
	testenv.Equal(a.t, c.Header.Get("Authorization"), "Bearer "+token, "the token")
	testenv.Equal(a.t, c.URL.Path, "/api/v1/namespaces/shop/pods", "the path")
	want := testenv.Need(url.ParseQuery(params))(a.t)
	want.Set("labelSelector", "app=web,tier in (a,b)")
	if want.Has("watch") {
		want.Set("allowWatchBookmarks", "1")
		want.Set("timeoutSeconds", "300")
	} else {
		want.Set("limit", "500")
	}
	testenv.Equal(a.t, c.URL.Query().Encode(), want.Encode(), "the query")
	return c
}

// write sends a part of the answer.
func (c *call) write(text string) {
	io.WriteString(c.w, text)
	c.w.(http.Flusher).Flush()
}

func (c *call) end(code int, text string) {
	c.w.WriteHeader(code)
	io.WriteString(c.w, text)
	close(c.ended)
}

// ready is a pod of a script.
func ready(name, ip string) string { return podText(name, ip, "Running", "True", "") }

func podText(name, ip, phase, readiness, more string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q,"resourceVersion":"7","labels":{"app":"web"}%s},"spec":{"containers":[{}]},"status":{"phase":%q,"podIP":%q,"conditions":[{"type":"Initialized","status":"True"},{"type":"Ready","status":%q,"reason":"ContainersNotReady"}]}}`,
		name, more, phase, ip, readiness)
}

func podPage(version, next string, pods ...string) string {
	return fmt.Sprintf(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":%q,"continue":%q},"items":[%s]}`, version, next, strings.Join(pods, ","))
}

func failure(code int, message string) string {
	text, _ := json.Marshal(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code})
	return string(text)
}

// told is a list in one line.
func told(pods []Pod) string {
	var out []string
	for _, p := range pods {
		out = append(out, strings.TrimSuffix(p.Name+"="+p.Host+":"+p.Absent, ":"))
	}
	return strings.Join(out, " ")
}

// A listing is a list under way.
func (a *apiServer) listing(clock Clock) func() (string, error) {
	p := a.pods(clock)
	type result struct {
		pods []Pod
		err  error
	}
	done := make(chan result, 1)
	go func() {
		pods, err := p.List(context.Background())
		done <- result{pods, err}
	}()
	return func() (string, error) {
		r := <-done
		return told(r.pods), r.err
	}
}

func TestListOfSeveralPages(t *testing.T) {
	a := newAPIServer(t)
	list := a.listing(hurriedClock{})
	a.next("first", "").end(200, podPage("9", "b c", ready("web-2", "10.0.0.2"), ready("web-1", "10.0.0.1")))
	a.next("first", "continue=b+c").end(200, podPage("9", "d",
		podText("web-3", "10.0.0.3", "Running", "False", ""),
		podText("web-4", "", "Pending", "False", ""),
		podText("web-5", "10.0.0.5", "Running", "True", `,"deletionTimestamp":"2026-03-14T03:12:45Z"`)))
	a.next("first", "continue=d").end(200, podPage("9", "",
		podText("web-6", "10.0.0.6", "Failed", "False", ""),
		`{"metadata":{"name":"web-7"},"status":{"phase":"Running","podIP":"10.0.0.7"}}`,
		podText("web-8", "evil.example/x", "Running", "True", ""),
		ready("web-9", "fd00::9")))
	got, err := list()
	testenv.Must(t, err)
	testenv.Equal(t, got, strings.Join([]string{
		"web-1=10.0.0.1", "web-2=10.0.0.2",
		"web-3=10.0.0.3:the pod is not ready (ContainersNotReady)",
		"web-4=:the pod has no address (Pending)",
		"web-5=10.0.0.5:the pod is being deleted",
		"web-6=10.0.0.6:the pod has ended (Failed)",
		"web-7=10.0.0.7:the pod is not ready",
		"web-8=evil.example/x:the pod has no address (Running)",
		"web-9=fd00::9",
	}, " "))
}

// The API server forgets the later pages of a list after some minutes.
func TestListWhosePagesAreForgotten(t *testing.T) {
	a := newAPIServer(t)
	list := a.listing(hurriedClock{})
	a.next("first", "").end(200, podPage("9", "b", ready("old", "10.0.0.1")))
	a.next("first", "continue=b").end(410, failure(410, "The provided continue parameter is too old"))
	a.next("first", "").end(200, podPage("12", "", ready("new", "10.0.0.2")))
	got, err := list()
	testenv.Must(t, err)
	testenv.Equal(t, got, "new=10.0.0.2")
	list = a.listing(hurriedClock{})
	for range mostRestarts {
		a.next("first", "").end(410, "")
	}
	testenv.ErrorSays(t, testenv.Err(list()), "410 Gone")
}

func TestAnswersThatAreNoList(t *testing.T) {
	a := newAPIServer(t)
	many := make([]string, graphlimits.Sources+1)
	for i := range many {
		many[i] = ready("web-"+strconv.Itoa(i), "10.0.0.1")
	}
	for _, c := range []struct {
		code       int
		text, want string
	}{
		{403, failure(403, `pods is forbidden: User "system:serviceaccount:shop:bgdump" cannot list resource "pods"`),
			`may not list pods in the namespace shop (403 Forbidden: pods is forbidden: User "system:serviceaccount:shop:bgdump" cannot list resource "pods"). It needs a Role there with apiGroups: [""], resources: ["pods"], verbs: ["list", "watch"], and a RoleBinding`},
		{401, failure(401, "Unauthorized"), filepath.Join(a.account.Dir, "token") + " (401 Unauthorized: Unauthorized); it has expired"},
		{400, failure(400, `unable to parse requirement`), "answers 400 Bad Request: unable to parse requirement"},
		{503, "<html>a proxy", "answers 503 Service Unavailable"},
		{302, "", "answers 302 Found"},
		{200, "<html>", "the list of pods cannot be read"},
		{200, `{"kind":"PodList","items":[`, "the list of pods cannot be read"},
		{200, `{"kind":"ServiceList"}`, `answers with a "ServiceList"; want PodList`},
		{200, podPage("1", "x", many...), "chooses more than 1024 pods"},
	} {
		list := a.listing(hurriedClock{})
		answer := a.next("first", "")
		answer.w.Header().Set("Location", "https://elsewhere.example/") // which must not get the token
		answer.end(c.code, c.text)
		testenv.ErrorSays(t, testenv.Err(list()), c.want)
	}
	list := a.listing(hurriedClock{over: timeout})
	testenv.ErrorSays(t, testenv.Err(list()), "no answer within 10m0s")
}

// A token that has expired is read again once the kubelet has replaced it.
func TestTokenIsReadForEachRequest(t *testing.T) {
	a := newAPIServer(t)
	p := a.pods(hurriedClock{})
	list := func(code int, token string) error {
		done := make(chan error, 1)
		go func() { done <- testenv.Err(p.List(context.Background())) }()
		a.next(token, "").end(code, podPage("1", ""))
		return <-done
	}
	testenv.ErrorSays(t, list(401, "first"), "it has expired")
	a.file("token", "second")
	testenv.Must(t, list(200, "second"))
}

func TestAccountsThatCannotBeUsed(t *testing.T) {
	q := Query{Selector: "a=b", Port: "1"}
	testenv.ErrorSays(t, testenv.Err(New(q, Account{}, hurriedClock{}, timeout)), "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")
	testenv.ErrorSays(t, testenv.Err(New(q, Account{"127.0.0.1", "1", t.TempDir()}, hurriedClock{}, timeout)), "namespace: the pod has no service account")
	a := newAPIServer(t)
	for name, want := range map[string]string{"token": "is empty", "ca.crt": "is empty"} {
		text := string(testenv.Need(os.ReadFile(filepath.Join(a.account.Dir, name)))(t))
		a.file(name, " \n")
		testenv.ErrorSays(t, testenv.Err(a.listing(hurriedClock{})()), want, name)
		testenv.Must(t, os.Remove(filepath.Join(a.account.Dir, name)))
		testenv.ErrorSays(t, testenv.Err(a.listing(hurriedClock{})()), "automountServiceAccountToken", name)
		a.file(name, text)
	}
	a.file("ca.crt", "no certificate")
	testenv.ErrorSays(t, testenv.Err(a.listing(hurriedClock{})()), "has no certificate")
	other := testenv.NewCA(t)
	a.file("ca.crt", string(other.Authority()))
	testenv.ErrorSays(t, testenv.Err(a.listing(hurriedClock{})()), "its certificate is not of the cluster's authority")
	a.server.Close()
	testenv.ErrorSays(t, testenv.Err(a.listing(hurriedClock{})()), "connection refused")
}

func TestParse(t *testing.T) {
	for text, want := range map[string]Query{
		"k8s:shop/app=web:6060": {"shop", "app=web", "6060", ""},
		"k8s:/app.kubernetes.io/name=web,tier in (a,b):1/debug/pprof/": {"", "app.kubernetes.io/name=web,tier in (a,b)", "1", "/debug/pprof/"},
		"k8s:shop/!canary:65535": {"shop", "!canary", "65535", ""},
	} {
		testenv.Equal(t, testenv.Need(Parse(text))(t), want, text)
	}
	for text, want := range map[string]string{
		"k8s:": "want k8s:NAMESPACE/SELECTOR:PORT", "k8s:app=web:6060": "want k8s:", "k8s:shop/app=web": "want k8s:", "k8s:shop/:6060": "want k8s:",
		"k8s:Shop/app=web:6060": "want k8s:", "k8s:../app=web:6060": "want k8s:", "k8s:shop/app=web:0": "0 is no port", "k8s:shop/app=web:65536": "65536 is no port",
	} {
		testenv.ErrorSays(t, testenv.Err(Parse(text)), want, text)
	}
}
