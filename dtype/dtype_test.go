package dtype

import (
	"encoding/json"
	"fmt"
	"testing"
)

func ExampleParse() {
	for _, s := range []string{"torch.bfloat16", "fp16", "F8_E4M3"} {
		t, _ := Parse(s)
		fmt.Println(t, t.Bytes())
	}
	// Output:
	// bfloat16 2
	// float16 2
	// float8_e4m3fn 1
}

// Every format reads its own name and has a size.
func TestRoundTrip(t *testing.T) {
	if len(names) != len(sizes) {
		t.Fatalf("%d names for %d sizes", len(names), len(sizes))
	}
	for want := Float64; int(want) < len(names); want++ {
		for _, s := range []string{want.String(), "torch." + want.String(), " " + want.String() + " "} {
			if got, ok := Parse(s); got != want || !ok {
				t.Errorf("Parse(%q) = %v, %t, want %v", s, got, ok, want)
			}
		}
		if want.Bytes() == 0 {
			t.Errorf("%v takes no bytes", want)
		}
		text, err := json.Marshal(want)
		var back Type
		if err != nil || json.Unmarshal(text, &back) != nil || back != want {
			t.Errorf("%v: JSON %s reads back as %v, %v", want, text, back, err)
		}
	}
}

func TestParse(t *testing.T) {
	for s, want := range map[string]Type{
		"BF16": BFloat16, "half": Float16, "float": Float32, "double": Float64, "F16": Float16, "F32": Float32, "F64": Float64,
		"fp8_e4m3": Float8E4M3, "F8_E5M2": Float8E5M2, "F8_E8M0": Float8E8M0, "float8_e4m3": Float8E4M3,
		"I8": Int8, "I16": Int16, "I32": Int32, "I64": Int64, "U8": UInt8, "U16": UInt16, "U32": UInt32, "U64": UInt64, "BOOL": Bool,
	} {
		if got, ok := Parse(s); got != want || !ok {
			t.Errorf("Parse(%q) = %v, %t, want %v", s, got, ok, want)
		}
	}
	for _, s := range []string{"", "auto", "torch.", "bfloat", "fp8", "i128", "float8", "\x00", "torch.torch.bfloat16"} {
		if got, ok := Parse(s); got != Unknown || ok {
			t.Errorf("Parse(%q) = %v, %t, want none", s, got, ok)
		}
	}
}

func TestNotAFormat(t *testing.T) {
	for _, bad := range []Type{Unknown, Type(len(names)), 255} {
		if bad.Bytes() != 0 || bad.String() != "" {
			t.Errorf("Type(%d) is %q of %d bytes", uint8(bad), bad, bad.Bytes())
		}
	}
	var got Type
	if err := json.Unmarshal([]byte(`"int4"`), &got); err == nil {
		t.Errorf("int4 reads as %v", got)
	}
	if err := json.Unmarshal([]byte(`""`), &got); err != nil || got != Unknown {
		t.Errorf("empty text reads as %v, %v", got, err)
	}
}
