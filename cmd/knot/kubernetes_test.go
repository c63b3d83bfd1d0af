package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v2"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

const manifests = "../../examples/kubernetes"

// A manifest is a document of YAML.
type manifest map[any]any

// at is what stands at a path of keys and indexes.
func (m manifest) at(path ...any) any {
	var v any = map[any]any(m)
	for _, p := range path {
		switch in := v.(type) {
		case map[any]any:
			v = in[p]
		case []any:
			v = in[p.(int)]
		}
	}
	return v
}

// readManifests reads what kustomization.yaml names, by kind.
func readManifests(t *testing.T) map[string]manifest {
	kinds := map[string]manifest{}
	read := func(file string) {
		text := testenv.Need(os.ReadFile(filepath.Join(manifests, file)))(t)
		for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
			var m map[any]any // not a manifest, of which its parts would be, too
			err := d.Decode(&m)
			if errors.Is(err, io.EOF) {
				return
			}
			testenv.Must(t, err)
			kinds[m["kind"].(string)] = m
		}
	}
	read("kustomization.yaml")
	for _, file := range kinds["Kustomization"].at("resources").([]any) {
		read(file.(string))
	}
	return kinds
}

// TestKubernetes: the manifests name what there is: ports, pages and metrics of the knot that their configuration makes, and each other.
func TestKubernetes(t *testing.T) {
	kinds := readManifests(t)
	deployment := kinds["Deployment"]
	equal := func(what string, got, want any) {
		t.Helper()
		testenv.Equal(t, fmt.Sprint(got), fmt.Sprint(want), "%s", what)
	}
	labels := deployment.at("spec", "template", "metadata", "labels")
	for kind, at := range map[string][]any{"Deployment": {"spec", "selector", "matchLabels"}, "Service": {"spec", "selector"}, "PodDisruptionBudget": {"spec", "selector", "matchLabels"}} {
		equal("the selector of "+kind, kinds[kind].at(at...), labels)
	}
	equal("what is scaled", kinds["HorizontalPodAutoscaler"].at("spec", "scaleTargetRef", "name"), deployment.at("metadata", "name"))
	account := kinds["ServiceAccount"].at("metadata", "name")
	equal("the account of the pods", deployment.at("spec", "template", "spec", "serviceAccountName"), account)
	equal("the account of the rights", kinds["RoleBinding"].at("subjects", 0, "name"), account)
	equal("the role of the account", kinds["RoleBinding"].at("roleRef", "name"), kinds["Role"].at("metadata", "name"))
	equal("the rights", kinds["Role"].at("rules", 0), map[any]any{"apiGroups": []any{"discovery.k8s.io"}, "resources": []any{"endpointslices"}, "verbs": []any{"list", "watch"}})
	pod := manifest(deployment.at("spec", "template", "spec").(map[any]any))
	equal("the configuration", kinds["Kustomization"].at("configMapGenerator", 0, "name"), pod.at("volumes", 0, "configMap", "name"))
	equal("the image", kinds["Kustomization"].at("images", 0, "name"), pod.at("containers", 0, "image"))

	container := manifest(pod.at("containers", 0).(map[any]any))
	args := fmt.Sprint(container.at("args"))
	file := kinds["Kustomization"].at("configMapGenerator", 0, "files", 0).(string)
	testenv.Contains(t, args, container.at("volumeMounts", 0, "mountPath").(string)+"/"+file)
	text := string(testenv.Need(os.ReadFile(filepath.Join(manifests, file)))(t))
	set := settingsOf(t, configFile(t, "%s", text))
	ports := map[any]string{}
	for _, p := range container.at("ports").([]any) {
		ports[p.(map[any]any)["name"]] = fmt.Sprint(":", p.(map[any]any)["containerPort"])
	}
	testenv.Equal(t, ports["http"], set.server.Addr, "the port of clients")
	testenv.Equal(t, "0.0.0.0"+ports["admin"], set.admin, "the port of admin pages")
	equal("where the Service leads", kinds["Service"].at("spec", "ports", 0, "targetPort"), "http")
	pause := time.Duration(container.at("lifecycle", "preStop", "sleep", "seconds").(int)) * time.Second
	most := time.Duration(pod.at("terminationGracePeriodSeconds").(int)) * time.Second
	testenv.True(t, pause+set.server.ShutdownTimeout < most, "the pause before the end, %v, and grace = %v, take longer than %v", pause, set.server.ShutdownTimeout, most)

	// The pages and the metric are there.
	admin := freePort(t)
	text = strings.NewReplacer(`":8080"`, `"127.0.0.1:0"`, "0.0.0.0:9090", admin).Replace(text)
	p := start(t, "-config", configFile(t, "%s", text))
	pages := []string{container.at("startupProbe", "httpGet", "path").(string), container.at("livenessProbe", "httpGet", "path").(string), container.at("readinessProbe", "httpGet", "path").(string)}
	slices.Sort(pages)
	equal("the pages of the probes", pages, "[/healthz /healthz /readyz]")
	for _, page := range pages {
		resp, _ := askAs(t, http.DefaultClient, "http://"+admin+page, "localhost")
		testenv.Equal(t, resp.StatusCode, 200, "the status of %s", page)
	}
	metric := kinds["HorizontalPodAutoscaler"].at("spec", "metrics", 0, "pods", "metric", "name").(string)
	path := deployment.at("spec", "template", "metadata", "annotations", "prometheus.io/path").(string)
	_, body := askAs(t, http.DefaultClient, "http://"+admin+path, "localhost")
	testenv.Contains(t, body, "\n"+metric+" ")
	p.end()
}
