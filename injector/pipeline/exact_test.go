package pipeline

import (
	"testing"

	"pgregory.net/rapid"
)

// TestExactTableBehavesAsAMap compares the hash table with Go's map, also with hashes that all collide or wrap around
// the end of the table.
func TestExactTableBehavesAsAMap(t *testing.T) {
	hashes := map[string]func(uint64) uint64{
		"spread": hashInt, "all in one slot": func(uint64) uint64 { return 0 },
		"all at the end": func(uint64) uint64 { return ^uint64(0) },
		"few slots":      func(k uint64) uint64 { return k << 62 },
	}
	for name, hash := range hashes {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { exactAgrees(t, hash) })
		})
	}
}

func exactAgrees(t *rapid.T, hash func(uint64) uint64) {
	table, model := newExact[uint64, int](hash), map[uint64]int{}
	key := rapid.Uint64Range(1, 60)
	t.Repeat(map[string]func(*rapid.T){
		"put": func(t *rapid.T) {
			k, v := key.Draw(t, "key"), rapid.Int().Draw(t, "value")
			*table.put(k) = v
			model[k] = v
		},
		"remove": func(t *rapid.T) {
			k := key.Draw(t, "key")
			table.remove(k)
			delete(model, k)
		},
		"": func(t *rapid.T) {
			if table.n != len(model) {
				t.Fatalf("%d entries, want %d", table.n, len(model))
			}
			for k := range uint64(61) {
				if k == 0 {
					continue
				}
				want, ok := model[k]
				if got := table.find(hash(k), k); (got != nil) != ok || ok && *got != want {
					t.Fatalf("key %d: %v, want %d, %t", k, got, want, ok)
				}
			}
		},
	})
}
