package analyzers

// Table is what an analyzer counts, as text, one row for each class.
type Table struct {
	File    string // without suffix; empty: none
	Title   string // in reports; empty: reports do not show it
	Note    string
	Columns []string
	Rows    [][]string
	// Cumulative says that the first column is a quantity and the second counts it: reports draw the distribution.
	Cumulative bool
	Unit       string // of the quantity
}
