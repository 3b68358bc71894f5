package inorder_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"candela.dev/candela/analyzers/inorder"
)

// A log is a queue, whatever is added and forgotten in which order.
func TestALogIsAQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l inorder.Log[int]
		var want []int
		next := 0
		for range rapid.IntRange(1, 60).Draw(t, "turns") {
			for range rapid.IntRange(0, 400).Draw(t, "added") {
				l.Add(next)
				want = append(want, next)
				next++
			}
			for range rapid.IntRange(0, 400).Draw(t, "forgotten") {
				got, ok := l.First()
				if ok != (len(want) > 0) || ok && got != want[0] {
					t.Fatalf("first is %d, %v; %d are kept", got, ok, len(want))
				}
				if !ok {
					break
				}
				l.Next()
				want = want[1:]
			}
			if !slices.Equal(l.Waiting(), want) {
				t.Fatalf("%d wait, want %d", len(l.Waiting()), len(want))
			}
		}
	})
}

func TestALogIsFullBeyondItsMost(t *testing.T) {
	var l inorder.Log[struct{}]
	for range inorder.Most {
		l.Add(struct{}{})
	}
	if l.Full() {
		t.Error("full at its most")
	}
	if l.Add(struct{}{}); !l.Full() {
		t.Error("not full beyond it")
	}
	if l.Next(); l.Full() {
		t.Error("full after one has gone")
	}
}
