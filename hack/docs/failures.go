// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"slices"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic/failure"
)

// failures returns a page with what errors mean, by their first sentences.
func failures() (string, error) {
	var rows [][]string
	for _, meaning := range failure.All() {
		help := cmp.Or(meaning.Help(failure.About{Host: "NAME"}), "Nothing has to be done, or it is not known what.")
		rows = append(rows, []string{cell(meaning.What), cell(help)})
	}
	slices.SortFunc(rows, slices.Compare)
	content, err := table([]string{"First sentence", "What helps"}, rows)
	return "# Errors\n\nThis page is made of the code. `status.errorMessage` begins with one of these sentences if an error of Ironic, a BMC or\n" +
		"the ramdisk is known. [`kubectl bmh why`](../plugin.md#why) says what helps with the names of the host.\n\n" + content, err
}
