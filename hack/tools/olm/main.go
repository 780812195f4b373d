// SPDX-License-Identifier: Apache-2.0

// Command olm validates a bundle for OLM, the Operator Lifecycle Manager, with the Operator Framework's own validators:
//
//	olm FOLDER
//
// It prints all errors and warnings, and fails if there is an error. Beyond what the validators look for, a field of the
// ClusterServiceVersion that its type does not have is an error.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/api/pkg/validation"
	validator "github.com/operator-framework/api/pkg/validation/interfaces"
	"sigs.k8s.io/yaml"
)

// validators are those that suit a bundle, but for that of architectures, which has docker pull the images.
var validators = validator.Validators{
	validation.ClusterServiceVersionValidator,
	validation.BundleValidator,
	validation.OperatorHubV2Validator,
	validation.StandardCategoriesValidator,
	validation.StandardCapabilitiesValidator,
	validation.ObjectValidator,
	validation.GoodPracticesValidator,
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: olm FOLDER")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "olm:", err)
		os.Exit(1)
	}
}

func run(folder string) error {
	bundle, err := manifests.GetBundleFromDir(folder)
	if err != nil {
		return err
	}
	if err := checkFields(folder); err != nil {
		return err
	}
	failed := false
	for _, result := range validators.Validate(bundle.ObjectsToValidate()...) {
		for _, found := range result.Warnings {
			fmt.Println(found)
		}
		for _, found := range result.Errors {
			fmt.Println(found)
			failed = true
		}
	}
	if failed {
		return fmt.Errorf("%s is not valid", folder)
	}
	return nil
}

// checkFields decodes the ClusterServiceVersion as OLM does, but strictly.
func checkFields(folder string) error {
	paths, err := filepath.Glob(filepath.Join(folder, "manifests", "*.clusterserviceversion.yaml"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := yaml.UnmarshalStrict(content, &v1alpha1.ClusterServiceVersion{}); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}
