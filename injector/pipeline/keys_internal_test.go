package pipeline

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"candela.dev/candela/injector/p4"
	"candela.dev/candela/packet"
)

func TestKeysHoldTheFieldsSideBySide(t *testing.T) {
	const top = 1 << 63
	for _, tt := range []struct {
		name      string
		got, want uint64
	}{
		{"event", eventKey(0xffff, 1, 0xfffffe, 0xfffd), top | 0xffff<<41 | 1<<40 | 0xfffffe<<16 | 0xfffd},
		{"event, zeros between", eventKey(0, 1, 0, 7), top | 1<<40 | 7},
		{"event_any", eventAnyKey(0xffff, 1, 0xfffffe), top | 0xffff<<25 | 1<<24 | 0xfffffe},
		{"event_any, zeros between", eventAnyKey(5, 0, 3), top | 5<<25 | 3},
		{"control_event", controlKey(0xffff, 9, 0xfffd), top | 0xffff<<20 | 9<<16 | 0xfffd},
		{"control_event, zeros between", controlKey(6, 0, 5), top | 6<<20 | 5},
		{"watch", watchKey(0xffff, 1, 9, 0xfffffe), top | 0xffff<<29 | 1<<28 | 9<<24 | 0xfffffe},
		{"watch, zeros between", watchKey(3, 0, 0, 1), top | 3<<29 | 1},
		{"watched_event", watchedKey(0xffff, 0xfffd), top | 0xffff<<16 | 0xfffd},
		{"l2_forward", macKey(0x020000000001), top | 0x020000000001},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %#x, want %#x", tt.name, tt.got, tt.want)
		}
	}
}

func TestKeysOfEntriesAreThoseOfTheirPackets(t *testing.T) {
	p, err := New(Config{Ports: 1})
	if err != nil {
		t.Fatal(err)
	}
	if table, key := p.eventTable(p4.TableEvent, p4.KeyOf(3, 1, 77, 5)); table != &p.event ||
		key != eventKey(3, packet.Responses, 77, 5) {
		t.Errorf("event: key %#x", key)
	}
	if table, key := p.eventTable(p4.TableEventAny, p4.KeyOf(3, 1, 77)); table != &p.eventAny ||
		key != eventAnyKey(3, packet.Responses, 77) {
		t.Errorf("event_any: key %#x", key)
	}
	if table, key := p.eventTable(p4.TableControlEvent, p4.KeyOf(3, 2, 77)); table != &p.controlEvent ||
		key != controlKey(3, 2, 77) {
		t.Errorf("control_event: key %#x", key)
	}
	if table, key := p.eventTable(p4.TableWatchedEvent, p4.KeyOf(3, 2)); table != &p.watchedEvent ||
		key != watchedKey(3, 2) {
		t.Errorf("watched_event: key %#x", key)
	}
	if table, _ := p.eventTable(p4.TableMirror, p4.Key{}); table != nil {
		t.Error("table mirror has events")
	}
	v6 := v6KeyOf(p4.Key{{Hi: 1, Lo: 2}, {Hi: 3, Lo: 4}, {Lo: 5}})
	if v6 != (v6Key{[2]uint64{1, 2}, [2]uint64{3, 4}, 5 | occupied}) {
		t.Errorf("IPv6 key %+v", v6)
	}
}

// spread inserts keys and returns how far from its home the farthest one lies.
func spread[K comparable](hash func(K) uint64, keys []K) (longest int) {
	table := newExact[K, int](hash)
	for i, k := range keys {
		*table.put(k) = i
	}
	if 2*len(keys) > len(table.keys) || 4*len(keys) < len(table.keys) && len(table.keys) > minSlots {
		panic(fmt.Sprintf("%d keys in %d slots: a table is at most half full and grows by doubling", len(keys),
			len(table.keys)))
	}
	mask := len(table.keys) - 1
	var empty K
	for i, k := range table.keys {
		if k != empty {
			longest = max(longest, (i-int(hash(k)>>table.shift))&mask)
		}
	}
	return longest
}

