package metal3

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/validation"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/hardwaredata"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/kind"
)

const hardwareData = "hardwaredata"

// kinds are the kinds beside BareMetalHost.
var kinds = []kind.Kind{
	{
		Resource: hardwareData, Singular: hardwareData, ShortNames: []string{"hd"},
		New:      func() runtime.Object { return &metal3.HardwareData{} },
		NewList:  func() runtime.Object { return &metal3.HardwareDataList{} },
		Columns:  []kind.Column{kind.Age},
		Validate: validator(validation.ValidateHardwareData),
	},
}

// validator gives a validation of one kind the signature that all have.
func validator[T runtime.Object](validate func(obj, old T) field.ErrorList) func(obj, old runtime.Object) field.ErrorList {
	return func(obj, old runtime.Object) field.ErrorList {
		before, _ := old.(T) // a new object has none, and a nil interface is no T
		return validate(obj.(T), before)
	}
}

// Kinds are the storages of the kinds beside BareMetalHost, by resource.
type Kinds map[string]*kind.REST

// NewKinds makes the storage of each kind.
func NewKinds(scheme *runtime.Scheme, optsGetter generic.RESTOptionsGetter) (Kinds, error) {
	all := Kinds{}
	for _, k := range kinds {
		storage, err := kind.NewREST(k, scheme, optsGetter)
		if err != nil {
			return nil, err
		}
		all[k.Resource] = storage
	}
	return all, nil
}

// HardwareData gives the controller the recorded HardwareData.
func (k Kinds) HardwareData() *hardwaredata.Records { return hardwaredata.New(k[hardwareData].Store) }
