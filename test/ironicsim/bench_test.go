package ironicsim

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
)

// BenchmarkList is the bulk read of a thousand out of ten thousand nodes.
func BenchmarkList(b *testing.B) {
	s := New(Options{PowerSyncInterval: -1, PowerRecoveryInterval: -1})
	b.Cleanup(s.Close)
	for i := range 10000 {
		if _, err := s.CreateNode(map[string]any{"driver": "fake-hardware", "name": fmt.Sprintf("host-%05d", i)}); err != nil {
			b.Fatal(err)
		}
	}
	for name, query := range map[string]string{
		"1000/fields": "limit=1000&fields=uuid,name,power_state,provision_state,last_error,driver_info,properties,extra,reservation",
		"1000/detail": "limit=1000&detail=True",
		"newest50":    "limit=50&detail=True&sort_key=updated_at&sort_dir=desc",
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				r := httptest.NewRequest(http.MethodGet, "/v1/nodes?"+query, nil)
				r.Header.Set(headerVersion, "latest")
				w := httptest.NewRecorder()
				s.Handler().ServeHTTP(w, r)
				if w.Code != http.StatusOK {
					b.Fatal(w.Body)
				}
			}
		})
	}
}
