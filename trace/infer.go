package trace

// Inference finds the connections of a trace whose connections are not given.
type Inference struct{}

// NewInference returns an inference that has seen nothing.
func NewInference() *Inference { return &Inference{} }

func (inf *Inference) add(key flowKey, r *Record) {}

// Connections returns what was found.
func (inf *Inference) Connections() (*Connections, []string, error) {
	c, err := NewConnections(nil)
	return c, nil, err
}
