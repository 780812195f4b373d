// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzRead: nothing that a file has makes the command panic or run for ever.
func FuzzRead(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.*"))
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, text := range []string{
		"&a {apiVersion: v1, kind: List, items: [*a]}", "&a [*a]", "a: &a {nodes: [*a]}", "a: &a [x,x,x,x]\nb: &b [*a,*a,*a]\nc: [*b,*b,*b]\n",
		"apiVersion: metal3.io/v1alpha1\nkind: BareMetalHost\nmetadata: &m {name: h, labels: *m}\nspec: &s {bmc: *s}\n",
		"platform: &p {baremetal: {hosts: [*p]}}", "{\"a\":\"\\ud83d\"}", "name,address\n\"\"\"", "--- --- ---\n...\n%YAML 9\n---", "? a\n: b\n? [x]\n: y", "!!binary x", "a: !!int x",
		"\xff\xfe", "\xfe\xff\xd8\x00", "name;;\n;;;\n", "- name: &n a\n  address: *n\n", "<<: &x {name: y}\nname: z", "hosts: [~, 1, [a], {name: b}]",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, mistakes, err := Read(data, "metal3")
		if err == nil && len(entries)+len(mistakes) == 0 {
			t.Error("nothing was read, and nothing is wrong")
		}
		objects, more := Prepare(entries, Credentials{Username: "u", Password: "p"}, "metal3", noPasswordFile)
		if len(objects)+len(more) != len(entries) {
			t.Errorf("of %d machines, %d are made and %d refused", len(entries), len(objects), len(more))
		}
		for _, mistake := range append(mistakes, more...) {
			if mistake.Error() == "" || mistake.Line < 1 {
				t.Errorf("mistake %q in line %d", mistake, mistake.Line)
			}
		}
	})
}
