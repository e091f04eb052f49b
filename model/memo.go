package model

// Memo returns what build returned the first time that it was asked for under key: what an
// engine derives from a Model alone, whatever the layout and the flags, so that a sweep
// derives it once. The value must not be written afterwards.
func (m *Model) Memo(key any, build func() any) any {
	if v, ok := m.memo.Load(key); ok {
		return v
	}
	v, _ := m.memo.LoadOrStore(key, build())
	return v
}
