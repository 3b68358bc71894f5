package diff

import (
	"fmt"
	"strings"
)

// flatten adds the settings of a canonical document (config.Test.YAML) to settings: "traffic.mtu" → "1024", list items
// as "traffic.data-pkt-events[0]". The document must have one setting per line, as in run directories. Other text gives
// keys without a YAML meaning, which still differ if two texts differ.
func flatten(settings map[string]string, prefix string, document []byte) {
	type level struct {
		indent int
		path   string
		items  int
	}
	stack := []level{{indent: -1, path: strings.TrimSuffix(prefix, ".")}}
	for line := range strings.Lines(string(document)) {
		line = strings.TrimRight(line, "\r\n")
		text := strings.TrimLeft(line, " ")
		if text == "" {
			continue
		}
		indent := len(line) - len(text)
		for len(stack) > 1 && stack[len(stack)-1].indent >= indent {
			stack = stack[:len(stack)-1]
		}
		top := &stack[len(stack)-1]
		if item, ok := strings.CutPrefix(text, "- "); ok {
			settings[fmt.Sprintf("%s[%d]", top.path, top.items)] = item
			top.items++
			continue
		}
		key, value, _ := strings.Cut(text, ":")
		path := key
		if top.path != "" {
			path = top.path + "." + key
		}
		if value = strings.TrimSpace(value); value != "" {
			settings[path] = value
			continue
		}
		stack = append(stack, level{indent: indent, path: path})
	}
}
