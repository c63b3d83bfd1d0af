package upstream_test

import (
	"fmt"
	"net/http"

	"github.com/capriccio-go/capriccio/knot/upstream"
)

// A client whose requests say how long they may take, and are sent again within a budget.
func Example() {
	client := &http.Client{Transport: &upstream.Transport{RetryShare: 0.05}}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent, err := http.NewRequestWithContext(r.Context(), "GET", "http://stock.internal/7", nil)
		if err != nil {
			return
		}
		resp, err := client.Do(sent)
		if err != nil {
			http.Error(w, "no stock", http.StatusBadGateway)
			return
		}
		resp.Body.Close()
	})
	fmt.Println(handler != nil)
	// Output: true
}
