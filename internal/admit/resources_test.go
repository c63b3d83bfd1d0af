package admit

import (
	"fmt"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func resource(t *testing.T, name string) *Resource {
	t.Helper()
	return testenv.Need(NewResource(name, ""))(t)
}

func TestResourceNames(t *testing.T) {
	r := resource(t, "once")
	testenv.Equal(t, resource(t, "once"), r, "a second resource of the same name")
	testenv.Fails(t, testenv.Err(NewResource("once", "bytes")), "the same name with another unit is accepted")
	testenv.Fails(t, testenv.Err(NewResource("", "")), "an empty name is accepted")
	if r.SetLimit(7); r.Limit() != 7 || r.Name() != "once" || r.Unit() != "" {
		t.Errorf("name %q, unit %q, limit %d", r.Name(), r.Unit(), r.Limit())
	}
}

func TestAsManyResourcesAsThereMayBe(t *testing.T) {
	resources.mu.Lock()
	kept := resources.all
	resources.mu.Unlock()
	defer func() {
		resources.mu.Lock()
		resources.all = kept
		resources.mu.Unlock()
	}()
	for i := len(kept); i < MaxResources; i++ {
		resource(t, fmt.Sprint("filler ", i))
	}
	if _, err := NewResource("one too many", ""); err == nil {
		t.Errorf("resource %d is accepted, want at most %d", MaxResources+1, MaxResources)
	}
}
