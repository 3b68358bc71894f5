// Package fieldtest walks the fields of structs, for tests that a conversion keeps every field. It includes fields
// added later; a type unknown to the walk is an error.
package fieldtest

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"testing"
)

// Leaf is a field or element with a plain value.
type Leaf struct {
	Path  string // such as Connections[0].Traffic[1].MTU
	Value reflect.Value
}

// Leaves lists the leaves of the struct that v points to. Pointers and slices must be set; otherwise their contents
// would be missed. Unexported fields are skipped; a test that needs them must walk in their package.
func Leaves(t testing.TB, v any) []Leaf {
	t.Helper()
	return Walk(t, "", reflect.ValueOf(v).Elem())
}

// Walk lists the leaves of v, without the fields in skip. Their paths begin with path.
func Walk(t testing.TB, path string, v reflect.Value, skip ...string) []Leaf {
	t.Helper()
	w := walker{t: t, skip: skip}
	w.walk(path, v)
	return w.list
}

type walker struct {
	t    testing.TB
	skip []string
	list []Leaf
}

// plain are struct and array types that are one value.
var plain = []reflect.Type{reflect.TypeFor[netip.Addr](), reflect.TypeFor[netip.Prefix]()}

func (w *walker) walk(path string, v reflect.Value) {
	w.t.Helper()
	for _, p := range plain {
		if v.Type() == p {
			w.list = append(w.list, Leaf{path, v})
			return
		}
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && !slices.Contains(w.skip, f.Name) {
				w.walk(join(path, f), v.Field(i))
			}
		}
	case reflect.Pointer:
		if v.IsNil() {
			w.t.Fatalf("%s is nil: nothing is known of what it points to; set it", path)
		}
		w.walk(path, v.Elem())
	case reflect.Slice, reflect.Array:
		if v.Len() == 0 {
			w.t.Fatalf("%s is empty: nothing is known of its elements; give it one", path)
		}
		if v.Type().Elem().Kind() == reflect.Uint8 && v.Kind() == reflect.Array {
			w.list = append(w.list, Leaf{path, v})
			return
		}
		for i := range v.Len() {
			w.walk(fmt.Sprintf("%s[%d]", path, i), v.Index(i))
		}
	case reflect.Bool, reflect.String, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		w.list = append(w.list, Leaf{path, v})
	default:
		w.t.Fatalf("%s is a %s, which this walk does not know", path, v.Type())
	}
}

func join(path string, f reflect.StructField) string {
	switch {
	case f.Anonymous:
		return path
	case path == "":
		return f.Name
	}
	return path + "." + f.Name
}

// Change sets a leaf to a different non-zero value: the next number, the other truth value, the next address. For a
// string it takes the first different element of words.
func Change(t testing.TB, l Leaf, words ...string) {
	t.Helper()
	v := l.Value
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(v.Uint() + 1)
	case reflect.Float64:
		v.SetFloat(v.Float() + 1)
	case reflect.Array:
		v.Index(v.Len() - 1).SetUint(v.Index(v.Len()-1).Uint() ^ 1)
	case reflect.String:
		for _, w := range words {
			if w != v.String() {
				v.SetString(w)
				return
			}
		}
		t.Fatalf("%s: no word to change %q to", l.Path, v.String())
	case reflect.Struct:
		switch x := v.Interface().(type) {
		case netip.Addr:
			v.Set(reflect.ValueOf(x.Next()))
		case netip.Prefix:
			v.Set(reflect.ValueOf(netip.PrefixFrom(x.Addr().Next(), x.Bits())))
		}
	default:
		t.Fatalf("%s: a %s cannot be changed", l.Path, v.Type())
	}
}
