// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The finalizers of the Bare Metal Operator on objects of the group are imported as they are, because each is
// removed by one of the controllers in pkg/ironicsync. One that nothing removes would have to be left out: the
// object could never be deleted.
var finalizerRemovers = map[string]string{
	"BareMetalHostFinalizer":             "executor",
	"BMCEventSubscriptionFinalizer":      "kinds/subscription",
	"DataImageFinalizer":                 "kinds/dataimage",
	"HardwareDataFinalizer":              "executor", // with that of the host
	"HostClaimFinalizer":                 "kinds/hostclaim",
	"PreprovisioningImageFinalizer":      "kinds/preprovisioning", // also without --build-preprov-image
	"PreprovisioningImageInUseFinalizer": "kinds/preprovisioning",
	"SecretFinalizer":                    "secrets", // of a Secret, which is not imported
}

func TestFinalizersAreRemoved(t *testing.T) {
	text, err := os.ReadFile("../apis/metal3/v1alpha1/keys.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range regexp.MustCompile(`(?m)^\t([A-Za-z]+Finalizer) += `).FindAllSubmatch(text, -1) {
		name := string(match[1])
		remover, ok := finalizerRemovers[name]
		if !ok {
			t.Errorf("nothing is said to remove %s", name)
			continue
		}
		if removes := regexp.MustCompile(`(?i)(remove|delete).*\b` + name + `\b|index\(sec\.Finalizers, metal3\.` + name); !slices.ContainsFunc(sourcesOf(t, remover), removes.MatchString) {
			t.Errorf("pkg/ironicsync/%s does not remove %s", remover, name)
		}
	}
}

// sourcesOf returns the lines of a package below pkg/ironicsync, without its tests.
func sourcesOf(t *testing.T, name string) (lines []string) {
	t.Helper()
	err := filepath.WalkDir("../ironicsync/"+name, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		lines = append(lines, strings.Split(string(text), "\n")...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}