// TestHashesSpreadWhatTestsProgram keeps lookups short for the keys that come in sequences: addresses, queue pairs,
// PSNs.
func TestHashesSpreadWhatTestsProgram(t *testing.T) {
	const n, most = 4096, 16
	for name, longest := range map[string]int{
		"PSNs":         spread(hashInt, keysOf(n, func(i uint64) uint64 { return eventKey(1, 0, packet.PSN(i), 1) })),
		"flows":        spread(hashInt, keysOf(n, func(i uint64) uint64 { return eventKey(uint16(i), 0, 7, 1) })),
		"MACs":         spread(hashInt, keysOf(n, func(i uint64) uint64 { return macKey(i << 24) })),
		"IPv4 sources": spread(hashV4, keysOf(n, func(i uint64) v4Key { return v4Key{i<<32 | 1, 17 | occupied} })),
		"IPv4 targets": spread(hashV4, keysOf(n, func(i uint64) v4Key { return v4Key{1<<32 | i, 17 | occupied} })),
		"QPNs of IPv4": spread(hashV4, keysOf(n, func(i uint64) v4Key { return v4Key{1<<32 | 2, i | occupied} })),
		"QPNs of IPv6": spread(hashV6, keysOf(n, func(i uint64) v6Key { return v6Key{qpn: i | occupied} })),
		"IPv6 prefixes": spread(hashV6,
			keysOf(n, func(i uint64) v6Key { return v6Key{src: [2]uint64{i, 9}, qpn: 1 | occupied} })),
		"IPv6 sources": spread(hashV6,
			keysOf(n, func(i uint64) v6Key { return v6Key{src: [2]uint64{8, i}, qpn: 1 | occupied} })),
		"IPv6 networks": spread(hashV6,
			keysOf(n, func(i uint64) v6Key { return v6Key{dst: [2]uint64{i, 9}, qpn: 1 | occupied} })),
		"IPv6 targets": spread(hashV6,
			keysOf(n, func(i uint64) v6Key { return v6Key{dst: [2]uint64{8, i}, qpn: 1 | occupied} })),
	} {
		if longest > most {
			t.Errorf("%s: a key lies %d slots from its home, at most %d is wanted", name, longest, most)
		}
	}
}

func keysOf[K any](n int, key func(i uint64) K) (keys []K) {
	for i := range n {
		keys = append(keys, key(uint64(i)))
	}
	return keys
}

// TestNoKeyIsLostWhereManyShareAHome fills a table whose keys all collide, and removes them at random.
func TestNoKeyIsLostWhereManyShareAHome(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, home := range []uint64{0, 5, 15} {
		table := newExact[uint64, uint64](func(k uint64) uint64 { return (home + k&1) << 60 })
		want := map[uint64]bool{}
		for range 2000 {
			k := occupied | r.Uint64N(12)
			if r.IntN(2) == 0 {
				*table.put(k) = k
				want[k] = true
			} else {
				table.remove(k)
				delete(want, k)
			}
			if table.n != len(want) {
				t.Fatalf("the table holds %d keys, want %d", table.n, len(want))
			}
			for k := range uint64(12) {
				v := table.find(table.hash(occupied|k), occupied|k)
				if (v != nil) != want[occupied|k] || v != nil && *v != occupied|k {
					t.Fatalf("key %d: found %v, want %v", k, v != nil, want[occupied|k])
				}
			}
		}
	}
}

func TestFiltersAndCounts(t *testing.T) {
	seen := map[uint64]bool{}
	for psn := range packet.PSN(64) {
		seen[filterBit(psn)] = true
	}
	if len(seen) != 64 || filterBit(64) != filterBit(0) {
		t.Errorf("64 neighbouring PSNs have %d bits of a filter", len(seen))
	}
	a := arrivals(7)<<16 | arrivals(p4.Saturated-1)
	if n := [3]uint16{a.next(7), a.next(7), a.next(8)}; n != [3]uint16{p4.Saturated, p4.Saturated, 1} {
		t.Errorf("arrivals count %v", n)
	}
}

// TestWhatNobodyNamesIsNotLookedUp checks the filters that save most packets their lookups, and that they are cleared
// when tables are empty.
func TestWhatNobodyNamesIsNotLookedUp(t *testing.T) {
	p, err := New(Config{Ports: 1})
	if err != nil {
		t.Fatal(err)
	}
	for name, e := range map[string]struct {
		table  uint32
		key    p4.Key
		action p4.Action
	}{
		"event":     {p4.TableEvent, p4.KeyOf(2, 1, 9, 1), p4.NewAction(p4.ActionDrop)},
		"event_any": {p4.TableEventAny, p4.KeyOf(2, 1, 9), p4.NewAction(p4.ActionDrop)},
		"watch":     {p4.TableWatch, p4.KeyOf(2, 1, 0, 9), p4.NewAction(p4.ActionSetWatch, 3)},
	} {
		filter := func() uint64 { return p.rounds[2*2+1].filter }
		if filter() != 0 {
			t.Fatalf("%s: the filter is %#x before", name, filter())
		}
		other := p4.KeyOf(2, 1, 8, 1)
		if err := p.Set(e.table, e.key, e.action); err != nil {
			t.Fatal(err)
		}
		if err := p.Set(p4.TableEvent, other, p4.NewAction(p4.ActionDrop)); err != nil {
			t.Fatal(err)
		}
		if want := filterBit(9) | filterBit(8); filter() != want {
			t.Errorf("%s: the filter is %#x, want %#x", name, filter(), want)
		}
		p.Unset(p4.TableEvent, other)
		if filter()&filterBit(9) == 0 {
			t.Errorf("%s: an entry is left and not in the filter", name)
		}
		p.Unset(e.table, e.key)
		if filter() != 0 {
			t.Errorf("%s: the filter is %#x after the last entry", name, filter())
		}
	}
}
