package urgency

import (
	"context"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]int{"0": 0, "7": 7, "u=0": 0, "u=5, i": 5, "i, u=1": 1, "u=1, u=6": 6, "i": 3, "i=?0": 3, "u=2;x=1": 2, "x=9,u=4": 4} {
		if u, ok := Parse([]byte(text)); !ok || u != want {
			t.Errorf("%q: %d, %v; want %d", text, u, ok, want)
		}
	}
	for _, text := range []string{"", "8", "-1", "u=8", "u=-1", "u=10", "u", "u=a", "u=1.5", "12", ",", "u=3,"} {
		if u, ok := Parse([]byte(text)); ok {
			t.Errorf("%q is %d", text, u)
		}
	}
}

func TestFormat(t *testing.T) {
	for u, want := range map[int]string{-1: "0", 0: "0", 7: "7", 8: "7"} {
		if got := Format("X-Importance", u); got != want {
			t.Errorf("%d is %q; want %q", u, got, want)
		}
		if got := Format("priority", u); got != "u="+want {
			t.Errorf("%d is %q; want u=%s", u, got, want)
		}
	}
}

func TestContext(t *testing.T) {
	if u, ok := Of(context.Background()); ok {
		t.Errorf("a plain context has %d", u)
	}
	if u, ok := Of(With(With(context.Background(), 1), 6)); !ok || u != 6 || !IsKey(key{}) || IsKey("u") {
		t.Errorf("%d, %v", u, ok)
	}
}
