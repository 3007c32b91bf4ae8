package paritytest

import ("testing";"log/slog";"time";"sync";"runtime";"fmt"
"github.com/evictd/evictd/host/paritytest/embedded"
"github.com/evictd/evictd/host/paritytest/generate"
)

func TestParity(t *testing.T) {
	end := time.Now().Add(20*time.Second)
	var wg sync.WaitGroup
	var mu sync.Mutex
	next := int64(0)
	ok,bad,q:=0,0,0
	for range 4*runtime.NumCPU() {
		wg.Go(func(){
			for time.Now().Before(end) {
				mu.Lock(); next++; seed:=next; mu.Unlock()
				s := generate.Scenario(seed)
				got, err := embedded.Decide(t.Context(), s, slog.New(slog.DiscardHandler))
				if err != nil { t.Error(seed, err); continue }
				d, _, err := theKubelet.Judge(t.Context(), s, got)
				if err != nil { t.Error(seed, err); continue }
				mu.Lock()
				switch { case d==nil: ok++; case len(s.Quirks)>0: q++; default: bad++; if bad<30 {t.Error(seed, fmt.Sprintf("%.700s",d)) }}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	t.Log(ok,bad,q,next)
}
