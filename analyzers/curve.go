package analyzers

import "candela.dev/candela/clock"

// Curve is the course of a quantity over time, of few points. Curves of one title are drawn together.
type Curve struct {
	Name, Title, Unit string
	Times             []clock.Time
	Values            []float64
}

// Add adds a point.
func (c *Curve) Add(at clock.Time, value float64) {
	c.Times, c.Values = append(c.Times, at), append(c.Values, value)
}
