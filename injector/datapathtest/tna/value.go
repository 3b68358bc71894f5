package tna

import "math/bits"

// value is a number of up to 128 bits; width 0 is a number without one, as in the sources.
type value struct {
	hi, lo uint64
	width  int
}

// cut takes v modulo 2^width.
func (v value) cut() value {
	switch {
	case v.width == 0 || v.width >= 128:
	case v.width <= 64:
		v.hi = 0
		if v.width < 64 {
			v.lo &= 1<<v.width - 1
		}
	default:
		v.hi &= 1<<(v.width-64) - 1
	}
	return v
}

func (v value) shift(n int) value { // to the left, or, if n is negative, to the right
	switch {
	case n >= 64:
		v.hi, v.lo = v.lo<<(n-64), 0
	case n > 0:
		v.hi, v.lo = v.hi<<n|v.lo>>(64-n), v.lo<<n
	case n <= -64:
		v.hi, v.lo = 0, v.hi>>(-n-64)
	case n < 0:
		v.hi, v.lo = v.hi>>-n, v.lo>>-n|v.hi<<(64+n)
	}
	return v
}

func (v value) slice(hi, lo int) value {
	v = v.shift(-lo)
	v.width = hi - lo + 1
	return v.cut()
}

func concat(a, b value) value {
	s := a.shift(b.width)
	return value{s.hi | b.hi, s.lo | b.lo, a.width + b.width}
}

// compute computes a binary operation; ok is false if widths do not allow it.
func compute(op string, a, b value) (v value, ok bool) {
	if op == "++" {
		return concat(a, b), a.width > 0 && b.width > 0
	}
	if op == "<<" {
		s := a.shift(int(b.lo))
		s.width = a.width
		return s.cut(), true
	}
	width := max(a.width, b.width)
	if a.width != b.width && a.width != 0 && b.width != 0 {
		return v, false
	}
	truth := func(t bool) (value, bool) {
		if t {
			return value{0, 1, 1}, true
		}
		return value{0, 0, 1}, true
	}
	top := ^uint64(0)
	if width > 0 && width < 64 {
		top = 1<<width - 1
	}
	switch op {
	case "==":
		return truth(a.hi == b.hi && a.lo == b.lo)
	case "!=":
		return truth(a.hi != b.hi || a.lo != b.lo)
	case "<":
		return truth(a.hi < b.hi || a.hi == b.hi && a.lo < b.lo)
	case ">":
		return compute("<", b, a)
	case "<=":
		return truth(a.hi < b.hi || a.hi == b.hi && a.lo <= b.lo)
	case ">=":
		return compute("<=", b, a)
	case "&":
		return value{a.hi & b.hi, a.lo & b.lo, width}, true
	case "|":
		return value{a.hi | b.hi, a.lo | b.lo, width}, true
	case "^":
		return value{a.hi ^ b.hi, a.lo ^ b.lo, width}, true
	}
	if width > 64 {
		return v, false
	}
	switch op {
	case "+":
		return value{0, a.lo + b.lo, width}.cut(), true
	case "-":
		return value{0, a.lo - b.lo, width}.cut(), true
	case "*":
		return value{0, a.lo * b.lo, width}.cut(), true
	case "|+|":
		sum, carry := bits.Add64(a.lo, b.lo, 0)
		if carry != 0 || sum > top {
			sum = top
		}
		return value{0, sum, width}, true
	case "|-|":
		return value{0, a.lo - min(a.lo, b.lo), width}, true
	}
	return v, false
}
