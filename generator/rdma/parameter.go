package rdma

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"candela.dev/candela/clock"
)

// Set sets the parameter with a field's name: an integer, a number, true or false, a duration with its unit such as
// 2.5us, a CNP mode, or numbers separated by commas. The profile's name does not change.
func (p *Profile) Set(parameter, value string) error {
	f := reflect.ValueOf(p).Elem().FieldByName(parameter)
	if !f.IsValid() || parameter == "Name" || parameter == "Description" || parameter == "Vendor" ||
		f.Kind() == reflect.Map {
		return fmt.Errorf("profile %s: no parameter %q (there are: %s)", p.Name, parameter,
			strings.Join(parameterNames(), ", "))
	}
	if err := setField(f, value); err != nil {
		return fmt.Errorf("profile %s: parameter %s: %w", p.Name, parameter, err)
	}
	return nil
}

func parameterNames() []string {
	var names []string
	t := reflect.TypeFor[Profile]()
	for i := range t.NumField() {
		switch f := t.Field(i); f.Type.Kind() {
		case reflect.String, reflect.Map:
		default:
			names = append(names, f.Name)
		}
	}
	return names
}

func setField(f reflect.Value, value string) error {
	switch old := f.Interface().(type) {
	case clock.Duration:
		d, err := time.ParseDuration(value)
		if err != nil {
			return err
		}
		f.SetInt(int64(clock.FromStd(d)))
	case CNPMode:
		mode, ok := ParseCNPMode(value)
		if !ok {
			return fmt.Errorf("CNP mode %q is unknown", value)
		}
		f.SetUint(uint64(mode))
	case int:
		n, err := strconv.Atoi(value)
		if err != nil {
			return err
		}
		f.SetInt(int64(n))
	case bool:
		b, err := strconv.ParseBool(value)
		if err != nil {
			return err
		}
		f.SetBool(b)
	case float64:
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return err
		}
		f.SetFloat(v)
	case []float64:
		list, err := parseFloats(value)
		if err != nil {
			return err
		}
		f.Set(reflect.ValueOf(list))
	default:
		return fmt.Errorf("values of type %T can't be given", old)
	}
	return nil
}

func parseFloats(value string) ([]float64, error) {
	var list []float64
	for word := range strings.SplitSeq(value, ",") {
		v, err := strconv.ParseFloat(strings.TrimSpace(word), 64)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}
