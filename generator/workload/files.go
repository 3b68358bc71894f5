package workload

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"

	"candela.dev/candela/generator/parameter"
)

// File is a file that an item names.
type File struct {
	Path string // where it was found
	Size int64
	io.ReaderAt
	io.Closer
}

// Open finds the file that a test names.
type Open func(name string) (*File, error)

// whole reads a file from its beginning.
func (f *File) whole() io.Reader { return io.NewSectionReader(f, 0, f.Size) }

// misplacement is a mistake in a file.
type misplacement struct {
	path         string
	line, column int
	what         string
}

func (m *misplacement) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", m.path, m.line, m.column, m.what)
}

func misplaced(path string, line, column int, format string, args ...any) error {
	return &misplacement{path, line, column, fmt.Sprintf(format, args...)}
}

// word is a word of a line, and its column from 1.
type word struct {
	text   string
	column int
}

// wordsOf splits a line at blanks and commas; what follows # is a comment.
func wordsOf(line string) []word {
	if i := strings.IndexByte(line, '#'); i >= 0 {
		line = line[:i]
	}
	var words []word
	start := -1
	for i := range len(line) + 1 {
		switch blank := i == len(line) || strings.IndexByte(" \t,;\r", line[i]) >= 0; {
		case blank && start >= 0:
			words, start = append(words, word{line[start:i], start + 1}), -1
		case !blank && start < 0:
			start = i
		}
	}
	return words
}

// maxPoints bounds a distribution.
const maxPoints = 4096

// readCDF reads points of a cumulative distribution: on each line a size in bytes and the share of flows of at
// most this size, as a fraction or in percent. A first line of words is a heading.
func readCDF(path string, r io.Reader) ([]point, error) {
	var points []point
	var lines []int
	in := bufio.NewScanner(r)
	number := 0
	for in.Scan() {
		number++
		words := wordsOf(in.Text())
		if len(words) == 0 {
			continue
		}
		if len(words) != 2 {
			return nil, misplaced(path, number, words[len(words)-1].column,
				"%d columns, want two: a size in bytes and the share of flows of at most this size", len(words))
		}
		size, err := strconv.ParseFloat(words[0].text, 64)
		share, bad := strconv.ParseFloat(words[1].text, 64)
		if err != nil && bad != nil && len(points) == 0 && number == 1 {
			continue // a heading
		}
		last := point{-1, -1}
		if len(points) > 0 {
			last = points[len(points)-1]
		}
		switch {
		case err != nil || !(size >= 0 && size <= maxSize) || size != float64(int64(size)):
			return nil, misplaced(path, number, words[0].column, "%q is no size: want whole bytes, at most 2^45", words[0].text)
		case bad != nil || !(share >= 0 && share <= 100):
			return nil, misplaced(path, number, words[1].column, "%q is no share: want 0 to 1, or 0 to 100 (percent)",
				words[1].text)
		case size <= last.bytes:
			return nil, misplaced(path, number, words[0].column, "%s does not exceed the size before it, %.0f", words[0].text,
				last.bytes)
		case share <= last.share:
			return nil, misplaced(path, number, words[1].column, "%s does not exceed the share before it, %g", words[1].text,
				last.share)
		case len(points) == maxPoints:
			return nil, misplaced(path, number, 1, "more than %d points", maxPoints)
		}
		points, lines = append(points, point{size, share}), append(lines, number)
	}
	if err := in.Err(); err != nil {
		return nil, misplaced(path, number+1, 1, "%v", err)
	}
	return wholeShares(path, points, lines)
}

// maxSize is the greatest size of a flow in bytes.
const maxSize = 1 << 45

// wholeShares turns percents into fractions.
func wholeShares(path string, points []point, lines []int) ([]point, error) {
	if len(points) == 0 {
		return nil, misplaced(path, 1, 1, "no points: want a size in bytes and a share on each line")
	}
	last := points[len(points)-1].share
	if last != 1 && last != 100 {
		return nil, misplaced(path, lines[len(lines)-1], 1,
			"the last share is %g: want 1, or 100 if shares are in percent", last)
	}
	for i := range points {
		points[i].bytes = max(1, points[i].bytes)
		points[i].share /= last
		if i > 0 && points[i].bytes <= points[i-1].bytes {
			return nil, misplaced(path, lines[i], 1, "sizes of 0 and 1 byte are one point")
		}
	}
	return points, nil
}

// readSizes replaces the name of a file by its points, so that the item needs the file no more.
func readSizes(v parameter.Values, open Open) []Problem {
	name := v.File("sizes")
	table := v.Table()
	for _, word := range table[table.Find("sizes")].Words {
		if word == name {
			return nil
		}
	}
	f, err := open(name)
	if err != nil {
		return []Problem{{"sizes", fmt.Sprintf("is %q: %v", name, err), ""}}
	}
	defer func() { _ = f.Close() }()
	points, err := readCDF(f.Path, f.whole())
	if err != nil {
		return []Problem{{"sizes", "the file of the distribution is invalid", err.Error()}}
	}
	of := table[table.Find("points")].Items
	list := make([]parameter.Values, len(points))
	for i, p := range points {
		list[i] = of.Defaults()
		list[i].SetStep("bytes", int64(p.bytes))
		share := of[of.Find("share")]
		list[i].SetStep("share", int64(p.share*float64(share.Scale())+0.5))
	}
	v.SetFile("sizes", "points")
	v.SetList("points", list)
	return nil
}
