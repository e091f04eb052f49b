package hw

import (
	"slices"
	"strings"

	"headcount/problem"
)

// All returns every accelerator that is known, grouped by vendor, the usual variant of each
// chip first.
func All() []*Accelerator {
	out := make([]*Accelerator, len(accelerators))
	for i := range accelerators {
		out[i] = &accelerators[i]
	}
	return out
}

// Lookup finds an accelerator by its id ("h100-sxm-80gb"), by the name that its driver
// gives it ("NVIDIA H100 80GB HBM3"), or by a shorter name made of parts of the id, in any
// case and with any punctuation: "h100", "a100-40gb", "RTX4090", "4090". A short name that
// several variants of one chip share means the usual one: SXM, the larger memory. The error
// is a [*problem.Error] whose hint names what is near.
func Lookup(name string) (*Accelerator, error) {
	for i := range accelerators {
		if accelerators[i].ID == name {
			return &accelerators[i], nil
		}
	}
	trimmed := strings.TrimSpace(name)
	for i := range accelerators {
		if a := &accelerators[i]; strings.EqualFold(a.DriverName, trimmed) && trimmed != "" || strings.EqualFold(a.Name, trimmed) {
			return a, nil
		}
	}
	short := squash(trimmed)
	var found []*Accelerator // one of each family
	for i := range accelerators {
		a := &accelerators[i]
		if short != "" && spells(a.ID, short) && (len(found) == 0 || found[len(found)-1].family != a.family) {
			found = append(found, a)
		}
	}
	if len(found) == 1 {
		return found[0], nil
	}
	if len(found) > 1 {
		return nil, problem.New(problem.BadValue, "gpu", name, "more than one accelerator has this name").
			WithHint("one of %s", listed(found))
	}
	err := problem.New(problem.BadValue, "gpu", name, "not an accelerator that headcount knows")
	if near := nearest(short); len(near) > 0 {
		return nil, err.WithHint("did you mean %s?", listed(near))
	}
	return nil, err.WithHint("headcount gpus lists what is known; --gpu FILE.json describes another")
}

// maxShort bounds a name that is compared part by part.
const maxShort = 48

// squash puts a name in the form that [spells] compares: lower-case letters and digits,
// without the words that a vendor or a person adds. It is "" for what is too long.
func squash(name string) string {
	if len(name) > 2*maxShort {
		return ""
	}
	parts := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9') })
	parts = slices.DeleteFunc(parts, func(p string) bool { return slices.Contains(noise[:], p) })
	for i, p := range parts {
		if strings.HasPrefix(p, "sxm") {
			parts[i] = "sxm" // sxm4, sxm5
		}
	}
	short := strings.Join(parts, "")
	if len(short) > maxShort {
		return ""
	}
	return short
}

// noise are words that tell no two accelerators apart.
var noise = [...]string{"nvidia", "geforce", "tesla", "amd", "instinct", "intel", "habana", "google", "cloud", "apple", "huawei",
	"gpu", "oam", "hbm2", "hbm2e", "hbm3", "hbm3e", "blackwell", "generation", "edition", "workstation"}

// spells reports whether name is parts of id in their order, run together: "a10040g" is
// "a100" and "40gb" of "a100-sxm-40gb". A part is taken whole, save the unit of a size.
func spells(id, name string) bool {
	for id != "" {
		part, rest, _ := strings.Cut(id, "-")
		if after, ok := strings.CutPrefix(name, part); ok && (after == "" || spells(rest, after)) {
			return true
		}
		if size, ok := strings.CutSuffix(part, "gb"); ok {
			if after, ok := strings.CutPrefix(name, size); ok && (after == "" || after == "g") {
				return true
			}
		}
		id = rest
	}
	return false
}

// nearest returns the usual accelerators of the families whose names are the fewest typing
// errors away from short, if those are few.
func nearest(short string) []*Accelerator {
	const most, reach = 3, 2
	var byDistance [reach + 1][]*Accelerator
	for i := range accelerators {
		a := &accelerators[i]
		if i > 0 && accelerators[i-1].family == a.family {
			continue
		}
		d := problem.Distance(short, a.family)
		if rest, ok := strings.CutPrefix(short, a.family); ok && rest != "" {
			d = min(d, reach) // "h100foo"
		}
		if d <= min(reach, len(short)-1) {
			byDistance[d] = append(byDistance[d], a)
		}
	}
	for _, near := range byDistance {
		if len(near) > 0 {
			return near[:min(len(near), most)]
		}
	}
	return nil
}

func listed(as []*Accelerator) string {
	ids := make([]string, len(as))
	for i, a := range as {
		ids[i] = a.ID
	}
	return strings.Join(ids, ", ")
}
