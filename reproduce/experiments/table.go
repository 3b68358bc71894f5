package experiments

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// ReadTable reads some columns of a CSV file.
func ReadTable(path string, columns []string, row func(fields []string) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	r := csv.NewReader(f)
	r.ReuseRecord = true
	head, err := r.Read()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	var at []int
	for _, c := range columns {
		i := slices.Index(head, c)
		if i < 0 {
			return fmt.Errorf("%s has no column %s", path, c)
		}
		at = append(at, i)
	}
	fields := make([]string, len(at))
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for i, n := range at {
			fields[i] = record[n]
		}
		if err := row(fields); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
}
