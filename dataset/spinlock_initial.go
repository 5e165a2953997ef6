package dataset

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/refrun/refrun/internal/dataset/initial"
	"github.com/refrun/refrun/internal/ground/strict"
)

// spinlockInitial are the parameters of initial conditions that Spinlock calls by other
// names. A range has two here, of its ends.
var spinlockInitial = map[string][]string{
	"amplitude_ratio": {"ratio"}, "boundary_sharpness": {"sharpness"}, "cell_radius": {"radius"},
	"cluster_size":        {"num_particles"},
	"clustering_strength": {"clustering"}, "code_rate": {"rate"}, "code_type": {"code"}, "compartment_type": {"pattern"},
	"cone_radius": {"radius"}, "connection_probability": {"probability"}, "correlation_strength": {"correlation"},
	"domain_size_range": {"min_size", "max_size"}, "entropy_pattern": {"pattern"},
	"entropy_range":    {"min_entropy", "max_entropy"},
	"expression_range": {"min_expression", "max_expression"}, "fluctuation_amplitude": {"fluctuation"},
	"front_shape":        {"front"},
	"gradient_direction": {"direction"}, "gradient_type": {"profile"}, "interface_angle": {"angle"},
	"interface_width":       {"width"},
	"interior_length_scale": {"correlation_length"}, "latent_length_scale": {"length_scale"},
	"local_noise_scale": {"noise_level"},
	"momentum_range":    {"min_momentum", "max_momentum"}, "network_size": {"num_nodes"}, "network_topology": {"topology"},
	"oscillation_frequency": {"omega"}, "pattern_type": {"pattern"}, "perturbation_amplitude": {"perturbation"},
	"phase_offset": {"phase"},
	"shock_angle":  {"angle"}, "shock_position": {"position"}, "shock_width": {"width"}, "smoothing": {"smoothness"},
	"spatial_decay":   {"decay"},
	"structure_types": {"structure"}, "temperature_range": {"min_temperature", "max_temperature"},
	"thermal_length_scale": {"correlation_length"}, "thermal_noise_amplitude": {"noise_level"},
	"wavenumber_range": {"min_momentum", "max_momentum"},
}

// condition returns the initial condition of a name: the text, and what the block of that
// name says beside it. What of the block has no meaning here is noted, as Spinlock itself
// drops all of it.
func (s *spinlock) condition(o *strict.Object, name, kind string, text json.RawMessage) (json.RawMessage, error) {
	place := "simulation.input_generation." + strict.Word(name)
	if block := o.Child(name); block != nil {
		block.Open()
		if err := block.Close(); err != nil {
			return nil, err
		}
		given := map[string]json.RawMessage{}
		if err := json.Unmarshal(o.Raw(name), &given); err != nil {
			return nil, o.Errorf(name, "%w", err)
		}
		fields := map[string]json.RawMessage{}
		fields["type"], _ = json.Marshal(kind)
		for _, key := range slices.Sorted(maps.Keys(given)) {
			if !s.parameter(fields, key, given[key]) {
				s.Notes = append(s.Notes, place+"."+strict.Word(key)+": not read")
			}
		}
		b, err := json.Marshal(fields)
		if err != nil {
			return nil, err
		}
		text = b
		if len(fields) > 1 {
			s.Notes = append(s.Notes, fmt.Sprintf("%s: read; Spinlock drops it", place))
		}
	}
	_, err := initial.Parse(s.file, place, text)
	return text, err
}

// parameter adds one of Spinlock's to the fields of a condition, and reports whether it has a
// meaning. null is what it gives by default, here as there.
func (s *spinlock) parameter(fields map[string]json.RawMessage, key string, value json.RawMessage) bool {
	if string(value) == "null" {
		return true
	}
	names, values := spinlockInitial[key], []json.RawMessage{value}
	if names == nil {
		names = []string{key}
	}
	var list []json.RawMessage
	if json.Unmarshal(value, &list) == nil && key != "scales" {
		values = list
	}
	if string(value) == `"random"` && key == "gradient_direction" {
		values[0] = json.RawMessage(`"any"`)
	}
	if len(names) != len(values) || names[0] == "type" {
		return false
	}
	for i, n := range names {
		b, err := json.Marshal(map[string]json.RawMessage{"type": fields["type"], n: values[i]})
		if err != nil {
			return false
		}
		if _, err := initial.Parse(s.file, "", b); err != nil {
			return false
		}
	}
	for i, n := range names {
		fields[n] = values[i]
	}
	return true
}
