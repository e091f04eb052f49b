package checkpoint

// Record makes the objects of src note which of their keys are looked up from now on, and
// returns a function that gives src reduced to those keys. It is how a catalogue entry is
// made; a recorded Source is for one goroutine.
func Record(src *Source) (reduced func() *Source) {
	for _, o := range []*Object{src.Config, src.HFQuant, src.Params} {
		o.record()
	}
	return func() *Source {
		out := *src
		out.Config, out.HFQuant, out.Params = src.Config.reduce(), src.HFQuant.reduce(), src.Params.reduce()
		return &out
	}
}

// record starts noting in o and all objects below it.
func (o *Object) record() {
	if o == nil {
		return
	}
	o.read = make([]bool, len(o.values))
	for _, v := range o.values {
		v.record()
	}
}

func (v Value) record() {
	v.Dict().record()
	for _, e := range v.List() {
		e.record()
	}
}

// reduce is o without the keys that were not looked up. An object that is not empty stays
// so: whether there is anything in it may be all that was asked.
func (o *Object) reduce() *Object {
	if o == nil {
		return nil
	}
	out := NewObject()
	for i, key := range o.keys {
		if o.read[i] {
			out.Set(key, o.values[i].reduce())
		}
	}
	if out.Len() == 0 && o.Len() > 0 {
		out.Set(o.keys[0], o.values[0].reduce())
	}
	return out
}

func (v Value) reduce() Value {
	switch v.kind {
	case Dict:
		return NewDict(v.Dict().reduce())
	case List:
		elements := make([]Value, len(v.List()))
		for i, e := range v.List() {
			elements[i] = e.reduce()
		}
		return NewList(elements...)
	}
	return v
}

// Merge returns o with the keys of over set; where both have an object, these are merged.
// Neither is changed.
func (o *Object) Merge(over *Object) *Object {
	out := NewObject()
	for i, key := range o.Keys() {
		out.Set(key, o.values[i])
	}
	for i, key := range over.Keys() {
		v := over.values[i]
		if mine, _ := out.Get(key); mine.Dict() != nil && v.Dict() != nil {
			v = NewDict(mine.Dict().Merge(v.Dict()))
		}
		out.Set(key, v)
	}
	return out
}
