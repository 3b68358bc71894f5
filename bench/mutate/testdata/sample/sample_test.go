package sample

import (
	"errors"
	"testing"
)

func TestGrade(t *testing.T) {
	if Grade(10) != Low || Grade(11) != High {
		t.Error("wrong grade")
	}
}

func TestBetween(t *testing.T) {
	if !Between(1) || Between(20_000) {
		t.Error("wrong")
	}
}

func TestBoth(t *testing.T) {
	if !Both(true, true) || Both(true, false) {
		t.Error("wrong")
	}
}

func TestSum(t *testing.T) {
	if n, err := Sum([]uint8{1, 2, 4}, 1); n != 5 || err != nil {
		t.Error(n, err)
	}
	if _, err := Sum(nil, 0); !errors.Is(err, ErrNone) {
		t.Error(err)
	}
}

func TestName(t *testing.T) {
	if Name(Low) != "low" || Name(High) != "high" {
		t.Error("wrong")
	}
}

func TestShift(t *testing.T) {
	if n := Shift(33, [4]int{}); n != 12 {
		t.Error(n)
	}
}

func TestEndless(t *testing.T) {
	if Endless(3) != 3 {
		t.Error("wrong")
	}
}

func TestReceive(t *testing.T) {
	c := make(chan int, 1)
	c <- 4
	if Receive(c) != 8 || Receive(c) != 0 {
		t.Error("wrong")
	}
}
