package config

import (
	"encoding/json"
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portald/portald/portal/service"
)

// policy returns the settings of Services in checked documents.
func (p *PortaldConfiguration) policy() service.Policy {
	var port service.Port
	for _, s := range service.Settings() {
		if s.Field == "" {
			continue
		}
		switch field := p.serviceField(s.Field).Interface().(type) {
		case []metav1.Duration:
			times := s.Value.(service.Times).Part(&port)
			for _, t := range field {
				*times = append(*times, t.Duration)
			}
		case *metav1.Duration:
			s.Value.(service.Timeout).Set(&port, field.Duration)
		case *int32:
			if field != nil {
				s.Value.(service.Count).Set(&port, int(*field))
			}
		case string:
			s.Value.Read(field, &port)
		}
	}
	return port.Policy.Or(service.DefaultPolicy())
}

// setServiceDefaults gives the fields of settings their defaults where they are left out.
func (p *PortaldConfiguration) setServiceDefaults() {
	for _, s := range service.Settings() {
		if field := p.serviceField(s.Field); field.IsValid() && field.IsZero() {
			field.Set(reflect.ValueOf(defaultField(s.Value)))
		}
	}
}

// serviceField is the field of a setting, invalid if there is none of that name.
func (p *PortaldConfiguration) serviceField(name string) reflect.Value {
	if p.settings == nil {
		p.settings = map[string]reflect.Value{}
		for _, s := range service.Settings() {
			if s.Field != "" {
				p.settings[s.Field] = reflect.New(reflect.TypeOf(defaultField(s.Value))).Elem()
			}
		}
	}
	return p.settings[name]
}

// MarshalJSON writes the fields of settings beside the others.
func (p PortaldConfiguration) MarshalJSON() ([]byte, error) {
	type fixed PortaldConfiguration // without this method
	text, err := json.Marshal(fixed(p))
	if err != nil {
		return nil, err
	}
	all := map[string]any{}
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	for name, field := range p.settings {
		if !field.IsZero() {
			all[name] = field.Interface()
		}
	}
	return json.Marshal(all)
}

// defaultField is the default of a setting, in the type that its field has in the document.
func defaultField(value service.Value) any {
	switch v := value.(type) {
	case service.Times:
		times := make([]metav1.Duration, len(v.Default))
		for i, t := range v.Default {
			times[i].Duration = t
		}
		return times
	case service.Timeout:
		return &metav1.Duration{Duration: v.Default}
	case service.Count:
		if v.Default == nil {
			return (*int32)(nil)
		}
		return new(int32(*v.Default))
	case service.Ratio:
		return fmt.Sprintf("1/%d", v.Default)
	case service.Choice:
		return v.Default
	case service.Removals:
		return v.Default.String()
	case service.Ages:
		return service.Age{}.String()
	case service.Words:
		return v.Default
	}
	return nil
}
