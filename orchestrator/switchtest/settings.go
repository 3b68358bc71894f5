package switchtest

import (
	"errors"
	"fmt"
	"strings"

	"candela.dev/candela/orchestrator/config"
)

// CheckSetting refuses a setting that is not MODEL.PARAMETER=VALUE of a switch model, as --set takes it.
func CheckSetting(s string) error {
	model, setting, named := strings.Cut(s, ".")
	name, value, given := strings.Cut(setting, "=")
	if !named || !given {
		return errors.New("want MODEL.PARAMETER=VALUE")
	}
	var models []string
	for _, m := range Options().Switches {
		if m.Name == model {
			return m.Parameters.Defaults().Set(name, value)
		}
		models = append(models, m.Name)
	}
	return fmt.Errorf("there is no switch model %q (there are: %s)", model, strings.Join(models, ", "))
}

// Change applies those settings to a test that are about its switch model.
func Change(t *config.SwitchTest, settings []string) error {
	for _, s := range settings {
		model, setting, _ := strings.Cut(s, ".")
		parameter, value, _ := strings.Cut(setting, "=")
		if model != t.Switch.Model {
			continue
		}
		t.Switch.Values = t.Switch.Values.Clone()
		if err := t.Switch.Values.Set(parameter, value); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}
