package config

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// checkSchema validates the part of JSON Schema that our schemas use. It returns the problems of v.
func checkSchema(schema map[string]any, v any, path string) []string {
	if alternatives, ok := schema["oneOf"].([]any); ok {
		return checkOneOf(alternatives, v, path)
	}
	if words, ok := schema["enum"].([]any); ok &&
		!slices.ContainsFunc(words, func(w any) bool { return fmt.Sprint(w) == fmt.Sprint(v) }) {
		return []string{fmt.Sprintf("%s: %v is none of %v", path, v, words)}
	}
	if word, ok := schema["const"]; ok && word != v {
		return []string{fmt.Sprintf("%s: %v is not %v", path, v, word)}
	}
	if t, ok := schema["type"]; ok && !hasType(t, v) {
		return []string{fmt.Sprintf("%s: %v is no %v", path, v, t)}
	}
	switch v := v.(type) {
	case map[string]any:
		return checkObject(schema, v, path)
	case []any:
		var wrong []string
		items, _ := schema["items"].(map[string]any)
		for i, item := range v {
			wrong = append(wrong, checkSchema(items, item, fmt.Sprintf("%s[%d]", path, i))...)
		}
		return wrong
	case float64:
		if low, ok := schema["minimum"].(float64); ok && v < low || schema["maximum"] != nil &&
			v > schema["maximum"].(float64) {
			return []string{fmt.Sprintf("%s: %v is out of range", path, v)}
		}
	case string:
		if pattern, ok := schema["pattern"].(string); ok && !regexp.MustCompile(pattern).MatchString(v) {
			return []string{fmt.Sprintf("%s: %q doesn't match %s", path, v, pattern)}
		}
	}
	return nil
}

func checkOneOf(alternatives []any, v any, path string) []string {
	fitting := 0
	for _, a := range alternatives {
		if len(checkSchema(a.(map[string]any), v, path)) == 0 {
			fitting++
		}
	}
	if fitting != 1 {
		return []string{fmt.Sprintf("%s: %v fits %d of %d alternatives", path, v, fitting, len(alternatives))}
	}
	return nil
}

func checkObject(schema, v map[string]any, path string) []string {
	var wrong []string
	properties, _ := schema["properties"].(map[string]any)
	patterns, _ := schema["patternProperties"].(map[string]any)
	for key, value := range v {
		child, ok := properties[key].(map[string]any)
		if other, free := schema["additionalProperties"].(map[string]any); free && !ok {
			child, ok = other, true
		}
		for pattern, s := range patterns {
			if regexp.MustCompile(pattern).MatchString(key) {
				child, ok = s.(map[string]any), true
			}
		}
		if !ok {
			wrong = append(wrong, path+"."+key+": unknown")
			continue
		}
		wrong = append(wrong, checkSchema(child, value, path+"."+key)...)
	}
	required, _ := schema["required"].([]any)
	for _, key := range required {
		if _, ok := v[key.(string)]; !ok {
			wrong = append(wrong, fmt.Sprintf("%s.%v: missing", path, key))
		}
	}
	return wrong
}

func hasType(want, v any) bool {
	if list, ok := want.([]any); ok {
		return slices.ContainsFunc(list, func(w any) bool { return hasType(w, v) })
	}
	number, isNumber := v.(float64)
	switch want {
	case "object":
		_, ok := v.(map[string]any)
		return ok
	case "array":
		_, ok := v.([]any)
		return ok
	case "string":
		_, ok := v.(string)
		return ok
	case "boolean":
		_, ok := v.(bool)
		return ok
	case "null":
		return v == nil
	case "integer":
		return isNumber && number == float64(int64(number))
	}
	return want == "number" && isNumber
}

// asJSON decodes YAML as an editor's JSON Schema validator sees it.
func asJSON(t *testing.T, data []byte) any {
	t.Helper()
	var v any
	if err := yaml.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func mustSchema(t *testing.T, data []byte) map[string]any {
	t.Helper()
	var schema map[string]any
	if err := json.Unmarshal(data, &schema); err != nil {
		t.Fatal(err)
	}
	return schema
}

func TestJSONSchemaAcceptsWhatParsesAndRefusesWhatItCanSeeIsWrong(t *testing.T) {
	tests, beds := mustSchema(t, JSONSchema()), mustSchema(t, TestbedJSONSchema())
	for pattern, schema := range map[string]map[string]any{
		"../../configs/*.yml": tests, "../../configs/*/*.yml": tests, "../../testbeds/*.yml": beds,
		"testdata/listing-5-2.config.yml": tests, "testdata/virtual.testbed.yml": beds,
	} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no files, %v", pattern, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if IsSwitchTest(data) {
				continue // package switchtest has the models
			}
			if wrong := checkSchema(schema, asJSON(t, data), ""); wrong != nil {
				t.Errorf("%s: the schema refuses it:\n%s", file, strings.Join(wrong, "\n"))
			}
		}
	}
	for _, text := range []string{
		"traffic: {}", "{name: x}", "{name: X!, traffic: {}}", "{name: x, traffic: {mtuu: 1}}",
		"{name: x, traffic: {mtu: 1500}}",
		"{name: x, traffic: {dscp: 64}}", "{name: x, traffic: {data-pkt-events: [{qpn: 1, psn: 1, type: random}]}}",
		"{name: x, traffic: {data-pkt-events: [{qpn: 1, psn: 1, iter: all, type: drop}]}}",
		"{name: x, traffic: {}, expect: {gbn: perhaps}}",
		"{name: x, traffic: {}, expect: {completion: {qpn: {status: IBV_WC_SUCCESS}}}}",
	} {
		if wrong := checkSchema(tests, asJSON(t, []byte(text)), ""); wrong == nil {
			t.Errorf("the schema accepts %s", text)
		}
	}
}
