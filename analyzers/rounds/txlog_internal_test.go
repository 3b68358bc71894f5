package rounds

import "testing"

// TestARingForgetsNothingBeforeItHasItsUsualLength: a short ring saves memory, not knowledge.
func TestARingForgetsNothingBeforeItHasItsUsualLength(t *testing.T) {
	var l txLog
	for place := int64(1); place <= minInFlight; place++ {
		if l.put(place, place, txEntry{ns: place}); len(l.ring) > 2*int(place) && len(l.ring) > fewInFlight {
			t.Fatalf("%d packets take a ring of %d", place, len(l.ring))
		}
	}
	for place := int64(1); place <= minInFlight; place++ {
		if got := l.get(place); !got.Known || got.NS != place {
			t.Errorf("packet %d: %+v", place, got)
		}
	}
	if l.put(minInFlight+1, minInFlight+1, txEntry{}); len(l.ring) != minInFlight || l.get(1).Known {
		t.Errorf("ring of %d, the first packet is known: %v; want %d, as all but the latest are acknowledged", len(l.ring),
			l.get(1).Known, minInFlight)
	}
}
